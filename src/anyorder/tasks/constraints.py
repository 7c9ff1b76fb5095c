"""Words that must appear: they are simply observed, and only where they stand is searched (Liao et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import pack
from anyorder.text.template import refuse_unknown
from anyorder.text.vocabulary import Vocabulary
from anyorder.types import Conditionals

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM


@dataclass(frozen=True, eq=False)
class Placed:
    """A row with its constraints in their places."""

    tokens: Tensor  # [N], masks elsewhere in the target
    places: tuple[tuple[int, int], ...]  # (first position, tokens) of each constraint
    log_prob: float  # Σ log q of each constraint's tokens, given those placed before


def constraints(lm: MaskedLM, words: Sequence[str]) -> list[list[int]]:
    """The tokens of each; what the tokenizer cannot represent is refused."""
    found = []
    for word in words:
        ids: list[int] = lm.tokenizer(word, add_special_tokens=False, verbose=False)["input_ids"]
        if not ids:
            raise AnyorderError("a word that must appear is empty: write it after --must, or leave that out")
        refuse_unknown(ids, [word], lm.tokenizer)
        found.append(ids)
    return found


def place(
    conditionals: Conditionals, tokens: Tensor, free: Tensor, wanted: Sequence[Sequence[int]], beam: int
) -> list[Placed]:
    """The likeliest places of all ``wanted`` in the free positions of ``tokens`` [N], best first, at most ``beam``.

    One constraint after the other, each wherever there is room beside those before it: Σ_k log q(c_k at t + k | source,
    constraints before), which takes one row of the model for each hypothesis and each constraint.
    """
    if sum(map(len, wanted)) > int(free.sum()):
        return []
    best = [Placed(tokens, (), 0.0)]
    for ids in wanted:
        rows = torch.stack([one.tokens for one in best])
        still = free & (rows == conditionals.mask_id)  # [b, N]
        asked = pack(still)
        log_q = conditionals(rows, asked)[..., ids].double()  # [b, K, constraint's tokens]
        found = []
        for one, positions, mine in zip(best, asked, log_q, strict=True):
            slot = {int(position): number for number, position in enumerate(positions.tolist()) if position >= 0}
            for first in slot:
                run = range(first, first + len(ids))
                if all(position in slot for position in run):
                    value = sum(float(mine[slot[position], k]) for k, position in enumerate(run))
                    found.append((one.log_prob + value, one, first))
        found.sort(key=lambda item: (-item[0], item[2]))
        best = [_with(one, ids, first, value) for value, one, first in found[:beam]]
    return best


def _with(one: Placed, ids: Sequence[int], first: int, log_prob: float) -> Placed:
    tokens = one.tokens.clone()
    tokens[first : first + len(ids)] = torch.tensor(ids)
    return Placed(tokens, (*one.places, (first, len(ids))), log_prob)


def rules(words: Vocabulary, length: int, placed: Placed, wanted: Sequence[Sequence[int]], repeat: bool) -> Tensor:
    """[N, V] bool: what may stand where, so that each constraint stays the word it is and appears once.

    No piece that would continue it may follow. A second one would need all of its tokens, so that it is enough to
    forbid the rarest of them, which in a learned vocabulary comes last; with ``repeat`` none is forbidden.
    """
    allowed = (~words.special).repeat(length, 1)
    if not repeat:
        allowed[:, [max(ids) for ids in wanted]] = False
    for first, count in placed.places:
        if first + count < length:
            allowed[first + count] &= words.starts
    return allowed
