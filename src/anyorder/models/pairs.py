"""What a model trained on pairs knows beside its weights: where the source ends, and how long its target may be.

Its folder stays an ordinary masked LM's. The config names the token that ends the source, from which token types
follow; the head for p(length | source) lies in a small file beside the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from anyorder.errors import AnyorderError
from anyorder.models.fit import readable
from anyorder.models.safe import check_weights

PAIRS = "anyorder_pairs"  # the field of a checkpoint's config: the id of the token that ends the source
FILE = "length_head.safetensors"


def token_types(tokens: Tensor, closing: int) -> Tensor:
    """[B, N] 0 up to the first ``closing`` token of each row and 1 after it, as tokenizers type pairs."""
    ends = tokens == closing
    return (ends.long().cumsum(-1) - ends.long() > 0).long()


def typed_by(model: Any) -> int | None:
    """The token after which ``model`` expects type 1; None if it was not trained on pairs, or its kind has no types."""
    config = model.config
    closing = getattr(config, PAIRS, None)
    if closing is not None and type(closing) is not int:
        raise AnyorderError(
            f"{PAIRS} of the model's config is {closing!r}, not the id of a token: remove it, or mend it"
        )
    return closing if getattr(config, "type_vocab_size", 1) > 1 else None


class LengthHead(nn.Module):
    """p(length | source) from the state of [CLS] in ``[CLS] source [SEP]`` and the source's own length n.

        logits = W gelu(U h) + T[n]

    The table T holds what length alone says about length: attention counts badly.
    """

    def __init__(self, hidden_size: int, longest: int) -> None:
        """``longest``: the most tokens that a source or a target has."""
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, longest + 1)
        self.table = nn.Embedding(longest + 1, longest + 1)
        nn.init.zeros_(self.table.weight)

    def forward(self, states: Tensor, source_length: Tensor) -> Tensor:
        """States [Q, H] and the sources' tokens [Q] -> logits [Q, longest + 1] of the targets' tokens."""
        known = source_length.clamp(max=self.table.num_embeddings - 1)
        return self.out(gelu(self.dense(states))) + self.table(known)

    def save(self, folder: Path) -> None:
        """Write it beside the model."""
        from safetensors.torch import save_file

        save_file(self.state_dict(), folder / FILE)

    @staticmethod
    def load(folder: Path) -> LengthHead | None:
        """The head of a checkpoint's folder, if it has one, in evaluation mode."""
        from safetensors.torch import load_file

        path = folder / FILE
        if not path.is_file():
            return None
        with readable(str(path)):
            weights = load_file(path)
            head = LengthHead(weights["dense.weight"].shape[0], weights["table.weight"].shape[0] - 1)
            head.load_state_dict(weights)
            check_weights(head, str(path))
        return head.eval().to(torch.float32)
