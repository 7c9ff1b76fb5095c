"""How long a blank of open length is: Bayes' rule over the tokens around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from anyorder.scoring.chain import chain
from anyorder.tasks.rows import batches, padded
from anyorder.text.template import Layout, Template
from anyorder.text.vocabulary import Vocabulary
from anyorder.types import Conditionals

# Observed tokens on either side of a blank that say how long it is; further ones hardly depend on it.
WINDOW = 8


def length_posterior(
    conditionals: Conditionals, layouts: Sequence[Layout], template: Template, vocab: Vocabulary
) -> Tensor:
    """[len(layouts)] log p(lengths | observed tokens), with every combination equally likely beforehand.

    p(L | c) ∝ p(c | L), and p(c | L) is a chain over the observed tokens c near a blank of open length, outermost
    first, with all blanks masked: Σ_t log q(c_t | c_further, L masks). Every layout scores the same tokens. With an
    any-order model this is exact, up to tokens further than ``WINDOW`` from the blank, which are taken as given.
    """
    return length_posteriors(conditionals, [layouts], [template], vocab)[0]


def length_posteriors(
    conditionals: Conditionals, layouts: Sequence[Sequence[Layout]], templates: Sequence[Template], vocab: Vocabulary
) -> list[Tensor]:
    """:func:`length_posterior` of several texts; all questions go through the model together."""
    undecided = [(several, t) for several, t in zip(layouts, templates, strict=True) if len(several) > 1]
    asked = [(layout, template) for several, template in undecided for layout in several]
    evidence = torch.zeros(len(asked), dtype=torch.float64)
    for batch in batches([len(layout.tokens) for layout, _ in asked], conditionals.pad_id):
        tokens = padded([asked[i][0].tokens for i in batch], conditionals.pad_id)
        near, rank = (torch.zeros(tokens.shape, dtype=kind) for kind in (torch.bool, torch.float64))
        for row, i in enumerate(batch):
            n = len(asked[i][0].tokens)
            near[row, :n], rank[row, :n] = _near(*asked[i], vocab)
        evidence[batch] = chain(conditionals, tokens, near, rank).sum(1)
    cut = iter(evidence.split([len(several) for several, _ in undecided]))
    known = torch.zeros(1, dtype=torch.float64)
    return [next(cut).log_softmax(0) if len(several) > 1 else known for several in layouts]


def _near(layout: Layout, template: Template, vocab: Vocabulary) -> tuple[Tensor, Tensor]:
    """The tokens that say how long the open blanks are, [N] bool, and when each is asked, [N]."""
    length = len(layout.tokens)
    places = torch.arange(length)
    distance = torch.full((length,), length)
    for blank, run in zip(template.blanks, layout.slots, strict=True):
        if blank.low < blank.high:
            distance = torch.minimum(distance, torch.where(places < run[0], run[0] - places, places - run[-1]))
    # Special tokens carry no evidence: models are not trained to predict them.
    observed = ~layout.free & ~vocab.special[layout.tokens]
    return observed & (distance <= WINDOW), -distance.double() - places / (2 * length)
