"""A hub that cannot be reached is noticed within a second or two, not after a minute of retries."""

from __future__ import annotations

import os
import socket
import sys
import threading
import urllib.parse
import urllib.request
from typing import Any

from anyorder.errors import AnyorderError

PATIENCE = 1.5  # seconds


def check_available(name: str | os.PathLike[str]) -> None:
    """Refuse the name of a model that is neither a folder, nor in the hub's cache, nor to be had from the hub."""
    name = os.fspath(name)
    if os.path.isdir(name) or not offline_if_unreachable():
        return
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        cached = None
    if not isinstance(cached, str):
        raise AnyorderError(
            f"there is no folder {name}, and as a Hugging Face name it is not in the cache while the hub is not "
            "reachable: check the path, or connect once to download it"
        )


def offline_if_unreachable() -> bool:
    """Whether the hub cannot be reached; then this process does not ask it again."""
    constants: Any = sys.modules.get("huggingface_hub.constants")
    known = constants.HF_HUB_OFFLINE if constants else os.environ.get("HF_HUB_OFFLINE", "0").lower() not in ("", "0")
    if known:
        return True
    if urllib.request.getproxies() or _reachable():  # what a proxy can reach only asking it would show
        return False
    os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when huggingface_hub is imported
    if constants:
        constants.HF_HUB_OFFLINE = True
    return True


def _reachable() -> bool:
    address = urllib.parse.urlparse(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    answered = threading.Event()

    def knock() -> None:
        port = address.port or (443 if address.scheme == "https" else 80)
        try:
            socket.create_connection((address.hostname or "", port), PATIENCE).close()
        except OSError:
            return
        answered.set()

    # In a thread, since the time a name server takes is not under our control.
    caller = threading.Thread(target=knock, daemon=True)
    caller.start()
    caller.join(PATIENCE)
    return answered.is_set()
