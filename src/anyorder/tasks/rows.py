"""Texts of different lengths as rows of one batch; errors that say which text they are about."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyorder.errors import AnyorderError

T = TypeVar("T")


def batches(
    lengths: Sequence[int], pad_id: int | None, *, alike: Sequence[Hashable] | None = None, size: int = 4096
) -> Iterator[list[int]]:
    """Numbers of the texts that go together, at most ``size`` at a time, neighbours in length beside each other.

    Args:
        lengths: tokens of each text.
        pad_id: None if the model knows no padding; then all of a batch have one length.
        alike: what all of a batch must share besides.
    """
    keys = [(() if alike is None else alike[i], n if pad_id is None else 0) for i, n in enumerate(lengths)]
    together: dict[Hashable, list[int]] = {}
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        together.setdefault(keys[i], []).append(i)
    for several in together.values():
        for start in range(0, len(several), size):
            yield several[start : start + size]


def padded(rows: Sequence[Tensor], pad_id: int | None) -> Tensor:
    """[T, N] of rows [n]; without padding all have one length."""
    return pad_sequence(list(rows), batch_first=True, padding_value=0 if pad_id is None else pad_id)


def named(number: int | None, make: Callable[..., T], *arguments: Any, **keywords: Any) -> T:
    """What ``make`` makes of a text; an error says which of several texts it was."""
    try:
        return make(*arguments, **keywords)
    except AnyorderError as error:
        raise error if number is None else AnyorderError(f"text {number}: {error}") from None
