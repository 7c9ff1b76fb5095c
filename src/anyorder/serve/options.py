"""What a user may say to the server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from anyorder.errors import AnyorderError
from anyorder.options import Options, option

_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+")


@dataclass(frozen=True)
class ServeOptions(Options):
    """Of ``anyorder serve``."""

    host: str = option("127.0.0.1", "The address to listen at; beyond this machine only with a key.")
    port: int = option(8765, "The port; 0 takes a free one.", least=0, most=65535)
    api_key_file: Path | None = option(None, "A file with a key, one line; requests must bring it as a bearer token.")
    no_key: bool = option(False, "Listen beyond this machine without a key: whoever reaches the port may use it.")
    cors: str | None = option(
        None, "A web origin whose pages may send requests, such as https://example.org; none if absent."
    )
    queue: int = option(64, "Requests that may wait; more are refused with 429.", least=1)
    seconds: float = option(60.0, "Seconds a request may take, waiting included.", above=0)
    drain: float = option(20.0, "Seconds in which a server that is told to stop finishes what it has begun.", least=0)
    body: int = option(2**20, "Largest request, in bytes.", least=1024)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.local and self.api_key_file is None and not self.no_key:
            raise AnyorderError(f"{self.host} can be reached from other machines: use --api-key-file, or --no-key")
        if self.cors is not None and not _ORIGIN.fullmatch(self.cors):
            raise AnyorderError(f"{self.cors!r} is no origin: write one such as https://example.org, without a path")

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def key(self) -> str | None:
        """The key that requests must bring."""
        if self.api_key_file is None:
            return None
        try:
            key = self.api_key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise AnyorderError("the file of --api-key-file cannot be read: write the key into it, one line") from None
        if len(key) < 8 or not key.isascii() or not key.isprintable():
            raise AnyorderError("the key in --api-key-file must be one line of at least 8 printable characters")
        return key
