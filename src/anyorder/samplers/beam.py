"""Beam search: the n best ways to fill all blanks of a text jointly, over an order chosen per state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import ask, first_among, pack, place
from anyorder.samplers.orders import UNCERTAINTY, fixed_rank, parse
from anyorder.types import Conditionals

# Tokens that keep a model busy: the last step asks of so many at a time (see `_last`). Fewer rows cost as much each as
# they save; a single text of 15 tokens and 16 hypotheses stays one batch.
_ENOUGH = 1024


class Beam(NamedTuple):
    """The completions found, best first."""

    tokens: Tensor  # [H, N]
    log_prob: Tensor  # [H] float64, Σ_t log q(x_σ(t) | x_σ(<t)) along the order σ that found it
    rows: int  # sent through the model


class Rules(NamedTuple):
    """Which tokens may stand where; few distinct rules serve many texts."""

    of: Tensor  # [T, N] the number of each position's rule
    fits: Tensor  # [R, V] bool, the tokens that each rule allows


class _Hypotheses(NamedTuple):
    """Texts with some of their blanks filled, those of one text side by side, best first."""

    tokens: Tensor  # [H, N]
    still_open: Tensor  # [H, N] bool
    log_prob: Tensor  # [H] float64
    text: Tensor  # [H] whose hypothesis it is
    outlook: Tensor  # [H, W] the best log q at the last open blank before this one was filled; W = 0 if not known


class _Candidates(NamedTuple):
    """Ways to fill one more blank of some hypotheses."""

    parent: Tensor  # [C] the hypothesis
    position: Tensor  # [C]
    token: Tensor  # [C]
    log_prob: Tensor  # [C] of all that is filled

    def at(self, index: Tensor) -> _Candidates:
        return _Candidates(*(part[index] for part in self))


def beam(
    conditionals: Conditionals,
    tokens: Tensor,
    free: Tensor,
    *,
    allowed: Tensor | None = None,
    **options: Any,
) -> Beam:
    """The most probable completions of one text.

    Args:
        conditionals: The model.
        tokens: [N] the text; what stands at free positions is ignored.
        free: [N] bool, the blanks.
        allowed: [N, V] bool, the tokens each position may take.
        options: As of :func:`beams`.
    """
    rules = None if allowed is None else Rules(torch.arange(len(tokens))[None], allowed)
    return beams(conditionals, tokens[None], free[None], rules=rules, **options)[0]


def beams(
    conditionals: Conditionals,
    tokens: Tensor,
    free: Tensor,
    *,
    rules: Rules | None = None,
    width: int = 16,
    keep: int | None = None,
    order: str | Sequence[int] | Tensor = "confidence",
    branch: int = 1,
    generator: torch.Generator | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Beam]:
    """The most probable completions of each text, as far as a beam of ``width`` can see; all texts advance together.

    A hypothesis is a text with some of its blanks filled; every step fills one more blank in every hypothesis,
    all of them in one batch, and keeps each text's best by Σ log q so far. Each hypothesis chooses *its own* next blank
    from its own conditionals (``confidence``: where the model is most certain), since what is certain depends on
    what has been filled. With exact conditionals the order does not change a completion's probability, and a beam
    wide enough to prune nothing returns the exact top ``width``.

    Args:
        conditionals: The model.
        tokens: [T, N] the texts, shorter ones padded; what stands at free positions is ignored.
        free: [T, N] bool, the blanks; as many in every text.
        rules: The tokens each position may take; all others are passed over, and log q stays the model's own (not
            normalised over what is left), so that it agrees with fill-mask.
        width: Hypotheses kept per text.
        keep: Completions wanted per text, ``width`` if None. Fewer save work in the last step and change nothing else.
        order: As in :func:`anyorder.samplers.any_order`; ``random`` draws an order per text and needs ``generator``.
        branch: Blanks that each hypothesis tries next, for orders decided as we go. More than one hedges the
            choice of order; a completion reached along several orders is kept once, with its best value.
        generator: For ``random``.
        progress: Called with (blanks filled, blanks of a text) after every step.

    Returns:
        For each text at most ``keep`` completions, fewer if fewer are possible.
    """
    if width < 1 or branch < 1 or (keep is not None and keep < 1):
        raise AnyorderError(f"a beam needs a width, a branch and a keep of at least 1, not {width}, {branch}, {keep}")
    count = free.sum(1)
    if int(count.min()) != int(count.max()):
        raise AnyorderError("texts of one beam search have equally many blanks: search for the others on their own")
    sigma = parse(order)
    rank = fixed_rank(sigma, free)
    if isinstance(sigma, str) and sigma == "random":
        if generator is None:
            raise AnyorderError("a random order needs a generator: pass torch.Generator().manual_seed(0)")
        rank = torch.rand(free.shape, generator=generator, dtype=torch.float64)
    search = _Search(conditionals, rules, width, branch, sigma, rank, sent=torch.zeros(len(free), dtype=torch.long))
    masked, nothing = tokens.masked_fill(free, conditionals.mask_id), torch.zeros(len(tokens), dtype=torch.float64)
    now = _Hypotheses(masked, free, nothing, torch.arange(len(tokens)), nothing[:, None][:, :0])
    blanks, wanted = int(count.max()), min(keep or width, width)
    for filled in range(1, blanks + 1):
        now = search.step(now, wanted if filled == blanks else width, last=filled == blanks)
        if progress is not None:
            progress(filled, blanks)
    sizes = torch.bincount(now.text, minlength=len(tokens)).tolist()
    parts = zip(now.tokens.split(sizes), now.log_prob.split(sizes), search.sent.tolist(), strict=True)
    return [Beam(*part) for part in parts]


@dataclass(eq=False)
class _Search:
    """What stays the same from step to step."""

    conditionals: Conditionals
    rules: Rules | None
    width: int
    branch: int
    sigma: str | Tensor  # the order
    rank: Tensor | None  # [T, N], or None for an order decided as we go
    sent: Tensor  # [T] counts the rows sent for each text

    def step(self, now: _Hypotheses, keep: int, last: bool) -> _Hypotheses:
        """One more blank filled in every hypothesis, the best ``keep`` of each text."""
        if self.branch > 1:
            # A text may come from as many hypotheses as it has filled blanks, so only distinct ones may be counted.
            ways, _ = self._ways(now, torch.arange(len(now.text)))
            return _once(_filled(now, ways.at(_best(ways, now.text, None))), keep)
        if last:
            return _filled(now, self._last(now, keep))
        ways, outlook = self._ways(now, torch.arange(len(now.text)))
        ways = ways.at(_best(ways, now.text, keep))
        return _filled(now, ways)._replace(outlook=outlook[ways.parent])

    def _last(self, now: _Hypotheses, keep: int) -> _Candidates:
        """The best ``keep`` ways to fill the last blank, by branch and bound.

        log q ≤ 0: no completion is more probable than its hypothesis. So hypotheses are asked best first, as many at a
        time as keep the model busy, and those below a text's ``keep``-th best completion are never asked. Where that
        will lie is guessed, so that one batch is usually enough: the last blank's own log q, before the other one was
        filled, stands for what it will be. The guess decides only who is asked first.
        """
        texts, length = len(self.sent), now.tokens.shape[1]
        hope = _floor(now, _hoped(now), keep, texts)[now.text]
        bound = torch.full((texts,), -torch.inf, dtype=torch.float64)
        left = torch.ones_like(now.text, dtype=torch.bool)
        found: _Candidates | None = None
        while True:
            left &= now.log_prob > bound[now.text]
            if found is not None and not bool(left.any()):
                return found
            likely = left & (now.log_prob >= hope)
            rows = (likely if bool(likely.any()) else left).nonzero().squeeze(1)
            alive = max(1, len(now.text[rows].unique()))
            rows = rows[_turns(now.text[rows]) < max(1, _ENOUGH // (alive * length))]
            left[rows] = False
            ways, _ = self._ways(now, rows)
            if found is not None:
                ways = _Candidates(*(torch.cat(parts) for parts in zip(found, ways, strict=True)))
            found = ways.at(_best(ways, now.text, keep))
            bound = _floor(now, found, keep, texts)

    def _ways(self, now: _Hypotheses, rows: Tensor) -> tuple[_Candidates, Tensor]:
        """The best ``width`` ways to fill the next blank of each hypothesis ``rows``, and the outlook of each."""
        texts, still_open, text = now.tokens[rows], now.still_open[rows], now.text[rows]
        # [H, K]: every hypothesis has the same number of open blanks
        asked = pack(still_open) if self.rank is None else first_among(self.rank[text], still_open, 1)
        with torch.inference_mode():
            (position, token, value, outlook), _ = ask(self.conditionals, texts, asked, self._reader(text, asked))
        self.sent += torch.bincount(text, minlength=len(self.sent))
        parent = rows.repeat_interleave(value.shape[1])
        total = (now.log_prob[rows, None] + value).flatten()
        return _Candidates(parent, position.flatten(), token.flatten(), total), outlook

    def _reader(self, text: Tensor, asked: Tensor) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]]:
        """What to keep of log q [h, K, V]: the best tokens at the blanks each hypothesis is most certain of."""
        tried, most = min(self.branch, asked.shape[1]), min(self.width, self.conditionals.vocab_size)

        def read(log_q: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
            where = asked[rows]  # [h, K]
            outlook = log_q.new_empty((len(log_q), 0), dtype=torch.float64)
            if self.rules is not None:
                rule = self.rules.of[text[rows]].gather(1, where.clamp(min=0))
                log_q = log_q.masked_fill(_bans(rule, self.rules.fits).to(log_q.device), -torch.inf)
            if isinstance(self.sigma, str) and self.sigma in UNCERTAINTY and where.shape[1] > 1:
                doubt = UNCERTAINTY[self.sigma](log_q).masked_fill(where < 0, torch.inf)
                slot = doubt.topk(tried, dim=1, largest=False).indices  # [h, J]
                if where.shape[1] == 2:  # the other one comes last
                    other = log_q.take_along_dim(1 - slot[:, :1, None], 1).squeeze(1)  # [h, V]
                    outlook = other.topk(most).values.double()
                where = where.gather(1, slot)
                log_q = log_q.gather(1, slot[..., None].expand(-1, -1, log_q.shape[-1]))
            value, token = log_q.topk(most, dim=-1)  # [h, J, W]
            position = where[..., None].expand_as(token)
            return position.flatten(1), token.flatten(1), value.double().flatten(1), outlook

        return read


def _bans(rule: Tensor, fits: Tensor) -> Tensor:
    """[h, K, V] bool, or [V] where all rules [h, K] are one, as in most batches of texts with one blank."""
    one = rule.flatten()[:1]
    return ~(fits[one[0]] if len(one) and bool((rule == one).all()) else fits[rule])


def _best(ways: _Candidates, text: Tensor, keep: int | None) -> Tensor:
    """Numbers of the possible candidates, text by text, best first, at most ``keep`` of each."""
    by = ways.log_prob.argsort(descending=True, stable=True)
    by = by[ways.log_prob[by] > -torch.inf]
    by = by[text[ways.parent[by]].argsort(stable=True)]
    return by if keep is None else by[_turns(text[ways.parent[by]]) < keep]


def _floor(now: _Hypotheses, ways: _Candidates, keep: int, texts: int) -> Tensor:
    """[T] the ``keep``-th best of each text's candidates, -inf where there are fewer."""
    best = ways.at(_best(ways, now.text, keep))
    text = now.text[best.parent]
    full = _turns(text) == keep - 1
    floor = torch.full((texts,), -torch.inf, dtype=torch.float64)
    floor[text[full]] = best.log_prob[full]
    return floor


