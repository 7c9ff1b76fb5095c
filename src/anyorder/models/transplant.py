"""An encoder with another tokenizer: word vectors carried over by the token's string, a new head where it has none.

This is how any encoder, trained for whatever purpose, becomes the start of a masked LM: its layers know English
already, and only the head and the words that its own vocabulary lacks have to be learned.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.models.fit import position_tables
from anyorder.stats import Record
from anyorder.text.vocabulary import Vocabulary, vocabulary

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

# Special tokens are carried over by what they are for: families disagree on how they spell them.
_ROLES = (("mask_token_id",), ("pad_token_id",), ("unk_token_id",), ("cls_token_id", "bos_token_id"),
          ("sep_token_id", "eos_token_id"))  # fmt: skip
_IDS = ("pad_token_id", "cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "unk_token_id", "mask_token_id")


@dataclass(frozen=True)
class Carried(Record):
    """What a transplanted model was given and what is new.

    Attributes:
        tokens: of the new vocabulary.
        exact: tokens whose string the old vocabulary has.
        lower_cased: tokens whose lower-cased string it has.
        pieces: tokens that the old tokenizer spells with several pieces; theirs is the pieces' mean.
        mean: tokens that it cannot spell; they start at the mean of all word vectors.
        new: parameters that start at random, such as those of a head.
    """

    tokens: int
    exact: int
    lower_cased: int
    pieces: int
    mean: int
    new: tuple[str, ...]

    def __str__(self) -> str:
        carried = f"{self.exact:,} as they are, {self.lower_cased:,} lower-cased, {self.pieces:,} as the mean of pieces"
        new = f"; new: {', '.join(self.new)}" if self.new else ""
        return f"{self.tokens:,} word vectors carried over: {carried}, {self.mean:,} unknown{new}"


def transplant(
    model: PreTrainedModel, old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase, missing: tuple[str, ...] = ()
) -> tuple[PreTrainedModel, Carried]:
    """``model`` with the tokenizer ``new`` in place of ``old``.

    Args:
        model: A masked LM; of an encoder without a head, one whose head transformers has just drawn at random.
        old: The tokenizer it was trained with.
        new: The tokenizer it is to have.
        missing: The parameters of ``model`` that its checkpoint did not hold.

    Returns:
        The model, in the same mode, and what was carried over. Its output bias is zero: see :func:`start_bias`.
    """
    words = vocabulary(old, model.config.vocab_size), vocabulary(new, len(new))
    grown = type(model)._from_config(_config(model.config, new), dtype=model.dtype)
    state, firsts = model.state_dict(), _first_positions(model, grown)
    given: Any = grown.get_input_embeddings()
    decoder: Any = grown.get_output_embeddings()
    matrices = {_place(given.weight), _place(decoder.weight)}  # one, where input and output are tied
    bias = _place(decoder.bias)
    found: dict[str, int] = {}
    entries = {_place(value): (name, value) for name, value in grown.state_dict().items()}  # tied ones once
    for name, value in entries.values():
        if _place(value) in matrices:
            carried, found = carry(state[name], *words)
            value.copy_(carried)
        elif _place(value) == bias:  # of another vocabulary
            value.zero_()
        elif name in firsts:  # RoBERTa counts positions from the padding token's id on
            before, after = firsts[name]
            known = state[name][before:][: len(value) - after]
            value[after : after + len(known)] = known  # what the old table had no room for starts at random
        elif name in state:
            value.copy_(state[name])
    return grown.train(model.training), Carried(**found, new=missing)


def carry(vectors: Tensor, old: Vocabulary, new: Vocabulary) -> tuple[Tensor, dict[str, int]]:
    """Word vectors [V', H] for the vocabulary ``new`` from those of ``old``, [V, H], and how each was found."""
    known = {_key(old, i): i for i in range(len(old.pieces)) if not bool(old.special[i])}
    placeholders = {old.pieces[i]: i for i in range(len(old.pieces)) if bool(old.special[i]) and old.pieces[i]}
    special = _roles(old.tokenizer, new.tokenizer)
    ordinary = vectors[~old.special.to(vectors.device)].mean(0)
    out = ordinary.repeat(len(new.pieces), 1)
    counts = dict.fromkeys(("exact", "lower_cased", "pieces", "mean"), 0)
    for token in range(len(new.pieces)):
        text, begins = _key(new, token)
        if token in special:
            how, ids = "exact", [special[token]]
        elif bool(new.special[token]):
            ids = [placeholders[new.pieces[token]]] if new.pieces[token] in placeholders else []
            how = "exact" if ids else "mean"
        elif (text, begins) in known:
            how, ids = "exact", [known[text, begins]]
        elif (text.lower(), begins) in known:
            how, ids = "lower_cased", [known[text.lower(), begins]]
        else:
            ids = _spelt(old, text, begins)
            how = "pieces" if ids else "mean"
        if ids:
            out[token] = vectors[ids].mean(0)
        counts[how] += 1
    return out, {"tokens": len(new.pieces), **counts}


def start_bias(model: PreTrainedModel, counts: np.ndarray) -> None:
    """Let the output bias start at log frequencies: what a model knows before it looks at anything.

    Args:
        model: A masked LM.
        counts: [V] how often each token occurs in the data; one is added to each.
    """
    decoder: Any = model.get_output_embeddings()
    if decoder.bias is not None:
        logs = np.log(counts + 1.0)
        decoder.bias.data.copy_(torch.from_numpy(logs - logs.mean()))


def _place(value: Tensor | None) -> int | None:
    """Where a tensor lies: tied parameters, and a parameter and its entry in a state dictionary, share it."""
    return None if value is None else value.data_ptr()


def _key(words: Vocabulary, token: int) -> tuple[str, bool]:
    return words.surface(token), bool(words.starts[token])


def _roles(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> dict[int, int]:
    """New special token -> old one of the same role."""

    def of(tokenizer: PreTrainedTokenizerBase, names: tuple[str, ...]) -> int | None:
        return next((i for i in (getattr(tokenizer, name) for name in names) if i is not None), None)

    pairs = ((of(new, names), of(old, names)) for names in _ROLES)
    return {a: b for a, b in pairs if a is not None and b is not None}


def _spelt(old: Vocabulary, text: str, begins: bool) -> list[int]:
    """The pieces with which the old tokenizer writes ``text``, at a word's beginning or inside one."""
    # A letter before it keeps the tokenizer from marking a new word; its own piece is dropped if it stands alone.
    ids = old.tokenizer.encode(text if begins else f"a{text}", add_special_tokens=False)
    if not begins and len(ids) > 1 and old.surface(ids[0]) == "a":
        ids = ids[1:]
    return [i for i in ids if not bool(old.special[i])]


def _config(config: PreTrainedConfig, new: PreTrainedTokenizerBase) -> PreTrainedConfig:
    """The same architecture with the new vocabulary's size and special tokens."""
    config = copy.deepcopy(config)
    config.vocab_size = len(new)
    for name in _IDS:
        if getattr(config, name, None) is not None:
            setattr(config, name, getattr(new, name, None))
    if config.pad_token_id is None:
        raise AnyorderError("the new tokenizer has no padding token: set tokenizer.pad_token and save it again")
    return config


def _first_positions(old: PreTrainedModel, new: PreTrainedModel) -> dict[str, tuple[int, int]]:
    """Position tables -> (row of a text's first token in the old, in the new)."""
    before = {name: first for name, _, first in position_tables(old)}
    return {f"{name}.weight": (before[name], first) for name, _, first in position_tables(new)}
