"""What goes to the disk: whole or not there, and by one process at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from anyorder.errors import AnyorderError
from anyorder.files.disk import REPLACED, UNFINISHED, atomically, only_writer

HOLD = """
import sys, time
from pathlib import Path
from anyorder.files.disk import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    """Another process is refused; one that is killed holds nothing any more."""
    out = tmp_path / "new" / "out.jsonl"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(out)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(AnyorderError, match="another process is writing"), only_writer(out):
            pass
        other.kill()
    lock = out.with_name("out.jsonl.lock")
    assert lock.exists()  # left by the one that was killed
    with only_writer(out):
        pass
    assert not lock.exists()


def test_different_outputs_do_not_meet_and_devices_are_free(tmp_path: Path) -> None:
    with only_writer(tmp_path / "a"), only_writer(tmp_path / "b"), only_writer(Path("/dev/null")), only_writer(None):
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.lock", "b.lock"]
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AnyorderError, match="cannot write"), only_writer(tmp_path / "file" / "out"):
        pass


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), OSError(30, "Read-only file system"),
     SafetensorError("Error while serializing: I/O error: File too large (os error 27)"),
     RuntimeError("PytorchStreamWriter failed writing file data/0")],
)  # fmt: skip
def test_a_folder_that_could_not_be_written_is_not_there(tmp_path: Path, error: Exception) -> None:
    def write(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise error

    with pytest.raises(AnyorderError, match="could not write") as refusal:
        atomically(tmp_path / "target", write)
    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_refusal_is_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    def write(_: Path) -> None:
        raise AnyorderError("line 3 is no object: write one object per line")

    with pytest.raises(AnyorderError, match="line 3 is no object"):
        atomically(tmp_path / "target", write)
    assert not list(tmp_path.iterdir())


class Killed(BaseException):
    """Nothing in the process catches it, as with kill -9."""


def replace_and_fail(folder: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Replace ``folder`` by another, and meet ``error`` when the new one is to take its name."""
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(UNFINISHED):
            raise error
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        atomically(folder, lambda new: (new / "which").write_text("new"))


def test_a_folder_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    for which in ("old", "new"):
        atomically(tmp_path / "target", lambda new, which=which: (new / "which").write_text(which))
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (tmp_path / "target" / "which").read_text() == "new"


def test_a_kill_while_a_folder_is_replaced_loses_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    atomically(target, lambda new: (new / "which").write_text("old"))
    with pytest.raises(Killed):
        replace_and_fail(target, monkeypatch, Killed())
    assert (tmp_path / f"target{REPLACED}" / "which").read_text() == "old"

    def fail(_: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(AnyorderError):  # the next writer puts it back before it does anything else
        atomically(target, fail)
    assert (target / "which").read_text() == "old"


def test_a_disk_that_fails_while_a_folder_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    atomically(target, lambda new: (new / "which").write_text("old"))
    with pytest.raises(AnyorderError, match="could not write"):
        replace_and_fail(target, monkeypatch, OSError(30, "Read-only file system"))
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert (target / "which").read_text() == "old"