def _hoped(now: _Hypotheses) -> _Candidates:
    """What the last blank will add to each hypothesis, by its outlook; none if there is none."""
    parent = torch.arange(len(now.text)).repeat_interleave(now.outlook.shape[1])
    return _Candidates(parent, parent, parent, (now.log_prob[:, None] + now.outlook).flatten())


def _turns(text: Tensor) -> Tensor:
    """[H] the place of each hypothesis among those of its ``text`` [H], which stand side by side."""
    row = torch.arange(len(text))
    begins = torch.ones_like(text, dtype=torch.bool)
    begins[1:] = text[1:] != text[:-1]
    return row - row[begins][begins.cumsum(0) - 1]


def _filled(now: _Hypotheses, ways: _Candidates) -> _Hypotheses:
    """The hypotheses that the candidates make."""
    at = ways.position[:, None]
    tokens = place(now.tokens[ways.parent], at, ways.token[:, None])
    still_open, text = place(now.still_open[ways.parent], at, 0), now.text[ways.parent]
    return _Hypotheses(tokens, still_open, ways.log_prob, text, now.outlook[ways.parent])


def _once(now: _Hypotheses, keep: int) -> _Hypotheses:
    """Each distinct text once, with its best value; the first ``keep`` of them."""
    # Rows come best first, so that the first of equal ones is the best.
    _, index = np.unique(torch.cat([now.text[:, None], now.tokens], 1).numpy(), axis=0, return_index=True)
    firsts = torch.from_numpy(np.sort(index))
    firsts = firsts[_turns(now.text[firsts]) < keep]
    return _Hypotheses(*(part[firsts] for part in now))
