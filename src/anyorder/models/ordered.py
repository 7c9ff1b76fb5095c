"""The order-causal reading of an ordinary masked LM: its own weights under another attention pattern.

Given tokens see each other; the others come in an order σ. There are two streams:

    content    x_i at its own position i: sees the given tokens, the content before it in σ, and itself
    questions  [MASK] at position σ_t:    sees the given tokens, the content before t, and itself

and nothing sees a question. So log q(x_σt | given, x_σ<t) for all t takes one pass over given + 2K tokens (XLNet's two
streams; Yang et al., 2019), with gradients, and by the chain rule these are the conditionals of one joint law.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from anyorder.errors import AnyorderError
from anyorder.models.layers import first_position, layers_of
from anyorder.models.pairs import token_types, typed_by

TRAINED = "anyorder_ordered"  # the field of a checkpoint's config that says it was trained for this reading
FAMILIES = ("bert", "anyorder-relative-bert", "roberta", "xlm-roberta", "camembert", "modernbert")


class Streams(NamedTuple):
    """Who sees whom in a batch of texts [B, N] with M questions, at most K in a row."""

    asked: Tensor  # [M] flat indices into B·N of the tokens that are asked for, text by text
    content: Tensor  # [B, N, N] bool: which tokens (column) a token sees
    questions: Tensor  # [B, K, N] bool: which tokens a row's k-th question sees
    slot: Tensor  # [B, K] the number of that question among all M; rows with fewer end in any
    real: Tensor  # [B, K] bool: whether there is one


def placed(rows: Tensor, positions: Tensor, values: Any) -> Tensor:
    """A copy of ``rows`` [B, N] with ``values`` at ``positions`` [B, K]; -1 places nothing."""
    n = rows.shape[1]
    # A spare last column takes what is aimed at -1.
    return pad(rows, (0, 1)).scatter_(1, torch.where(positions < 0, n, positions), values)[:, :n]


def turns(given: Tensor, order: Tensor) -> Tensor:
    """When each token is read, [B, N]: 0 where ``given`` [B, N], t at σ_t of ``order`` [B, K], -1 where never.

    Rows of ``order`` shorter than K end in -1.
    """
    number = torch.arange(1, order.shape[1] + 1, device=given.device).expand(len(given), -1)
    return placed(torch.where(given, 0, -1), order, number)


def two_streams(turn: Tensor, text: Tensor | None = None) -> Streams:
    """The streams of tokens that are read in their ``turn`` [B, N] (:func:`turns`); those over 0 are asked for.

    Where a row holds several texts, ``text`` [B, N] tells them apart, each with turns of its own.
    """
    b, n = turn.shape
    predicted = turn > 0
    count = predicted.sum(1)
    k = int(count.max()) if b else 0
    place = (~predicted).to(torch.uint8).sort(dim=1, stable=True).indices[:, :k]  # the predicted positions first
    real = torch.arange(k, device=turn.device) < count[:, None]
    # Content sees what was read up to its own turn, a question what was read before it.
    reach = torch.cat([turn, turn.gather(1, place) - 1], 1)
    seen = (turn[:, None, :] <= reach[:, :, None]) & (turn >= 0)[:, None, :]
    if text is not None:
        seen &= torch.cat([text, text.gather(1, place)], 1)[:, :, None] == text[:, None, :]
    content, questions = seen.split([n, k], 1)
    return Streams(
        asked=predicted.flatten().nonzero()[:, 0],
        content=content | torch.eye(n, dtype=torch.bool, device=turn.device),
        questions=questions,
        slot=(real.flatten().cumsum(0) - 1).clamp(min=0).view(b, k),
        real=real,
    )


def refuse_unreadable(model: Any) -> None:
    """One sentence if ``model`` cannot be read in order at all."""
    if model.config.model_type not in FAMILIES:
        raise AnyorderError(
            f"models of the family {model.config.model_type!r} cannot be read in order: read them in full, or choose "
            f"one of {', '.join(FAMILIES)}"
        )


class OrderedStates:
    """Hidden states of the questions, by the layers of ``model`` itself, in whatever mode it is in.

    The layers' products run over all tokens and questions of a batch end to end, without padding; only attention goes
    row by row. What the last layer makes of the content is not worked out: nothing looks at it.

    Args:
        model: An ``AutoModelForMaskedLM`` of one of ``FAMILIES``.
        mask_id: The token a question is asked with.
    """

    def __init__(self, model: Any, mask_id: int) -> None:
        refuse_unreadable(model)
        self.family, self.mask_id = layers_of(model), mask_id
        self.first, self.closing = first_position(model) or 0, typed_by(model)

    def __call__(
        self,
        tokens: Tensor,
        turn: Tensor,
        position_ids: Tensor | None = None,
        text: Tensor | None = None,
        types: Tensor | None = None,
    ) -> Tensor:
        """Hidden states [M, H] for the M of ``tokens`` [B, N] whose ``turn`` is over 0, row by row.

        Args:
            tokens: [B, N]
            turn: [B, N] when each is read, see :func:`turns`.
            position_ids: [B, N]; None: in sequence.
            text: [B, N] which text of the row each token belongs to; None: every row is one.
            types: [B, N] token types; None: those of pairs, for a model that was trained on such, else none.
        """
        (b, n), family = tokens.shape, self.family
        at = position_ids
        if at is None:
            at = (torch.arange(n, device=tokens.device) + self.first).expand(b, n)
        streams = two_streams(turn, text)
        asked_at = at.flatten()[streams.asked]  # [M]
        ids = torch.cat([tokens.flatten(), torch.full_like(asked_at, self.mask_id)])[None]
        all_at = torch.cat([at.flatten(), asked_at])[None]
        if types is None and self.closing is not None:
            types = token_types(tokens, self.closing)
        if types is not None:
            types = torch.cat([types.flatten(), types.flatten()[streams.asked]])[None]
        hidden = family.embed(ids, all_at, types)  # [1, B·N + M, H]
        angles = family.angles(all_at, hidden.dtype)
        content = family.scenes(at, at, streams.content, hidden.dtype)
        questions = family.scenes(asked_at[streams.slot], at, streams.questions, hidden.dtype)
        for layer in family.layers:
            parts = [part[0].split([b * n, len(asked_at)]) for part in family.project(layer, hidden, angles)]
            query, key, value = (part[0].unflatten(0, (b, n)).transpose(1, 2) for part in parts)  # [B, heads, N, d]
            asking, *own = (part[1][streams.slot].transpose(1, 2) for part in parts)  # [B, heads, K, d]
            answers = family.attend_own(layer, asking, key, value, (own[0], own[1]), questions)
            attended = answers.transpose(1, 2).flatten(2)[streams.real]  # [M, H]
            if layer is family.layers[-1]:
                hidden = family.finish(layer, hidden[0, b * n :], attended)
            else:
                read = family.attend(layer, query, key, value, content).transpose(1, 2).flatten(2)  # [B, N, H]
                hidden = family.finish(layer, hidden, torch.cat([read.flatten(0, 1), attended])[None])
        return family.end(hidden)
