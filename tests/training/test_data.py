"""Text files to blocks: nothing lost, nothing crossed, nothing stale."""

import gzip
import json
import lzma
import sys

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from anyorder.errors import AnyorderError
from anyorder.training import data
from anyorder.training.blocks import Blocks
from anyorder.training.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def tokenizer(corpus):
    texts = [p for d in data.documents(corpus / "small.txt") for p in d]
    return train_tokenizer(texts, vocab_size=120, max_length=32)


def test_tokenizer_is_cased_and_complete(tokenizer):
    assert len(tokenizer) <= 120
    special = ("pad", "unk", "cls", "sep", "mask")
    assert [getattr(tokenizer, f"{name}_token_id") for name in special] == [0, 1, 2, 3, 4]
    ids = tokenizer("The old man saw the sea.")["input_ids"]
    assert ids[0] == 2
    assert ids[-1] == 3
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == "The old man saw the sea."
    assert tokenizer("The")["input_ids"] != tokenizer("the")["input_ids"]


def test_tokenizer_training_is_reproducible(corpus, tokenizer):
    texts = [p for d in data.documents(corpus / "small.txt") for p in d]
    for _ in range(5):
        assert train_tokenizer(texts, vocab_size=120, max_length=32).get_vocab() == tokenizer.get_vocab()


def test_blocks_hold_every_token_and_never_cross_documents(corpus, tokenizer):
    docs = list(data.documents(corpus / "small.txt"))
    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    for doc in docs:
        expected = [i for p in doc for i in [*tokenizer(p, add_special_tokens=False)["input_ids"], sep]]
        blocks = list(data.to_blocks([doc], tokenizer, length=32, min_tokens=1))
        assert all(b[0] == cls and len(b) <= 32 for b in blocks)
        assert all(len(b) == 32 for b in blocks[:-1])
        assert [i for b in blocks for i in b[1:]] == expected
    # documents together give the blocks of each by itself, in order
    together = list(data.to_blocks(docs, tokenizer, length=32, min_tokens=1))
    assert together == [b for d in docs for b in data.to_blocks([d], tokenizer, length=32, min_tokens=1)]


def test_short_tails_are_dropped(corpus, tokenizer):
    docs = list(data.documents(corpus / "small.txt"))
    assert all(len(b) > 20 for b in data.to_blocks(docs, tokenizer, length=32, min_tokens=20))


def test_a_block_holds_more_than_its_opening(tokenizer):
    """A document that fills its block to the last token leaves no empty one behind."""
    text = "the old man"
    full = len(tokenizer(text)["input_ids"])
    blocks = list(data.to_blocks([[text], ["dog"]], tokenizer, full, 0))
    assert blocks == [tokenizer(text)["input_ids"], tokenizer("dog")["input_ids"]]


def test_line_unit(tmp_path, tokenizer):
    path = tmp_path / "lines.txt"
    path.write_text("the old man\n\nthe dog\n")
    assert list(data.documents(path, "line")) == [["the old man"], ["the dog"]]
    assert len(list(data.to_blocks(list(data.documents(path, "line")), tokenizer, 32, 1))) == 2


def test_compressed_files_read_alike(corpus, tmp_path):
    text = (corpus / "small.txt").read_bytes()
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(text))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text))
    expected = list(data.documents(corpus / "small.txt"))
    assert list(data.documents(tmp_path / "a.txt.xz")) == expected
    assert list(data.documents(tmp_path / "a.txt.gz")) == expected


def saved_as(kind, folder, texts):
    """The same records in each form that is read."""
    path = folder / {"folder": "saved", "parquet": "a.parquet", "jsonl": "a.jsonl.gz"}[kind]
    rows = Dataset.from_dict({"body": texts, "label": list(range(len(texts)))})
    if kind == "folder":
        rows.save_to_disk(path)
    elif kind == "parquet":
        rows.to_parquet(path)
    else:
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


