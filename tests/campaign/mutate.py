"""Strategies: valid inputs, and what becomes of them if a user, a disk or an enemy changes them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tiny import VOCAB, WORDS

BLANKS = ["___", "___{2}", "___{1-3}", "___{0}", "___{9-1}", "___{x}", "___{999999999999}", "___{-1}", "____", "__",
          "___{", "___{}", "___{1-}", "...", "\\___", "[MASK]", "[SEP]", "[CLS]", "[PAD]", "[UNK]"]  # fmt: skip
ODD = ["", " ", "\t", "\n", "\x00", "\u200b", "\ufeff", "\u202e", "é", "e\u0301", "ß", "漢字", "🙂", "👩‍👩‍👧", "\ud800",
       "a" * 300, "\x1b[31m", "%s", "{}", "<b>", "'", '"', "\\", "-", "--", "--top", "٣", "½"]  # fmt: skip
NUMBERS = ["0", "1", "2", "3", "7", "-1", "1.5", "0.5", "1e-9", "1e400", "nan", "inf", "-inf", "٣", "0x10", "1_0", " 1",
           str(2**31), str(2**63 - 1), str(2**63), str(10**30), "-0.0", "1,2", "1,,2", "true", "None"]  # fmt: skip

words = st.sampled_from(WORDS) | st.sampled_from(VOCAB)
pieces = st.one_of(
    words, st.sampled_from(BLANKS), st.sampled_from(BLANKS[:3]), st.sampled_from(ODD), st.text(max_size=6)
)
# Mostly what a user may write, sometimes anything at all.
texts = st.one_of(
    st.lists(words | st.sampled_from(["___", "___", "___{1-2}"]), min_size=1, max_size=9).map(" ".join),
    st.lists(pieces, max_size=12).map(" ".join),
    st.lists(pieces, max_size=8).map("".join),
    st.text(max_size=40),
)
long_texts = st.builds(lambda text, times: f"{text} " * times, texts, st.sampled_from([10, 40, 300]))
numbers = st.sampled_from(NUMBERS)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """``data`` with a few of: a bit flipped, a part cut out, doubled, replaced, brackets without end; or cut short."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        end = min(len(found), at + draw(st.sampled_from([1, 2, 8, 64, 1000])))
        how = draw(st.sampled_from(["flip", "cut", "double", "replace", "nest", "truncate"]))
        if how == "flip" and found:
            found[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "cut":
            del found[at:end]
        elif how == "double":
            found[at:at] = found[at:end]
        elif how == "replace":
            found[at:end] = draw(st.binary(max_size=8) | numbers.map(str.encode))
        elif how == "nest":
            found[at:at] = b"[" * 10_000
        elif how == "truncate":
            del found[at:]
    return bytes(found)


odd_values: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2, 3, 7, 64, 2**31, 2**63, -(2**63) - 1, 10**30]),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.5, 1e-9, 1e300, float("nan"), float("inf"), -float("inf")]),
    texts,
    numbers,
    st.builds(list),  # new ones each time: they may be changed again
    st.builds(dict),
    st.lists(texts, max_size=3),
    st.builds(lambda: [[[[]]]]),
    st.builds(lambda: {"a": {"b": 1}}),
)


@st.composite
def changed(draw: st.DrawFn, value: Any, keys: st.SearchStrategy[Any]) -> Any:
    """A JSON value with a few of its parts replaced, removed, moved or added."""
    found = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(0, 3))):
        place, way = found, []
        while isinstance(place, dict | list) and place and (not way or draw(st.booleans())):
            way.append((place, draw(st.sampled_from(list(place) if isinstance(place, dict) else [*range(len(place))]))))
            place = way[-1][0][way[-1][1]]
        if not way:
            return draw(odd_values)
        holder, key = way[-1]
        how = draw(st.sampled_from(["replace", "replace", "remove", "add", "rename"]))
        if how == "replace":
            holder[key] = draw(odd_values)
        elif how == "remove":
            del holder[key]
        elif isinstance(holder, list):
            holder.append(draw(odd_values))
        elif how == "add":
            holder[draw(keys)] = draw(odd_values)
        else:
            holder[draw(keys)] = holder.pop(key)
    return found
