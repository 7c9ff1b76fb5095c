"""Fill every blank of a text jointly: the logic behind ``lm.fill`` and ``anyorder fill``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from anyorder.conditionals.restricted import Restricted
from anyorder.errors import AnyorderError
from anyorder.samplers.any_order import any_order
from anyorder.samplers.beam import beam as beam_search
from anyorder.samplers.run import run
from anyorder.samplers.seeds import Seeds
from anyorder.scoring.chain import chain
from anyorder.tasks.lengths import length_posterior
from anyorder.tasks.options import FillOptions
from anyorder.text.template import Layout, Template, allowed, check_length, layout, parse
from anyorder.text.vocabulary import Vocabulary, vocabulary
from anyorder.types import Conditionals

if TYPE_CHECKING:
    from anyorder.tasks.lm import MaskedLM

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Completion:
    """One way to fill all blanks.

    Attributes:
        text: the user's text, verbatim, with its blanks filled.
        log_prob: joint log-probability of the fills, given the text (and, where a length was open, of that length).
        fills: what stands in each blank.
        tokens: the whole row of token ids.
        length_log_prob: log p(lengths | text), a part of ``log_prob``; None if no length was open.
    """

    text: str
    log_prob: float
    fills: tuple[str, ...]
    tokens: tuple[int, ...]
    length_log_prob: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON; that of the lengths only where some were open."""
        out: dict[str, Any] = {"text": self.text, "log_prob": self.log_prob, "fills": list(self.fills)}
        if self.length_log_prob is not None:
            out["length_log_prob"] = self.length_log_prob
        return out


def fill(
    lm: MaskedLM,
    text: str,
    options: FillOptions = FillOptions(),
    *,
    progress: Progress | None = None,
) -> list[Completion]:
    """Every blank filled jointly, completions ranked by their joint log-probability.

    Blanks are written ``___`` (or the model's own mask token) for one token, ``___{3}`` for three, ``___{1-4}`` for
    one to four. log_prob is the model's own, Σ_t log q(x_σ(t) | x_σ(<t), text), not normalised over the allowed
    tokens: with one blank it is exactly what transformers' fill-mask reports.

    **Open lengths.** Completions of different length are texts of different length: log q(x | c, L) alone compares what
    does not compare, since more tokens make it lower whatever they are. What is missing is the probability of the
    length itself. By Bayes' rule with a uniform prior, p(L | c) ∝ p(c | L): how well a blank of L masks explains the
    *observed* tokens c around it. The same tokens are scored for every L, so no length pays for its own. Then
    log_prob = log p(L | c) + log q(x | c, L) is one distribution over all completions of all lengths, and completions
    are ranked by it: a length the text calls for wins however long it is, and where the text does not care the
    likelier words do. See :mod:`anyorder.tasks.lengths`.

    Args:
        lm: The model.
        text: The text with its blanks.
        options: How; orders as in :func:`anyorder.samplers.any_order`, the tail as in
            :func:`anyorder.joints.support.adaptive_joint`.
        progress: Called with (what, done, of how many).

    Returns:
        Completions, best first.
    """
    top, method, order = options.top, options.method, options.order
    words = vocabulary(lm.tokenizer, lm.conditionals.vocab_size)
    template = read_template(lm, text, words)
    layouts = [layout(template.texts, n, words, lm.max_length, options.allow_unknown) for n in template.lengths()]
    log_length = length_posterior(lm.conditionals, layouts, template, words)
    found: list[Completion] = []
    for number, where in enumerate(layouts):
        rules = allowed(where, words, whole_words=options.whole_words, special_tokens=options.special_tokens)
        if not bool(rules.any(-1).all()):
            raise AnyorderError("no token of the vocabulary fits a blank: allow word pieces (--any-pieces)")

        def tell(done: int, of: int, number: int = number) -> None:
            if progress is not None:
                progress("filling", number * of + done, len(layouts) * of)

        if method == "joint":
            # A caller's order or beam says nothing here: the distribution is explicit.
            tokens, log_prob = _joint(lm.conditionals, where, rules, top, options.tail, tell)
        elif method == "sample":
            noise = Seeds(options.seed, ((number, i) for i in range(options.samples)))
            tokens, log_prob = _sample(lm.conditionals, where, rules, order, options.samples, noise, tell)
        else:
            picks = numbered(order, where)
            tokens, log_prob, _ = beam_search(
                lm.conditionals, where.tokens, where.free, width=max(options.beam, top), order=picks, allowed=rules,
                generator=torch.Generator().manual_seed(options.seed), progress=tell,
            )  # fmt: skip
        length = float(log_length[number]) if len(layouts) > 1 else None
        for row, value in zip(tokens, log_prob.tolist(), strict=True):
            spelt, fills = where.render(row, words)
            found.append(Completion(spelt, value + (length or 0.0), fills, tuple(row.tolist()), length))
    # Different pieces may spell one text; it is listed once, under its best reading.
    found.sort(key=lambda c: -c.log_prob)
    distinct: dict[str, Completion] = {}
    for c in found:
        distinct.setdefault(c.text, c)
    return list(distinct.values())[:top]


