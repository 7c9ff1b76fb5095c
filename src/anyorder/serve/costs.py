"""About how many tokens a request will send through the model: enough to tell quick ones from slow ones."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from anyorder.tasks.lm import MaskedLM
from anyorder.text.compose import DEFAULT_LENGTH
from anyorder.text.template import MAX_COMBINATIONS

_BLANK = re.compile(r"_{3,}(?:\{\s*(\d{1,4})\s*(?:[-–]\s*(\d{1,4})\s*)?\})?")


def cost(lm: MaskedLM, kind: str, texts: Sequence[str | None], options: Any) -> float:
    """Rows times tokens of all texts."""
    return sum(_COSTS[kind](lm, _tokens(lm, text), text or "", options) for text in texts)


def _tokens(lm: MaskedLM, text: str | None) -> int:
    """Tokens of a text, at a glance: words and punctuation."""
    return min(lm.max_length, 2 + len(text or "") // 4)


def _fill(lm: MaskedLM, tokens: int, text: str, options: Any) -> float:
    if options.method == "joint":
        return _joint(lm, tokens, text, options)
    rows = options.beam if options.method == "beam" else options.samples
    ranges = [(int(low or 1), int(high or low or 1)) for low, high in _BLANK.findall(text)]
    blanks = max(1, sum(high for _, high in ranges) + text.count(str(lm.tokenizer.mask_token)))
    lengths = min(MAX_COMBINATIONS, math.prod(max(1, high - low + 1) for low, high in ranges))  # a search each
    return lengths * blanks * rows * min(lm.max_length, tokens + blanks)


def _generate(lm: MaskedLM, tokens: int, text: str, options: Any) -> float:
    length = max(tokens, options.length or DEFAULT_LENGTH)
    return options.samples * length * (options.steps or length)


def _score(lm: MaskedLM, tokens: int, text: str, options: Any) -> float:
    rows = (options.samples or 16) if options.method == "bound" else tokens * (options.samples or 1)
    return max(1, len(text) // 4 / tokens) * rows * tokens


def _joint(lm: MaskedLM, tokens: int, text: str, options: Any) -> float:
    return 2 * lm.conditionals.vocab_size * tokens / (1 if options.tail is None else 8)


def _translate(lm: MaskedLM, tokens: int, text: str, options: Any) -> float:
    # A target is about as long as its source; samplers without a number of steps make one per token.
    return options.lengths * (options.steps or max(10, tokens)) * min(lm.max_length, 2 * tokens)


_COSTS = {"fill": _fill, "generate": _generate, "score": _score, "joint": _joint, "translate": _translate}
