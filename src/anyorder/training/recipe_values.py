"""Which values the settings of a recipe may have."""

from __future__ import annotations

import math
from typing import Any, get_args

from anyorder.errors import AnyorderError

# What each objective can train.
KINDS = {"pmlm": ("bert", "relative", "modernbert"), "causal": ("gpt2",), "permutation": ("xlnet",)}
_CHOICES = {
    "data.unit": ("document", "line"),
    "model.kind": tuple(kind for kinds in KINDS.values() for kind in kinds),
    "objective.name": tuple(KINDS),
    "objective.corruption": ("mask", "80-10-10"),
    "objective.order": ("random", "left-to-right"),
    "objective.normalise": ("sequence", "token", "bound"),
    "optim.name": ("adamw", "lamb", "muon"),
    "optim.schedule": ("linear", "cosine", "constant"),
    "precision": ("fp32", "bf16"),
}
_BELOW_ONE = math.nextafter(1, 0)
# The smallest and the largest value of a number, or of each of several.
_LIMITS: dict[str, tuple[float, float]] = {
    "seed": (0, 10**12),  # times a million and more, it is still a seed of torch's
    "data.length": (2, 2**31),  # the token that opens a block, and one to read
    **dict.fromkeys(("optim.steps", "optim.batch", "optim.micro_batch"), (1, 2**31)),
    **dict.fromkeys(("run.checkpoint_every", "run.log_every", "run.evaluate_every", "run.evaluate_blocks"), (1, 2**31)),
    **dict.fromkeys(("model.hidden_size", "model.layers", "model.heads", "model.intermediate"), (1, 2**20)),
    **dict.fromkeys(("data.min_tokens", "objective.ordered_from", "optim.warmup", "run.keep"), (0, 2**31)),
    "tokenizer.vocab_size": (6, 2**24),  # five special tokens and something to say
    "run.threads": (0, 1024),
    **dict.fromkeys(("data.holdout", "objective.ordered", "objective.length", "model.dropout"), (0, 1)),
    **dict.fromkeys(("optim.betas", "optim.momentum", "objective.label_smoothing"), (0, _BELOW_ONE)),
    **dict.fromkeys(("optim.lr", "optim.muon_lr", "optim.weight_decay", "optim.clip", "data.weights"), (0, 1e9)),
    **dict.fromkeys(("optim.eps", "optim.layer_decay"), (1e-30, 1)),
}


def checked(name: str, value: Any, default: Any, hint: Any) -> Any:
    """``value`` of the setting ``name``, in the type of its ``default``; a sentence says what else was expected.

    Args:
        name: Such as ``optim.lr``.
        value: What was given.
        default: Its value if nothing is.
        hint: Its type.
    """
    try:
        value = _typed(value, default, hint)
    except (TypeError, ValueError, OverflowError) as error:
        raise AnyorderError(f"recipe key {name!r} wants a value like {default!r}, not {value!r}") from error
    parts = value if isinstance(value, tuple) else (value,)
    if name in _CHOICES and (wrong := set(parts) - set(_CHOICES[name])):
        raise AnyorderError(f"recipe key {name!r} is one of {', '.join(_CHOICES[name])}, not {wrong.pop()!r}")
    low, high = _LIMITS.get(name, (-math.inf, math.inf))
    for number in parts:
        if isinstance(number, int | float) and not low <= number <= high:  # NaN is neither
            below = "less than 1" if high == _BELOW_ONE else f"at most {high:.12g}"
            limit = below if number > high else f"at least {low:.12g}"
            raise AnyorderError(f"recipe key {name!r} must be {limit}, not {number!r}")
    if name == "optim.decay" and not (value and all(0 < share <= 1 for share in value)):
        raise AnyorderError(f"recipe key {name!r} is a share of the steps, over 0 and at most 1, not {value!r}")
    if name == "optim.starts" and value != tuple(sorted({0, *value})):
        raise AnyorderError(f"recipe key {name!r} is 0 and then ever later steps, such as [0, 1000], not {value!r}")
    return value


def _typed(value: Any, default: Any, hint: Any) -> Any:
    """``value`` in the type of ``default``; raises what Python raises where it cannot be."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError
    elif isinstance(default, int):
        if isinstance(value, bool) or int(value) != float(value):
            raise ValueError
        value = int(value)
    elif isinstance(default, float):
        value = float(value)
    elif isinstance(default, tuple):
        of, *rest = get_args(hint)
        value = tuple(of(part) for part in (value if isinstance(value, list | tuple) else [value]))
        if rest != [...] and len(value) != len(default):
            raise ValueError
    elif hint == float | None:
        value = None if value is None else float(value)
    elif value is not None or default is not None:
        value = str(value)
    return value
