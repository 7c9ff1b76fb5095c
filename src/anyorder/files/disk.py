"""Folders that are whole or not there (written beside, synced, renamed), checksums, outputs that can be written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from anyorder.errors import AnyorderError

LOCK = ".lock"  # ends the name of a file that says that another is being written
UNFINISHED = ".writing"  # ends the name of a folder while it is written
REPLACED = ".writing.old"  # ends the name of one that is being replaced


def atomically(target: Path, write: Callable[[Path], object]) -> None:
    """``write(folder)`` into a folder that takes the name ``target`` only once all of it is on disk.

    A folder of that name is replaced. If the process dies between the two renames, the next writer puts it back first.
    """
    temporary, replaced = (target.with_name(target.name + end) for end in (UNFINISHED, REPLACED))
    _put_back(replaced, target)
    for leftover in (temporary, replaced):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        write(temporary)
        for file in temporary.rglob("*"):
            _sync(file)
        if target.exists():
            target.rename(replaced)
        temporary.rename(target)
        _sync(target.parent)
        shutil.rmtree(replaced, ignore_errors=True)
    except Exception as error:  # torch and safetensors wrap the disk's answer in errors of their own
        shutil.rmtree(temporary, ignore_errors=True)
        _put_back(replaced, target)
        disks = isinstance(error, OSError) or re.search(r"os error|no space left|writ", str(error), re.I)
        if isinstance(error, AnyorderError) or not disks:
            raise
        reason = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise AnyorderError(
            f"could not write {target} (is the disk full? {reason}): the last good checkpoint is untouched; "
            f"make room and continue with --resume, or run it again"
        ) from error


def _put_back(replaced: Path, target: Path) -> None:
    """Give a folder that was to be replaced its name again, if nothing has taken its place."""
    if replaced.exists() and not target.exists():
        replaced.rename(target)


@contextmanager
def only_writer(path: Path | None) -> Iterator[None]:
    """Refuse a second process that would write ``path`` while this one does; None and devices are anybody's.

    The lock is the system's, on a file beside, and ends with the process however that ends.
    """
    if sys.platform == "win32" or path is None or not (path.is_file() or path.is_dir() or not path.exists()):
        yield
        return
    import fcntl

    beside = path.with_name(path.name + LOCK)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(beside, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another place") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it before may have removed it: then the one that is there now is not ours.
            mine = beside.exists() and os.path.samestat(os.fstat(handle), beside.stat())
        except BlockingIOError:
            mine = False
        if not mine:
            raise AnyorderError(f"another process is writing {path}: wait until it has ended, or choose another name")
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)
    finally:
        os.close(handle)


def check_output(path: Path | None, *, overwrite: bool, also: str = "") -> None:
    """Refuse, before any work, an output that could not be written, or a finished one that would be lost."""
    if path is None:
        return
    if path.is_file() and not overwrite:
        raise AnyorderError(f"{path} exists: replace it with --overwrite, or choose another name{also}")
    new = not path.exists()
    try:
        with path.open("ab"):
            pass
    except OSError as error:
        raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another place") from None
    if new:
        path.unlink()


def check_folder(path: Path, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder to write whose content would be lost."""
    taken = path.is_file() or (path.is_dir() and any(path.iterdir()))
    if taken and not overwrite:
        raise AnyorderError(f"{path} exists: replace it with --overwrite, or choose another name")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Checksum of a file's bytes; of a folder, of its files' names and checksums."""
    if path.is_dir():
        files = {str(file.relative_to(path)): sha256(file) for file in sorted(path.rglob("*")) if file.is_file()}
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
