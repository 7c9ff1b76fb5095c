"""What a user may say to the server."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.options import Options, option


@dataclass(frozen=True)
class ServeOptions(Options):
    """Of ``anyorder serve``."""

    host: str = option("127.0.0.1", "The address to listen at; beyond this machine only with a key.")
    port: int = option(8765, "The port; 0 takes a free one.", least=0, most=65535)
    queue: int = option(64, "Requests that may wait; more are refused with 429.", least=1)
    seconds: float = option(60.0, "How long a request may take, waiting included.", above=0)
    drain: float = option(
        20.0, "How long a server that is told to stop finishes what it has begun, in seconds.", least=0
    )
