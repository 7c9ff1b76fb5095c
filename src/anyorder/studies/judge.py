"""What another language model thinks of generated texts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from anyorder.errors import AnyorderError
from anyorder.metrics.text import unigram_entropy

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class GenerativePerplexity:
    """What a causal language model thinks of some texts, never without their entropy."""

    perplexity: float  # exp of the mean negative log-likelihood of a token
    entropy: float  # nats, :func:`anyorder.metrics.text.unigram_entropy` in the judge's own tokens
    tokens: int  # tokens scored
    texts: int

    def to_dict(self) -> dict[str, Any]:
        """The fields, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Judge:
    """A causal language model and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    @property
    def start(self) -> int | None:
        """The token that opens a text, so that the first word is judged too; None if the model has none."""
        for token in (self.tokenizer.bos_token_id, self.tokenizer.cls_token_id, self.model.config.bos_token_id):
            if token is not None:
                return int(token)
        return None

    def perplexity(self, texts: Sequence[str], batch: int = 16) -> GenerativePerplexity:
        """Generative perplexity of ``texts`` together with their entropy.

        Texts longer than the judge can read are judged on their beginning; empty texts are left out.
        """
        limit = int(getattr(self.model.config, "max_position_embeddings", 0) or 1024)
        opening = [] if self.start is None else [self.start]
        rows = []
        for text in texts:
            ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
            rows.append([*opening, *ids][:limit])
        rows = [row for row in rows if len(row) > 1]
        if not rows:
            raise AnyorderError("no text to judge: generate longer texts")
        total, count = 0.0, 0
        # Texts of one length lie together, so that padding costs little.
        by_length = sorted(rows, key=len)
        for first in range(0, len(by_length), batch):
            nll, tokens = self._nll(by_length[first : first + batch])
            total, count = total + nll, count + tokens
        bodies = [row[len(opening) :] for row in rows]
        return GenerativePerplexity(math.exp(total / count), unigram_entropy(bodies), count, len(rows))

    def _nll(self, rows: list[list[int]]) -> tuple[float, int]:
        """Summed negative log-likelihood of every token but the first of each row, and their number."""
        width = max(map(len, rows))
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        real = torch.zeros((len(rows), width), dtype=torch.bool)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row)
            real[i, : len(row)] = True
        with torch.inference_mode():
            logits = self.model(input_ids=ids, attention_mask=real.long()).logits
        log_p = logits[:, :-1].float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        scored = real[:, 1:]
        return -float(log_p[scored].double().sum()), int(scored.sum())


def load_judge(path: str) -> Judge:
    """A causal language model (GPT) from a folder or a Hugging Face name."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "unknown reason"
        raise AnyorderError(f"cannot load the judge {path!r}, which must be a causal LM: {reason}") from error
    return Judge(model, tokenizer)
