"""Tampered checkpoints: each is refused in a sentence or answers with numbers, and never runs code."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import anyorder
from anyorder.errors import AnyorderError
from campaign.inputs import Kind
from campaign.mutate import changed, damaged
from campaign.tally import Broken, check_numbers, check_sentence
from tiny import VOCAB

CANARY = Path("executed")
Files = dict[str, bytes | None]  # what is written into the copy of a checkpoint; None removes the file
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


class _Code:
    """A pickle that runs a command when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {CANARY.resolve()}",)


def _evil() -> bytes:
    return pickle.dumps(_Code())


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """(header, weights) of a safetensors file."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def with_header(header: Any, weights: bytes, size: int | None = None) -> bytes:
    """The file again, with the length of the header as it is or as it is claimed."""
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if size is None else size) + raw + weights


@st.composite
def _bytes(draw: st.DrawFn, names: tuple[str, ...], folder: str) -> Files:
    name = draw(st.sampled_from(names))
    return {name: draw(damaged(Path(folder, name).read_bytes()))}


@st.composite
def _json(draw: st.DrawFn, folder: str) -> Files:
    name = draw(st.sampled_from(["config.json", "config.json", "tokenizer_config.json", "tokenizer.json"]))
    value = json.loads(Path(folder, name).read_text())
    keys = [*value, "auto_map", "attn_implementation", "quantization_config", "transformers_weights", "mask_token_id",
            "anyorder_pairs", "architectures", "position_embedding_type"]  # fmt: skip
    return {name: json.dumps(draw(changed(value, st.sampled_from(keys)))).encode("utf-8", "surrogatepass")}


@st.composite
def _header(draw: st.DrawFn, folder: str) -> Files:
    header, weights = header_of(Path(folder, WEIGHTS).read_bytes())
    how = draw(st.sampled_from(["change", "size", "shape", "dtype"]))
    size = draw(st.sampled_from([0, 1, 2**20, 2**32, 2**63, 2**64 - 1])) if how == "size" else None
    one = header[draw(st.sampled_from([name for name in header if name != "__metadata__"]))]
    if how == "shape":
        one["shape"] = draw(st.sampled_from([[], [0], one["shape"][::-1], [2**40], [-1], [1, *one["shape"]], ["x"]]))
    elif how == "dtype":
        one["dtype"] = draw(st.sampled_from(["F16", "F64", "I32", "BF16", "BOOL", "F8_E4M3", "X"]))
    elif how == "change":
        header = draw(changed(header, st.sampled_from(list(header))))
    return {WEIGHTS: with_header(header, weights, size)}


@st.composite
def _flipped(draw: st.DrawFn, folder: str) -> Files:
    """One to three of the high bits of weights, which make them huge, NaN or infinite."""
    header, weights = header_of(Path(folder, WEIGHTS).read_bytes())
    found = bytearray(weights)
    for _ in range(draw(st.integers(1, 3))):
        found[4 * draw(st.integers(0, len(found) // 4 - 1)) + 3] ^= draw(st.sampled_from([0x40, 0x20, 0x80, 0x7F]))
    return {WEIGHTS: with_header(header, bytes(found))}


@st.composite
def _shards(draw: st.DrawFn, folder: str) -> Files:
    """An index that names shards elsewhere, pickles, or nothing."""
    whole = Path(folder, WEIGHTS).read_bytes()
    names = [name for name in header_of(whole)[0] if name != "__metadata__"]
    outside = str(Path("outside", WEIGHTS).resolve())
    elsewhere = ["../outside/" + WEIGHTS, "a/../../outside/" + WEIGHTS, outside, "/dev/zero", ".."]
    here = ["evil.bin", "none.safetensors", "", "part.safetensors", "evil.safetensors"]
    shard = draw(st.sampled_from([*elsewhere, *here]))
    index: Any = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, shard)}
    if draw(st.integers(0, 2)) == 0:
        index = draw(changed(index, st.sampled_from(names)))
    files: Files = {WEIGHTS: None, INDEX: json.dumps(index).encode("utf-8", "surrogatepass"), "evil.bin": _evil()}
    return {**files, "part.safetensors": whole, "evil.safetensors": _evil()}


@st.composite
def _code(draw: st.DrawFn, folder: str) -> Files:
    """Pickles and Python files, under honest names and others, without leave to run them."""
    code = f"open({str(CANARY.resolve())!r}, 'w')\nclass Model: pass\n".encode()
    files: Files = {"evil.py": code, "modeling_bert.py": code, "tokenization_bert.py": code}
    pickled = draw(st.sampled_from([WEIGHTS, "pytorch_model.bin", "model.bin", "length_head.safetensors", ""]))
    if pickled:
        files[pickled] = _evil()
        if pickled.endswith(".bin"):
            files[WEIGHTS] = None
    classes = ("AutoConfig", "AutoModelForMaskedLM", "AutoTokenizer")
    for name in draw(st.lists(st.sampled_from(["config.json", "tokenizer_config.json"]), unique=True)):
        said = json.loads(Path(folder, name).read_text())
        said["auto_map"] = {one: draw(st.sampled_from(["evil.Model", ["evil.Model", None], 3])) for one in classes}
        if draw(st.booleans()):
            said["model_type"] = "unheard-of"
        if draw(st.booleans()):
            said["tokenizer_class"] = "EvilTokenizer"
        files[name] = json.dumps(said).encode()
    return files


def _load(case: tuple[str, Files]) -> str:
    """Load the checkpoint with these files in place of its own; what answers must answer with numbers."""
    folder, files = case
    place = Path(f"tampered-{folder}")
    _put(place, files)
    try:
        lm = anyorder.load.__wrapped__(str(place))  # type: ignore[attr-defined]  # nothing may be remembered
        if outside := _named_outside(files):
            raise Broken(f"weights were read from {outside}")
        found = [*lm.fill("the ___ sat on the ___ .", top=2), lm.score("the old man sat .", "chain"),
                 *lm.generate(length=4, seed=1)]  # fmt: skip
        for one in found:
            check_numbers(one.to_dict())
        if folder == "translator":
            check_numbers(lm.translate("der alte mann").to_dict())
        return "answered"
    except AnyorderError as error:
        check_sentence(str(error))
        return "refused"
    finally:
        if CANARY.exists():
            CANARY.unlink()
            raise Broken("code that came with the checkpoint was executed")
        _put(place, {name: _original(folder, name) for name in files})


def _put(place: Path, files: Files) -> None:
    """Only what differs is written. A file is replaced, never written over: a model may still have it mapped."""
    for name, data in files.items():
        (place / name).unlink(missing_ok=True)
        if data is not None:
            (place / name).write_bytes(data)


@cache
def _original(folder: str, name: str) -> bytes | None:
    path = Path(folder, name)
    return path.read_bytes() if path.exists() else None


def _named_outside(files: Files) -> str | None:
    """A shard beyond the folder that an index names."""
    try:
        shards = set(json.loads(files.get(INDEX) or b"{}").get("weight_map", {}).values())
    except (ValueError, AttributeError, TypeError):
        return None
    return next((s for s in shards if isinstance(s, str) and (".." in s or s.startswith("/"))), None)


def furnish() -> None:
    """What tampered files may point at, a checkpoint with an old vocabulary, and copies of all to tamper with."""
    shutil.copytree("model", "outside")
    shutil.copytree("model", "old", ignore=shutil.ignore_patterns("tokenizer*"))
    Path("old/vocab.txt").write_text("\n".join(VOCAB) + "\n")
    Path("old/curve.json").write_text(json.dumps(
        {"visible": [0.0, 0.5], "loss": [3.0, 2.0], "standard_error": [0.1, 0.1], "tokens": 8, "texts": 2}
    ))  # fmt: skip
    for folder in ("model", "translator", "old"):
        shutil.copytree(folder, f"tampered-{folder}")
    _original.cache_clear()


def kinds() -> dict[str, Kind]:
    """Kinds of tampered checkpoints; the working directory is a :func:`campaign.place.place`."""
    furnish()
    texts = ("config.json", WEIGHTS, "tokenizer.json", "tokenizer_config.json")
    ways: dict[str, st.SearchStrategy[tuple[str, Files]]] = {
        "damaged files": _bytes(texts, "model").map(lambda files: ("model", files)),
        "damaged pairs": _bytes((*texts, "length_head.safetensors"), "translator").map(lambda f: ("translator", f)),
        "old vocabularies and curves": _bytes(("vocab.txt", "curve.json"), "old").map(lambda files: ("old", files)),
        "changed settings": _json("model").map(lambda files: ("model", files)),
        "headers and shapes": _header("model").map(lambda files: ("model", files)),
        "flipped weights": _flipped("model").map(lambda files: ("model", files)),
        "shards": _shards("model").map(lambda files: ("model", files)),
        "code": _code("model").map(lambda files: ("model", files)),
    }
    return {f"checkpoints: {name}": Kind(made, _load) for name, made in ways.items()}
