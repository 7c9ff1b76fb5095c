"""The objectives: which tokens are predicted, and how their log-losses are weighted (Liao et al. 2020, eq 1, 2, 6, 8).

Every objective is Σ_b w_b Σ_{k ∈ Π_b} -log p(x_k | X_-Π) / Z, where Z is summed over the *whole* optimiser step (all
micro-batches, all processes), so that accumulating gradients changes nothing:

====================  =======================  ==========================  ==========================================
``normalise``         w_b                      Z                           meaning
====================  =======================  ==========================  ==========================================
``sequence``          1 / K_b                  number of sequences         eq 2 averaged over texts and masks: eq 6
``token``             1                        number of masked tokens     what transformers computes
``bound``             1 / (K_b P(K_b))         number of tokens            -log-likelihood per token, any order: eq 8
====================  =======================  ==========================  ==========================================

P(K) is the prior's law of counts, so ``bound`` estimates eq 8 whatever law draws the masks: with u-PMLM's own,
P = 1 / N, a text weighs N / K.

A text read in order (``models/ordered.py``) predicts its K tokens one after the other, -log p(x_σt | given, x_σ<t). It
is weighed alike, but under ``bound`` by N / E[K]: its tokens are then -log p(rest | given), each as much as any other,
which varies far less than their mean does when K is small.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.errors import AnyorderError, choose
from anyorder.masking.priors import Prior, count_probabilities
from anyorder.models.heads import head_of
from anyorder.models.narrow import narrow
from anyorder.models.ordered import OrderedStates
from anyorder.models.permutation import GIVEN, permutation_logits
from anyorder.training.cross_entropy import cross_entropy

FIELDS = (
    "input_ids", "tokens", "masked", "attention_mask", "position_ids", "turn", "text", "token_type_ids", "length",
    "source_length",
)  # of a batch  # fmt: skip
NORMALISE = ("sequence", "token", "bound")


def row_weights(
    masked: Tensor,
    maskable: Tensor,
    normalise: str,
    prior: Prior,
    in_order: Tensor | None = None,
    orders: Prior | None = None,
) -> Tensor:
    """w_b for each text, [T]; what it is for one with nothing masked does not matter.

    Args:
        masked: [T, N] the tokens predicted.
        maskable: [T, N] those that could have been.
        normalise: One of ``NORMALISE``.
        prior: The law that drew the counts.
        in_order: [T] which texts are read in order; None: none of them.
        orders: The law that drew the counts of those.
    """
    choose(normalise, NORMALISE, "normalisation")
    k = masked.sum(1).double()
    if normalise == "token":
        return torch.ones_like(k)
    if normalise == "sequence":
        return 1.0 / k.clamp(min=1)
    out = torch.zeros_like(k)
    for row, (count, n) in enumerate(zip(masked.sum(1).tolist(), maskable.sum(1).tolist(), strict=True)):
        if count:
            if orders is not None and in_order is not None and in_order[row]:
                out[row] = n / (count_probabilities(orders, n) @ np.arange(n + 1))
            else:
                out[row] = 1.0 / (count * count_probabilities(prior, n)[count])
    return out


def check_reach(prior: Prior, name: str) -> None:
    """Refuse a prior that hardly ever, or never, draws some counts: eq 8 sums over all of them."""
    if count_probabilities(prior, 128)[1:].min() < 1e-6:
        raise AnyorderError(
            f"objective.normalise: bound needs masks of every size, which {name} does not draw: choose uniform, "
            "uniform-count or root-count, or normalise by sequence or token"
        )


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

    def __init__(
        self,
        model: Any,
        causal: bool = False,
        mask_id: int | None = None,
        length_head: nn.Module | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        """Losses of ``model``.

        Args:
            model: What is trained.
            causal: Every token is predicted from those before it (GPT).
            mask_id: What is asked with in texts that are read in order; None if there are none.
            length_head: What answers for the lengths of targets (``models/pairs.py``), if they are asked.
            label_smoothing: The share of a target's weight that goes to all tokens alike.
        """
        super().__init__()
        self.model = model
        self.causal = causal
        self.length_head = length_head
        self.smoothing = label_smoothing
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
        token_type_ids: Tensor | None = None,
        length: Tensor | None = None,
        source_length: Tensor | None = None,
    ) -> Tensor:
        """All arguments [B, N]; ``masked`` marks the tokens to predict.

        Packed rows bring their own mask and ids, and ``text`` to tell their texts apart; rows read in order bring
        their ``turn``, which is -1 throughout in the others. Where ``length`` is not 0 it is asked of that position's
        state; these losses, [Q], come after those of the tokens.
        """
        if self.permuted and turn is not None:
            rank = torch.where(turn > 0, turn, GIVEN)
            logits = permutation_logits(self.model, tokens, attention_mask, rank, targets=turn > 0)
            return self._nll(logits, tokens[turn > 0])
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask}
        more = {"position_ids": position_ids, "token_type_ids": token_type_ids}
        inputs |= {name: field for name, field in more.items() if field is not None}
        asked = None if length is None or source_length is None else (length, source_length)
        if turn is None:
            return torch.cat(self._in_full(inputs, tokens, masked, asked))
        in_order = (turn >= 0).any(1)  # [B]
        full, lengths, ordered = input_ids.new_empty(0), input_ids.new_empty(0), input_ids.new_empty(0)
        if not bool(in_order.all()):
            rows = ~in_order
            part = {name: field[rows] for name, field in inputs.items()}
            asked = None if asked is None else (asked[0][rows], asked[1][rows])
            full, lengths = self._in_full(part, tokens[rows], masked[rows], asked)
        if bool(in_order.any()):
            fields = (position_ids, text, token_type_ids)
            at, texts, types = (None if field is None else field[in_order] for field in fields)
            hidden = self.ordered(tokens[in_order], turn[in_order], at, texts, types)
            wanted = tokens[in_order][turn[in_order] > 0]
            ordered = self._nll(self.head(self.model, hidden), wanted)  # type: ignore[misc]  # its families have one
        # Back among each other, row by row.
        losses = torch.cat([full, ordered])[in_order[masked.nonzero()[:, 0]].argsort(stable=True).argsort()]
        return torch.cat([losses, lengths])

    def _in_full(
        self, inputs: dict[str, Tensor], tokens: Tensor, masked: Tensor, asked: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Losses of tokens [M] and of lengths [Q]."""
        none = torch.empty(0, device=tokens.device)
        if self.head is None:  # a family whose head we do not know: every position, then choose
            return self._nll(self.model(**inputs).logits[masked], tokens[masked]), none
        wanted = masked if asked is None else masked | (asked[0] > 0)
        if self.narrow is not None:
            hidden = self.narrow(**inputs, asked=wanted.flatten().nonzero()[:, 0])[0]
        else:
            hidden = self.model.base_model(**inputs)[0]
            if self.causal:  # position t is predicted from the hidden state before it (eq 1)
                hidden = hidden.roll(1, dims=1)
            hidden = hidden[wanted]
        if asked is None or self.length_head is None:
            return self._nll(self.head(self.model, hidden), tokens[masked]), none
        length, source = (field[wanted] for field in asked)
        logits = self.length_head(hidden[length > 0], source[length > 0]).float()
        lengths = F.cross_entropy(logits, length[length > 0], reduction="none")
        return self._nll(self.head(self.model, hidden[length == 0]), tokens[masked]), lengths

    def _nll(self, logits: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy of each row in at least single precision, whatever autocast made of the logits."""
        return cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), target, self.smoothing)


def weighted_sum(losses: Tensor, masked: Tensor, weights: Tensor) -> Tensor:
    """Σ_b w_b Σ_k loss: what, divided by the step's Z, is the objective. ``weights`` [T] of :func:`row_weights`."""
    return (losses * weights[masked.nonzero()[:, 0]].to(losses)).sum()


def row_means(losses: Tensor, masked: Tensor) -> Tensor:
    """Eq 2 for each row that has a mask, [rows with K > 0]: the mean loss over its masked tokens."""
    k = masked.sum(1)
    total = torch.zeros(len(masked), dtype=losses.dtype).index_add_(0, masked.nonzero()[:, 0], losses)
    return total[k > 0] / k[k > 0]
