"""A tokenised corpus that a disk has damaged is refused in a sentence that says how to get it back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anyorder.errors import AnyorderError
from anyorder.training.blocks import Blocks


def write(folder: Path, ids: object, offsets: object, sizes: object) -> None:
    """A cache of one split."""
    np.save(folder / "train.ids.npy", ids)
    np.save(folder / "train.offsets.npy", offsets)
    (folder / "meta.json").write_text(json.dumps({"blocks": {"train": sizes}}))


IDS, OFFSETS, SIZES = np.array([2, 7, 3, 2, 3], dtype=np.uint16), np.array([0, 3, 5]), [1, 1]


def test_what_is_sound_is_read(tmp_path: Path) -> None:
    write(tmp_path, IDS, OFFSETS, SIZES)
    blocks = Blocks.load(tmp_path, "train", 8)
    assert [blocks[i].tolist() for i in range(len(blocks))] == [[2, 7, 3], [2, 3]]
    assert blocks.sizes == (1, 1)


@pytest.mark.parametrize(
    ("ids", "offsets", "sizes", "says"),
    [
        (IDS.astype(np.float32), OFFSETS, SIZES, "another kind"),
        (IDS.reshape(1, 5), OFFSETS, SIZES, "another kind"),
        (IDS, np.array([], dtype=np.int64), SIZES, "another kind"),
        (IDS, np.array([0, 6, 5]), SIZES, "do not follow"),
        (IDS, np.array([0, 3, 6]), SIZES, "do not follow"),
        (IDS, OFFSETS, [3], "other numbers of blocks"),
        (IDS, OFFSETS, [3, -1], "other numbers of blocks"),
        (IDS, OFFSETS, 3, "is damaged"),
        (IDS + 1, OFFSETS, SIZES, "token 8 is not in the vocabulary"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, ids: np.ndarray, offsets: np.ndarray, sizes: object, says: str
) -> None:
    write(tmp_path, ids, offsets, sizes)
    with pytest.raises(AnyorderError, match=f"{says}.*remove the folder"):
        Blocks.load(tmp_path, "train", 8)


@pytest.mark.parametrize("name", ["train.ids.npy", "train.offsets.npy", "meta.json"])
@pytest.mark.parametrize("damage", [lambda data: data[:5], lambda data: data.replace(b"}", b"("), lambda _: b""])
def test_damaged_files_are_refused(tmp_path: Path, name: str, damage: object) -> None:
    write(tmp_path, IDS, OFFSETS, SIZES)
    (tmp_path / name).write_bytes(damage((tmp_path / name).read_bytes()))  # type: ignore[operator]
    with pytest.raises(AnyorderError, match="remove the folder") as refusal:
        Blocks.load(tmp_path, "train", 8)
    assert "\n" not in str(refusal.value)
