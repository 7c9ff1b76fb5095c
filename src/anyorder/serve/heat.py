"""What a heat map of a joint needs: one set of tokens per blank for all methods, and their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import torch

from anyorder.tasks.joint import TextJoint


def heat(joints: Mapping[str, TextJoint], cells: int) -> dict[str, Any]:
    """The tokens of the likeliest pairs of all methods, ``cells`` per blank, and every method's table over them."""
    a = _first(cells, (one for one, _ in _pairs(joints, cells)))
    b = _first(cells, (one for _, one in _pairs(joints, cells)))
    some = next(iter(joints.values()))
    tables = {}
    for name, joint in joints.items():
        prob = joint.log_prob(torch.tensor(a)[:, None], torch.tensor(b)).exp()  # [a, b]
        tables[name] = {
            "prob": prob.tolist(),
            "marginals": {"a": joint.marginal(0).exp()[a].tolist(), "b": joint.marginal(1).exp()[b].tolist()},
            "shown": float(prob.sum()),
        }
    return {"a": [some.token(t) for t in a], "b": [some.token(t) for t in b], "tables": tables}


def _pairs(joints: Mapping[str, TextJoint], cells: int) -> Iterator[tuple[int, int]]:
    """The best pair of every method, then the second best of each, and so on."""
    for pairs in zip_longest(*(joint.top(cells * cells) for joint in joints.values())):
        yield from ((one[0], one[1]) for one in pairs if one is not None)


def _first(count: int, tokens: Iterator[int]) -> list[int]:
    """The first ``count`` different ones."""
    return list(dict.fromkeys(tokens))[:count]
