"""How good a generated text is: stutter, repetition, variety, and what another language model thinks of it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from anyorder.errors import AnyorderError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Row = Sequence[Hashable]  # the tokens of one text


def adjacent_repeats(rows: Sequence[Row]) -> float:
    """Share of neighbouring tokens that are equal, over all texts together: #{t : x_t = x_t+1} / #{t}."""
    pairs = sum(max(0, len(row) - 1) for row in rows)
    equal = sum(a == b for row in rows for a, b in itertools.pairwise(row))
    return equal / pairs if pairs else 0.0


def stutter_rate(rows: Sequence[Row], corpus_rate: float = 0.0) -> float:
    """Adjacent repeats beyond those of real text ("had had"), the failure Li et al. 2024 (remark 1) explain.

    A parallel step that fills neighbours independently writes "the the" where either place alone deserved a "the".

    Args:
        rows: Tokens of each text.
        corpus_rate: :func:`adjacent_repeats` of real text in the same tokens.
    """
    return adjacent_repeats(rows) - corpus_rate


def ngrams(row: Row, n: int) -> list[tuple[Hashable, ...]]:
    """The n-grams of one text, in order."""
    return [tuple(row[i : i + n]) for i in range(len(row) - n + 1)]


def distinct_n(rows: Sequence[Row], n: int) -> float:
    """Distinct n-grams as a share of all n-grams, over all texts together (Li et al. 2016): variety *between* texts."""
    grams = [gram for row in rows for gram in ngrams(row, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def repetition_n(rows: Sequence[Row], n: int) -> float:
    """Mean over texts of 1 - distinct n-grams / n-grams (seq-rep-n, Welleck et al. 2020): repetition *within* one."""
    shares = [1 - len(set(grams)) / len(grams) for grams in (ngrams(row, n) for row in rows) if grams]
    return sum(shares) / len(shares) if shares else 0.0


def unigram_entropy(rows: Sequence[Row]) -> float:
    """Mean over texts of the entropy, in nats, of the text's own token frequencies.

    Generative perplexity rewards a text that says one probable word over and over; its entropy gives it away.
    """
    entropies = []
    for row in rows:
        counts = Counter(row)
        entropies.append(-sum(c / len(row) * math.log(c / len(row)) for c in counts.values()))
    return sum(entropies) / len(entropies) if entropies else 0.0


@dataclass(frozen=True)
class GenerativePerplexity:
    """What a causal language model thinks of some texts, never without their entropy."""

    perplexity: float  # exp of the mean negative log-likelihood of a token
    entropy: float  # nats, :func:`unigram_entropy` in the judge's own tokens
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
