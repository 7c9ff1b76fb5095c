"""Two texts in one row, as the tokenizer itself joins them: ``[CLS] source [SEP] target [SEP]``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PairFrame(NamedTuple):
    """The special tokens of a pair."""

    before: tuple[int, ...]
    between: tuple[int, ...]  # RoBERTa has two; the first one ends the source
    after: tuple[int, ...]


@lru_cache(maxsize=8)
def pair_frame(tokenizer: PreTrainedTokenizerBase) -> PairFrame:
    """What stands before a source, between it and its target, and after the target."""
    (text,) = sides(tokenizer, ["a"])
    both: list[int] = tokenizer("a", "a")["input_ids"]
    starts = [i for i in range(len(both)) if both[i : i + len(text)] == text]
    if len(starts) != 2 or starts[1] == starts[0] + len(text):
        raise AnyorderError(
            "pairs need a tokenizer that puts a token such as [SEP] between two texts: choose another, or learn one"
        )
    ends = [start + len(text) for start in starts]
    return PairFrame(tuple(both[: starts[0]]), tuple(both[ends[0] : starts[1]]), tuple(both[ends[1] :]))


def sides(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text; a "[SEP]" that it spells itself is left out, since it would end its side too early."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    options = {"add_special_tokens": False, "return_attention_mask": False, "truncation": False, "verbose": False}
    encoded: list[list[int]] = tokenizer(list(texts), **options)["input_ids"]
    return [[i for i in ids if i not in special] for ids in encoded]
