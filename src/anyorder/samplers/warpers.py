"""Temperature, top-k, top-p, min-p, typical: transformers' own logits warpers, over [B*K, V] log-probabilities.

They belong to sampling. What is reported of a draw (log_prob, entropy) stays the model's own, unwarped.
"""

from __future__ import annotations

from typing import Any, cast

from anyorder.errors import AnyorderError
from anyorder.samplers.draw import Warper

# Log-probabilities divided by less leave float32's range, and their softmax is NaN. It is greedy already.
_COLDEST = 1e-30


def warper(
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    typical_p: float | None = None,
) -> Warper | None:
    """The warpers asked for, in transformers' order, or None if nothing is to be warped.

    Args:
        temperature: Divides the log-probabilities; below 1 sharpens.
        top_k: Keep the k most probable tokens; 1 is greedy.
        top_p: Keep the fewest tokens that hold this much probability.
        min_p: Keep tokens at least this fraction as probable as the best.
        typical_p: Keep the tokens nearest to the entropy that hold this much probability.

    Raises:
        AnyorderError: A value out of its range.
    """
    _check(temperature > 0, f"temperature must be above 0, not {temperature}: use top_k=1 for greedy choices")
    _check(top_k is None or top_k >= 1, f"top_k must be at least 1, not {top_k}")
    _check(top_p is None or 0 < top_p <= 1, f"top_p must lie in (0, 1], not {top_p}")
    _check(min_p is None or 0 <= min_p <= 1, f"min_p must lie in [0, 1], not {min_p}")
    _check(typical_p is None or 0 < typical_p <= 1, f"typical_p must lie in (0, 1], not {typical_p}")

    # Imported here: transformers takes a second, and most samplers are built without warpers.
    import transformers

    steps: list[Any] = []
    if temperature != 1:
        steps.append(transformers.TemperatureLogitsWarper(max(float(temperature), _COLDEST)))
    if top_k is not None:
        steps.append(transformers.TopKLogitsWarper(top_k))
    if top_p is not None and top_p < 1:
        steps.append(transformers.TopPLogitsWarper(top_p))
    if min_p is not None and min_p > 0:
        steps.append(transformers.MinPLogitsWarper(min_p))
    if typical_p is not None and typical_p < 1:
        steps.append(transformers.TypicalLogitsWarper(typical_p))
    if not steps:
        return None
    # The list also takes keyword arguments, which is more than our type says of it.
    return cast(Warper, transformers.LogitsProcessorList(steps))


def _check(fine: bool, message: str) -> None:
    if not fine:
        raise AnyorderError(message)
