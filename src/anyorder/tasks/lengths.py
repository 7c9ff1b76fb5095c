"""How long a blank of open length is: Bayes' rule over the tokens around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyorder.scoring.chain import chain
from anyorder.text.template import Layout, Template
from anyorder.text.vocabulary import Vocabulary
from anyorder.types import Conditionals

# Observed tokens on either side of a blank that say how long it is; further ones hardly depend on it.
WINDOW = 8


def length_posterior(
    conditionals: Conditionals, layouts: Sequence[Layout], template: Template, words: Vocabulary
) -> Tensor:
    """[len(layouts)] log p(lengths | observed tokens), with every combination equally likely beforehand.

    p(L | c) ∝ p(c | L), and p(c | L) is a chain over the observed tokens c near a blank of open length, outermost
    first, with all blanks masked: Σ_t log q(c_t | c_further, L masks). Every layout scores the same tokens. With an
    any-order model this is exact, up to tokens further than ``WINDOW`` from the blank, which are taken as given.
    """
    if len(layouts) == 1:
        return torch.zeros(1, dtype=torch.float64)
    evidence = []
    for where in layouts:
        length = len(where.tokens)
        places = torch.arange(length)
        distance = torch.full((length,), length)
        for blank, run_ in zip(template.blanks, where.slots, strict=True):
            if blank.low < blank.high:
                distance = torch.minimum(distance, torch.where(places < run_[0], run_[0] - places, places - run_[-1]))
        # Special tokens carry no evidence: models are not trained to predict them.
        observed = ~where.free & ~words.special[where.tokens]
        near = observed & (distance <= WINDOW)
        terms = chain(
            conditionals, where.tokens[None], near[None], -distance[None].float() - places[None] / (2 * length)
        )
        evidence.append(terms.sum())
    return torch.stack(evidence).log_softmax(0)
