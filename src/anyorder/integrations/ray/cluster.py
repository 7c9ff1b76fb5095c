"""The cluster: reached at an address or started on this machine, what it has, and what it says of its dead."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anyorder.errors import AnyorderError

RETRIES = 3  # of a window whose worker died
_STORE = 100 * 2**20  # bytes of the object store on this machine: windows are small
_STARTS = 3  # times that Ray is started before it is given up
_QUIET = {"logging_level": "error", "log_to_driver": False}


def library() -> Any:
    """The library, imported only where it is used."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise AnyorderError("Ray is not installed: pip install 'anyorder[cluster]'") from error
    return ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """A connection to a cluster, or Ray on this machine, until the block ends; one that is there is left alone."""
    ray = library()
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anyone
    if address is None:
        _start_here(workers or os.cpu_count() or 1)
    else:
        _join(address)
    try:
        yield
    finally:
        ray.shutdown()


def _start_here(cpus: int) -> None:
    """Ray on this machine alone."""
    ray = library()
    # Ray would have its workers yield to all else (nice 15), which on a busy machine means to stand still.
    os.environ.setdefault("RAY_worker_niceness", "0")
    here = {"include_dashboard": False, "object_store_memory": _STORE, "_node_ip_address": "127.0.0.1"}
    failed: Exception | None = None
    for _ in range(_STARTS):
        try:
            ray.init("local", num_cpus=cpus, **here, **_QUIET)
            return
        except Exception as error:  # Ray's own has no type when a busy machine takes longer than the 30 s it waits
            failed = error
            ray.shutdown()
    raise AnyorderError(
        f"Ray does not start on this machine ({_sentence(failed)}): leave out --engine ray, or name a cluster with "
        "--address"
    )


def _join(address: str) -> None:
    """A cluster that is there."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():  # knock before Ray does, which would wait for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        library().init(address, **_QUIET)
    except (OSError, RuntimeError, ValueError) as error:
        raise AnyorderError(
            f"no Ray cluster answers at {address} ({_sentence(error)}): start one with ray start --head, or leave out "
            "--address"
        ) from None


def _sentence(error: Exception | None) -> str:
    return " ".join(str(error).split())[:200]


def share(workers: int | None, device: str | None, spare: int = 0) -> tuple[int, dict[str, Any]]:
    """How many workers, and what each takes of the cluster: a GPU, or a part of one, where there are any."""
    have = library().cluster_resources()
    gpus = 0 if device == "cpu" else int(have.get("GPU", 0))
    count = workers or gpus or max(1, int(have.get("CPU", 1)) - spare)
    return count, {"num_cpus": 1, **({"num_gpus": min(1, gpus / count)} if gpus else {})}


def answer_of(call: Any, doing: str) -> Any:
    """What a call gives back, or a sentence about the worker that died over it ``doing`` something."""
    ray = library()
    try:
        return ray.get(call)
    except ray.exceptions.RayActorError:
        raise AnyorderError(
            f"a worker died {RETRIES + 1} times {doing}: give fewer workers more memory each, or look into Ray's logs"
        ) from None
