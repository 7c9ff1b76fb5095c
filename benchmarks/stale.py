"""Any-order writing with stale keys and values, refreshed every r steps: what it saves in time and costs in nats.

python benchmarks/stale.py [--texts 16] [--length 126] [--json]

Between two refreshes a step runs only the token just drawn and the next question; all others keep the keys and values
of the last refresh, though they would see more by now (Fast-dLLM, Wu et al. 2025; dKV-Cache, Ma et al. 2025). Tokens
are drawn from the fresh answers, and the stale answer to the same question stands beside each: by the chain rule the
mean KL divergence per token, times the tokens, is that of the texts along their orders. Time is that of the steps
alone, in turns, without the comparison.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import Any

import torch
from common import clock, machine, parser, turns
from torch import Tensor

import anyorder
from anyorder.models.heads import head_of
from anyorder.models.layers import first_position, layers_of
from anyorder.samplers.draw import inverse_cdf
from anyorder.stats import mean_estimate
from anyorder.text.vocabulary import vocabulary

EVERY = (2, 4, 8)


class Kept:
    """Keys and values of all N positions of B texts, some of them stale."""

    def __init__(self, model: Any) -> None:
        self.model, self.family, self.first = model, layers_of(model), first_position(model) or 0
        self.head: Any = head_of(model)
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def refresh(self, tokens: Tensor, asked: Tensor) -> Tensor:
        """Read all of ``tokens`` [B, N]; log q [B, V] at ``asked`` [B]."""
        at = torch.arange(tokens.shape[1]).expand(tokens.shape)
        self.keys, self.values = [], []
        return self._run(tokens, at, at, asked)

    def ask(self, tokens: Tensor, drawn: Tensor, asked: Tensor) -> Tensor:
        """Read the tokens at ``drawn`` and ``asked`` [B] only; log q [B, V] at ``asked``."""
        at = torch.stack([drawn, asked], 1)  # [B, 2]
        everywhere = torch.arange(tokens.shape[1]).expand(tokens.shape)
        return self._run(tokens.gather(1, at), at, everywhere, torch.ones_like(asked))

    def _run(self, ids: Tensor, at: Tensor, keys_at: Tensor, asked: Tensor) -> Tensor:
        family, row, fresh = self.family, torch.arange(len(ids))[:, None], not self.keys
        hidden = family.embed(ids, at + self.first)
        angles = family.angles(at, hidden.dtype)
        scenes = family.scenes(at, keys_at, None, hidden.dtype)
        for number, layer in enumerate(family.layers):
            query, key, value = (part.transpose(1, 2) for part in family.project(layer, hidden, angles))
            if fresh:
                self.keys.append(key.contiguous())
                self.values.append(value.contiguous())
            else:
                self.keys[number].transpose(1, 2)[row, at] = key.transpose(1, 2)
                self.values[number].transpose(1, 2)[row, at] = value.transpose(1, 2)
            if layer is family.layers[-1]:  # which is needed only where it is asked
                query, hidden = query[row, :, asked[:, None]].transpose(1, 2), hidden[row, asked[:, None]]
                scenes = family.scenes(at[row, asked[:, None]], keys_at, None, hidden.dtype)
            attended = family.attend(layer, query, self.keys[number], self.values[number], scenes)
            hidden = family.finish(layer, hidden, attended.transpose(1, 2).flatten(2))
        return self.head(self.model, family.end(hidden[:, 0])).log_softmax(-1)

    def copy(self, other: Kept) -> None:
        """Take over what ``other`` has just read."""
        self.keys = [part.clone() for part in other.keys]
        self.values = [part.clone() for part in other.values]


class Texts:
    """Texts of ``length`` tokens from nothing, each in a random order of its own."""

    def __init__(self, lm: Any, texts: int, length: int, seed: int) -> None:
        self.lm, self.q = lm, lm.conditionals
        self.generator = torch.Generator().manual_seed(seed)
        tokens = lm.tokenizer("")["input_ids"]
        assert len(tokens) == 2, "a model with one token before and one after a text"
        masked = [tokens[0], *[self.q.mask_id] * length, tokens[1]]
        self.start = torch.tensor(masked).repeat(texts, 1)
        self.order = 1 + torch.rand((texts, length), generator=self.generator).argsort(1)  # [B, n]
        self.never = vocabulary(lm.tokenizer, self.q.vocab_size).special  # [V] what is not text

    def draw(self, log_q: Tensor) -> Tensor:
        """[B] tokens that are text."""
        scores = log_q.masked_fill(self.never, -torch.inf)
        return inverse_cdf(scores, torch.rand(len(log_q), generator=self.generator, dtype=torch.float64))

    @torch.inference_mode()
    def divergence(self) -> dict[int, list[float]]:
        """For each r the mean KL(fresh || stale) per token of every text."""
        tokens, model = self.start.clone(), self.lm.model
        fresh, stale = Kept(model), {r: Kept(model) for r in EVERY}
        total = {r: torch.zeros(len(tokens), dtype=torch.float64) for r in EVERY}
        row = torch.arange(len(tokens))
        for t, asked in enumerate(self.order.T):
            log_p = fresh.refresh(tokens, asked)
            if t % 32 == 0:  # the reading here is the model's own
                torch.testing.assert_close(log_p, self.q(tokens, asked[:, None])[:, 0], rtol=1e-3, atol=1e-3)
            for r in EVERY:
                if t % r == 0:
                    stale[r].copy(fresh)
                    continue
                log_q = stale[r].ask(tokens, self.order[:, t - 1], asked)
                total[r] += (log_p.double().exp() * (log_p - log_q).double()).sum(-1)
            tokens[row, asked] = self.draw(log_p)
        return {r: (value / self.order.shape[1]).tolist() for r, value in total.items()}

    @torch.inference_mode()
    def write(self, every: int, steps: int) -> None:
        """The first steps, refreshed each ``every``; 0: as any-order does now, by the model's conditionals."""
        tokens, kept = self.start.clone(), Kept(self.lm.model)
        row = torch.arange(len(tokens))
        for t, asked in enumerate(self.order.T[:steps]):
            if every == 0:
                log_q = self.q(tokens, asked[:, None])[:, 0]
            elif t % every == 0:
                log_q = kept.refresh(tokens, asked)
            else:
                log_q = kept.ask(tokens, self.order[:, t - 1], asked)
            tokens[row, asked] = self.draw(log_q)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--model", help="a masked LM; the bundled one if absent")
    made.add_argument("--texts", type=int, default=16)
    made.add_argument("--length", type=int, default=126)
    made.add_argument("--seed", type=int, default=0)
    options = made.parse_args()
    lm = anyorder.load(options.model)
    texts = Texts(lm, options.texts, options.length, options.seed)
    found = {r: mean_estimate(values) for r, values in texts.divergence().items()}
    rows = []
    for count in (options.texts, 1):
        few = Texts(lm, count, options.length, options.seed)
        work = {r: partial(few.write, r, 2 * max(EVERY)) for r in (0, *EVERY)}
        seconds = turns({str(r): one for r, one in work.items()}, 2 if options.quick else options.repeats, clock=clock)
        for r in EVERY:
            each = [a / b for a, b in zip(seconds["0"], seconds[str(r)], strict=True)]
            kl = found[r]
            rows.append(
                {"texts": count, "r": r, "faster": statistics.median(each), "kl": kl.value, "error": kl.standard_error}
            )
    if options.json:
        import json

        print(json.dumps({"rows": rows, "settings": machine() | vars(options)}, indent=2))
        return
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    for one in rows:
        print("{texts} texts, refreshed every {r}: {faster:.2f}x, {kl:.4f} ± {error:.4f} nats per token".format(**one))


if __name__ == "__main__":
    main()
