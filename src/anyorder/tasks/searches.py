"""Ways to fill the blanks of tokenised texts: n-best search, distinct samples, the joint of two blanks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.conditionals.restricted import Restricted
from anyorder.errors import AnyorderError
from anyorder.samplers.any_order import any_order
from anyorder.samplers.beam import Rules, beams
from anyorder.samplers.run import run
from anyorder.samplers.seeds import Seeds
from anyorder.scoring.chain import chain
from anyorder.tasks.rows import batches, padded
from anyorder.text.template import Layout
from anyorder.types import Conditionals

# Candidates (hypotheses x tokens) held at once by a search over several texts, with value, place and parent: 32 MB.
_CANDIDATES = 2**20


@dataclass(frozen=True, eq=False)
class Cut:
    """A text with every length decided.

    Attributes:
        text: its number; a text of open lengths has several cuts.
        number: of this cut among those of its text.
        layout: its tokens and blanks.
        kind: [N] the kind of token each position may take, a row of the table ``fits`` [R, V].
        order: in which the blanks are filled: a name, or positions [n].
        log_length: log p(these lengths | text), None if none was open.
    """

    text: int
    number: int
    layout: Layout
    kind: Tensor
    order: str | Tensor
    log_length: float | None = None

    @property
    def blanks(self) -> int:
        """Tokens to fill."""
        return sum(map(len, self.layout.slots))


class Found(NamedTuple):
    """Completions of one cut."""

    tokens: Tensor  # [H, N]
    log_prob: Tensor  # [H]


def by_beam(
    conditionals: Conditionals,
    cuts: Sequence[Cut],
    fits: Tensor,
    *,
    width: int,
    keep: int,
    tell: Callable[[int, int], None],
) -> list[Found]:
    """The best ``keep`` completions of every cut. Cuts with as many blanks advance together, one batch per step."""
    found: dict[int, Found] = {}
    size = max(1, _CANDIDATES // (width * min(width, conditionals.vocab_size)))
    lengths, blanks = [len(cut.layout.tokens) for cut in cuts], [cut.blanks for cut in cuts]
    done, of = 0, sum(blanks)
    for batch in batches(lengths, conditionals.pad_id, alike=blanks, size=size):
        several = [cuts[i] for i in batch]
        orders = [cut.order for cut in several]
        given = [order for order in orders if isinstance(order, Tensor)]
        best = beams(
            conditionals,
            padded([cut.layout.tokens for cut in several], conditionals.pad_id),
            padded([cut.layout.free for cut in several], None),
            rules=Rules(padded([cut.kind for cut in several], None), fits),
            width=width,
            keep=keep,
            order=torch.stack(given) if given else orders[0],
            progress=partial(_tell, tell, done, len(batch), of),
        )
        for i, answer in zip(batch, best, strict=True):
            found[i] = Found(answer.tokens[:, : lengths[i]], answer.log_prob)
        done += sum(blanks[i] for i in batch)
    return [found[i] for i in range(len(cuts))]


def _tell(tell: Callable[[int, int], None], before: int, rows: int, of: int, step: int, _: int) -> None:
    tell(before + rows * step, of)


def by_sample(
    conditionals: Conditionals,
    cut: Cut,
    fits: Tensor,
    samples: int,
    noise: Seeds,
    tell: Callable[[int, int], None],
) -> Found:
    """Distinct any-order draws and the model's own log q of each, along the order that drew it first."""
    layout = cut.layout
    sampler = any_order(Restricted(conditionals, fits[cut.kind]), order=cut.order)
    rows, free = layout.tokens.repeat(samples, 1), layout.free.repeat(samples, 1)
    drawn = run(sampler, rows, free, generator=noise)
    tell(1, 2)
    assert drawn.trace is not None
    turn = drawn.trace.positions[..., 0].T  # [samples, T] the position filled in each step
    rank = torch.zeros(rows.shape, dtype=torch.long).scatter_(1, turn, torch.arange(turn.shape[1]).expand_as(turn))
    distinct, group = torch.unique(drawn.tokens, dim=0, return_inverse=True)
    first = torch.full((len(distinct),), samples).scatter_reduce(0, group, torch.arange(samples), "amin")
    # Ranked by the unrestricted conditionals, as the other methods rank.
    with torch.inference_mode():
        log_prob = chain(conditionals, distinct, free[first], rank[first]).sum(1)
    tell(2, 2)
    return Found(distinct, log_prob)


def by_joint(
    conditionals: Conditionals,
    cut: Cut,
    fits: Tensor,
    top: int,
    tail: float | None,
    tell: Callable[[int, int], None],
) -> Found:
    """The ``top`` allowed pairs of the Arnold–Gokhale joint of the two blanks, whose log-probability is explicit."""
    # Imported here: the other methods do not need it.
    from anyorder.joints import arnold_gokhale, pair_tables
    from anyorder.joints.pair import PairJoint
    from anyorder.joints.support import adaptive_joint

    layout, rules = cut.layout, fits[cut.kind]
    places = [p for run_ in layout.slots for p in run_]
    if len(places) != 2:
        raise AnyorderError(
            f"the joint method needs two blanks of one token each, not {len(places)}: use --method beam"
        )
    rows, done = 2 * conditionals.vocab_size, 0

    def report(finished: int) -> None:
        nonlocal done
        done += finished
        tell(done, rows)

    a, b = places
    with torch.inference_mode():
        if tail is None:
            tables = pair_tables(conditionals, layout.tokens, a, b, report=report)
            joint: PairJoint = arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a)
        else:
            joint = adaptive_joint(conditionals, layout.tokens, a, b, tail=tail, report=report)
    first, second = rules[a].nonzero().squeeze(1), rules[b].nonzero().squeeze(1)
    best, pairs = torch.empty(0, dtype=torch.float64), torch.empty((0, 2), dtype=torch.long)
    for part in first.split(max(1, 2**20 // conditionals.vocab_size)):
        value, index = joint.rows(part)[:, second].flatten().double().topk(min(top, len(part) * len(second)))
        found = torch.stack([part[index // len(second)], second[index % len(second)]], 1)
        best, pairs = torch.cat([best, value]), torch.cat([pairs, found])
        keep = best.topk(min(top, len(best))).indices
        best, pairs = best[keep], pairs[keep]
    tokens = layout.tokens.repeat(len(pairs), 1)
    tokens[:, [a, b]] = pairs
    return Found(tokens, best)
