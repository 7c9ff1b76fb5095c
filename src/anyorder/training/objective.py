"""The objectives: which tokens are predicted, and how their log-losses are weighed (Liao et al. 2020, eq 1, 2, 6, 8).

Every objective is Σ_b w_b Σ_{k ∈ Π_b} -log p(x_k | X_-Π) / Z, where Z is summed over the *whole* optimiser step (all
micro-batches, all processes), so that accumulating gradients changes nothing:

====================  =======================  ==========================  ==========================================
``normalise``         w_b                      Z                           meaning
====================  =======================  ==========================  ==========================================
``sequence``          1 / K_b                  number of sequences         eq 2 averaged over texts and masks: eq 6
``token``             1                        number of masked tokens     what transformers computes
``bound``             N_b / K_b                number of tokens            -log-likelihood per token, any order: eq 8
====================  =======================  ==========================  ==========================================

A text read in order (``models/ordered.py``) predicts its K tokens one after the other, -log p(x_σt | given, x_σ<t), and
is weighed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.errors import choose
from anyorder.models.heads import head_of
from anyorder.models.narrow import narrow
from anyorder.models.ordered import OrderedStates
from anyorder.models.permutation import GIVEN, permutation_logits
from anyorder.stats import Estimate, mean_estimate

FIELDS = ("input_ids", "tokens", "masked", "attention_mask", "position_ids", "turn", "text")  # of a batch
NORMALISE = ("sequence", "token", "bound")


def row_weights(masked: Tensor, maskable: Tensor, normalise: str) -> Tensor:
    """w_b for each row, [B]; a row with nothing masked weighs nothing."""
    k = masked.sum(1).clamp(min=1).double()
    if normalise == "sequence":
        return 1.0 / k
    if normalise == "token":
        return torch.ones_like(k)
    return maskable.sum(1) / k


def normaliser(masked: Tensor, maskable: Tensor, normalise: str) -> Tensor:
    """This batch's share of Z."""
    if normalise == "sequence":
        return torch.tensor(float(len(masked)))
    return (masked if normalise == "token" else maskable).sum().float()


class TokenLosses(nn.Module):
    """-log p(x_t | X_-Π) at the predicted positions only, [M] in row-major order.

    The head, and where the family allows it the last feed-forward, are applied after gathering: at the vocabulary's
    width the head is a large part of a small model's work. This is a module of its own so that data-parallel wrappers
    and ``torch.compile`` see one forward.
    """

    def __init__(self, model: Any, causal: bool = False, mask_id: int | None = None) -> None:
        """``mask_id``: what is asked with in texts that are read in order; None if there are none."""
        super().__init__()
        self.model = model
        self.causal = causal
        self.head = (lambda m, hidden: m.lm_head(hidden)) if causal else head_of(model)
        self.narrow = None if causal else narrow(model)
        if self.narrow is not None:
            self.narrow.train(model.training)
        self.ordered: Any = None if mask_id is None else OrderedStates(model, mask_id)
        self.permuted = model.config.model_type == "xlnet"

    def forward(
        self,
        input_ids: Tensor,
        tokens: Tensor,
        masked: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor | None = None,
        turn: Tensor | None = None,
        text: Tensor | None = None,
    ) -> Tensor:
        """All arguments [B, N]; ``masked`` marks the tokens to predict.

        Packed rows bring their own mask and ids, and ``text`` to tell their texts apart; rows read in order bring
        their ``turn``, which is -1 throughout in the others.
        """
        if self.permuted and turn is not None:
            rank = torch.where(turn > 0, turn, GIVEN)
            logits = permutation_logits(self.model, tokens, attention_mask, rank, targets=turn > 0)
            return _nll(logits, tokens[turn > 0])
        if turn is None:
            return self._in_full(input_ids, tokens, masked, attention_mask, position_ids)
        in_order = (turn >= 0).any(1)  # [B]
        losses = []
        for rows in (~in_order, in_order):
            if not bool(rows.any()):
                continue
            at = None if position_ids is None else position_ids[rows]
            if rows is in_order:
                losses.append(self._in_order(tokens[rows], turn[rows], at, None if text is None else text[rows]))
            else:
                losses.append(self._in_full(input_ids[rows], tokens[rows], masked[rows], attention_mask[rows], at))
        # Back among each other, row by row.
        return torch.cat(losses)[in_order[masked.nonzero()[:, 0]].argsort(stable=True).argsort()]

    def _in_order(self, tokens: Tensor, turn: Tensor, position_ids: Tensor | None, text: Tensor | None) -> Tensor:
        hidden = self.ordered(tokens, turn, position_ids, text)
        return _nll(self.head(self.model, hidden), tokens[turn > 0])  # type: ignore[misc]  # its families have one

    def _in_full(
        self,
        input_ids: Tensor,
        tokens: Tensor,
        masked: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        inputs: dict[str, Tensor] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if position_ids is not None:
            inputs["position_ids"] = position_ids
        if self.head is None:  # a family whose head we do not know: every position, then choose
            return _nll(self.model(**inputs).logits[masked], tokens[masked])
        if self.narrow is not None:
            asked = masked.flatten().nonzero()[:, 0]
            hidden = self.narrow(**inputs, asked=asked)[0]
            return _nll(self.head(self.model, hidden), tokens[masked])
        hidden = self.model.base_model(**inputs)[0]
        if self.causal:  # position t is predicted from the hidden state before it (eq 1)
            hidden = hidden.roll(1, dims=1)
        return _nll(self.head(self.model, hidden[masked]), tokens[masked])


def _nll(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of each row in at least single precision, whatever autocast made of the logits."""
    return F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), target, reduction="none")


def weighted_sum(losses: Tensor, masked: Tensor, maskable: Tensor, normalise: str) -> Tensor:
    """Σ_b w_b Σ_k loss: what, divided by the step's Z, is the objective."""
    choose(normalise, NORMALISE, "normalisation")
    row = masked.nonzero()[:, 0]
    return (losses * row_weights(masked, maskable, normalise)[row].to(losses.dtype)).sum()


def mean_loss(batches: Iterable[dict[str, Tensor]], token_losses: Callable[[dict[str, Tensor]], Tensor]) -> Estimate:
    """Eq 6 without its expectation over masks: the mean over texts of their loss, and its standard error.

    Args:
        batches: With ``predicted`` [T, N], the tokens predicted of each text.
        token_losses: batch -> their losses, [M] in row-major order.
    """
    return mean_estimate(torch.cat([row_means(token_losses(batch).cpu(), batch["predicted"]) for batch in batches]))


def row_means(losses: Tensor, masked: Tensor) -> Tensor:
    """Eq 2 for each row that has a mask, [rows with K > 0]: the mean loss over its masked tokens."""
    k = masked.sum(1)
    total = torch.zeros(len(masked), dtype=losses.dtype).index_add_(0, masked.nonzero()[:, 0], losses)
    return total[k > 0] / k[k > 0]
