"""What a causal language model thinks of generated texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch.nn.utils.rnn import pad_sequence

from anyorder.errors import AnyorderError
from anyorder.metrics.text import unigram_entropy
from anyorder.stats import Record, perplexity
from anyorder.studies.causal import causal_terms, load_causal
from anyorder.tasks.options import LoadOptions
from anyorder.training.tokenizer import load_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_ROWS = 16  # texts padded to one length


@dataclass(frozen=True)
class GenerativePerplexity(Record):
    """What a judge thinks of some texts, never without their entropy."""

    perplexity: float  # exp of the mean negative log-likelihood per token, with its 95 % interval over texts
    low: float
    high: float
    entropy: float  # nats, :func:`anyorder.metrics.text.unigram_entropy` in the judge's own tokens
    tokens: int  # tokens scored
    texts: int


@dataclass(frozen=True)
class Judge:
    """A causal language model and its tokenizer."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase

    @property
    def start(self) -> int | None:
        """The token that opens a text, so that the first word is judged too; None if the model has none."""
        possible = (self.tokenizer.bos_token_id, self.tokenizer.cls_token_id, self.model.config.bos_token_id)
        return next((int(token) for token in possible if token is not None), None)

    def perplexity(self, texts: Sequence[str]) -> GenerativePerplexity:
        """Generative perplexity of ``texts`` together with their entropy, in bounded memory.

        Texts longer than the judge can read are judged on their beginning; empty texts are left out.
        """
        limit = int(getattr(self.model.config, "max_position_embeddings", 0) or 1024)
        opening = [] if self.start is None else [self.start]
        encoded = self.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        rows = [row for row in ([*opening, *ids][:limit] for ids in encoded) if len(row) > 1]
        if not rows:
            raise AnyorderError("no text to judge: generate longer texts")
        rows.sort(key=len)  # texts of one length lie together, so that padding costs little
        log_probs: list[float] = []
        for first in range(0, len(rows), _ROWS):
            part = [torch.tensor(row) for row in rows[first : first + _ROWS]]
            tokens = pad_sequence(part, True, -1)
            free = tokens >= 0
            free[:, 0] = False
            # What fills a row up stands after all that is judged, where a causal model does not look.
            log_probs += causal_terms(self.model, tokens.clamp(min=0), free, pad_id=None).sum(-1).tolist()
        counts = [len(row) - 1 for row in rows]
        entropy = unigram_entropy([row[len(opening) :] for row in rows])
        return GenerativePerplexity(*perplexity(log_probs, counts), entropy, sum(counts), len(rows))


def load_judge(path: str | Path, options: LoadOptions = LoadOptions()) -> Judge:
    """A causal language model (GPT) from a folder or a Hugging Face name; in float32 always, since it measures."""
    return Judge(load_causal(path, replace(options, dtype="float32")), load_tokenizer(path, options.trust_remote_code))
