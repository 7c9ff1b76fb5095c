"""A joint over some of the tokens, read by the ids of the whole vocabulary: the others have probability zero."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from anyorder.joints.pair import PairJoint, Rows


class Among(PairJoint):
    """``inner``, a joint over ``values`` [v], as one over V tokens."""

    def __init__(self, inner: PairJoint, values: Tensor, vocab_size: int) -> None:
        self.inner, self.values, self.vocab_size = inner, values, vocab_size
        self._place = torch.full((vocab_size,), -1).scatter_(0, values, torch.arange(len(values)))
        self.log_marginals = (self._spread(inner.marginal(0)), self._spread(inner.marginal(1)))

    def __getattr__(self, name: str) -> Any:
        """What the construction says about itself, tokens by their own ids."""
        if name in ("inner", "values"):  # not there yet: while copying or unpickling
            raise AttributeError(name)
        found = getattr(self.inner, name)
        return tuple(int(self.values[i]) for i in found) if name == "pivot" else found

    def log_prob(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        """log p(a, b), elementwise over broadcast token ids."""
        first, second = (self._place[torch.as_tensor(x)] for x in (a, b))
        found = self.inner.log_prob(first.clamp(min=0), second.clamp(min=0))
        return found.masked_fill((first < 0) | (second < 0), -torch.inf)

    def rows(self, a: Rows) -> Tensor:
        """log p(a, ·) for a range or list of tokens a, [R, V]."""
        place = self._place[a]
        found = self._spread(self.inner.rows(place.clamp(min=0)))
        return found.masked_fill((place < 0)[:, None], -torch.inf)

    def _spread(self, found: Tensor) -> Tensor:
        """[..., v] -> [..., V]."""
        out = found.new_full((*found.shape[:-1], self.vocab_size), -torch.inf)
        out[..., self.values] = found
        return out