@pytest.mark.parametrize("kind", ["folder", "parquet", "jsonl"])
def test_records_are_documents(tmp_path, kind, tokenizer):
    path = saved_as(kind, tmp_path, ["the old man\nthe dog", "", "the sea"])
    assert list(data.documents(path, column="body")) == [["the old man", "the dog"], ["the sea"]]
    assert list(data.documents(path, "line", "body")) == [["the old man"], ["the dog"], ["the sea"]]
    made = data.cache(
        [path], tokenizer, root=tmp_path / "cache", length=32, column="body", holdout=(0.0,), min_tokens=1
    )
    assert len(Blocks.load(made, "train")) == 2
    for column, message in (("text", "no (column )?'text', only body, label"), ("label", "which is not a text")):
        with pytest.raises(AnyorderError, match=message):
            list(data.documents(path, column=column))


def test_a_folder_of_a_dataset_follows_its_content(tmp_path, tokenizer):
    options = {"root": tmp_path / "cache", "length": 32, "column": "body", "holdout": (0.0,), "min_tokens": 1}
    made = []
    for name, texts in (("a", ["the old man"]), ("b", ["the old man"]), ("c", ["the old dog"])):
        (tmp_path / name).mkdir()
        made.append(data.cache([saved_as("folder", tmp_path / name, texts)], tokenizer, **options))
    blocks = [Blocks.load(folder, "train")[0].tolist() for folder in made]
    assert blocks[0] == blocks[1] != blocks[2]
    assert made[0] != made[2]


def test_what_is_no_dataset_is_refused(tmp_path):
    DatasetDict(train=Dataset.from_dict({"text": ["the sea"]})).save_to_disk(tmp_path / "splits")
    assert list(data.documents(tmp_path / "splits" / "train")) == [["the sea"]]
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    for name, message in (
        ("splits", "name one of them"),
        ("empty", "is no dataset"),
        ("torn.parquet", "is no dataset"),
    ):
        with pytest.raises(AnyorderError, match=message):
            list(data.documents(tmp_path / name))


def test_without_the_datasets_library_the_remedy_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    (tmp_path / "saved").mkdir()
    with pytest.raises(AnyorderError, match=r"pip install 'anyorder\[train\]'"):
        list(data.documents(tmp_path / "saved"))


def test_cache_is_made_once_and_follows_its_inputs(corpus, tmp_path, tokenizer):
    source = tmp_path / "small.txt"
    source.write_bytes((corpus / "small.txt").read_bytes())
    options = {"root": tmp_path / "cache", "length": 32, "holdout": (0.1,), "min_tokens": 4}
    first = data.cache([source], tokenizer, **options)
    stamp = (first / "train.ids.npy").stat().st_mtime_ns
    assert data.cache([source], tokenizer, **options) == first
    assert (first / "train.ids.npy").stat().st_mtime_ns == stamp
    assert data.cache([source], tokenizer, **{**options, "length": 16}) != first
    source.write_text(source.read_text() + "\nThe end.\n")
    assert data.cache([source], tokenizer, **options) != first
    train, valid = Blocks.load(first, "train"), Blocks.load(first, "valid")
    docs = list(data.documents(corpus / "small.txt"))
    held = list(data.to_blocks(docs[-4:], tokenizer, 32, 4))  # the last 10 % of 40 documents
    assert [v.tolist() for v in valid] == held
    assert len(train) > len(valid) > 0
    assert isinstance(train.ids, np.memmap)


def test_files_of_one_name_in_two_folders(corpus, tmp_path, tokenizer):
    files = [tmp_path / name / "small.txt" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
        file.write_bytes((corpus / "small.txt").read_bytes())
    options = {"root": tmp_path / "cache", "length": 32, "min_tokens": 4}
    first = data.cache(files, tokenizer, **options)
    assert data.cache(files, tokenizer, **options) == first
    files[0].write_text(files[0].read_text().replace("dog", "sea"))
    assert data.cache(files, tokenizer, **options) != first


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\n\n", "holds no text"), (b"caf\xe9 \xff\n", "is not UTF-8"), (b"one document\n", "too few to hold out")],
)
def test_bad_files(tmp_path, content, message):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(AnyorderError, match=message):
        data.split(path, "document", 0.1)


def test_missing_file(tmp_path):
    with pytest.raises(AnyorderError, match="no data file"):
        list(data.documents(tmp_path / "nothing.txt"))
    with pytest.raises(AnyorderError, match="no data file"):  # before a tokenizer is learned from it
        data.checksums([tmp_path / "nothing.txt"])