def read_template(lm: MaskedLM, text: str, words: Vocabulary) -> Template:
    """The template of a text that must have a blank."""
    if not text.strip():
        raise AnyorderError("the text is empty: write a sentence with a blank, such as 'The ___ fox'")
    template = parse(text, str(lm.tokenizer.mask_token), lm.max_length)
    check_length(" ".join(template.texts), words, lm.max_length)
    if not template.blanks:
        raise AnyorderError(f"the text has no blank: write ___ or {lm.tokenizer.mask_token} where a word is missing")
    return template


def numbered(order: str | Sequence[int], where: Layout) -> str | Tensor:
    """An order whose ``given:`` numbers count the unknown tokens from 1 -> one of positions in the row."""
    from anyorder.samplers.orders import parse as parse_order

    sigma = parse_order(order)
    if isinstance(sigma, str):
        return sigma
    places = torch.tensor([p for run_ in where.slots for p in run_])
    numbers = sigma.tolist()
    if sorted(numbers) != list(range(1, len(places) + 1)):
        shown = ",".join(map(str, numbers[:8])) + (",…" if len(numbers) > 8 else "")
        raise AnyorderError(
            f"the order {shown} repeats or omits blanks: list each of the numbers 1 to {len(places)} exactly once"
        )
    return places[sigma - 1]


def _sample(
    conditionals: Conditionals,
    where: Layout,
    rules: Tensor,
    order: str | Sequence[int],
    samples: int,
    noise: Seeds,
    tell: Callable[[int, int], None],
) -> tuple[Tensor, Tensor]:
    """Distinct any-order draws and the model's own log q of each, along the order that drew it first."""
    sampler = any_order(Restricted(conditionals, rules), order=numbered(order, where))
    rows, free = where.tokens.repeat(samples, 1), where.free.repeat(samples, 1)
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
    return distinct, log_prob


def _joint(
    conditionals: Conditionals,
    where: Layout,
    rules: Tensor,
    top: int,
    tail: float | None,
    tell: Callable[[int, int], None],
) -> tuple[Tensor, Tensor]:
    """The ``top`` allowed pairs of the Arnold–Gokhale joint of the two blanks, whose log-probability is explicit."""
    # Imported here: the other methods have no need of it.
    from anyorder.joints import arnold_gokhale, pair_tables
    from anyorder.joints.pair import PairJoint
    from anyorder.joints.support import adaptive_joint

    places = [p for run_ in where.slots for p in run_]
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
            tables = pair_tables(conditionals, where.tokens, a, b, report=report)
            joint: PairJoint = arnold_gokhale(tables.log_a_given_b, tables.log_b_given_a)
        else:
            joint = adaptive_joint(conditionals, where.tokens, a, b, tail=tail, report=report)
    first, second = rules[a].nonzero().squeeze(1), rules[b].nonzero().squeeze(1)
    best, pairs = torch.empty(0, dtype=torch.float64), torch.empty((0, 2), dtype=torch.long)
    for part in first.split(max(1, 2**20 // conditionals.vocab_size)):
        value, index = joint.rows(part)[:, second].flatten().double().topk(min(top, len(part) * len(second)))
        found = torch.stack([part[index // len(second)], second[index % len(second)]], 1)
        best, pairs = torch.cat([best, value]), torch.cat([pairs, found])
        keep = best.topk(min(top, len(best))).indices
        best, pairs = best[keep], pairs[keep]
    tokens = where.tokens.repeat(len(pairs), 1)
    tokens[:, [a, b]] = pairs
    return tokens, best
