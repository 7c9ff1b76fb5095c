"""Conditionals of a batch some of whose rows are no longer wanted: nothing is asked for them any more."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from anyorder.types import Conditionals, RowWise


class Wanted:
    """log q of ``inner`` in the rows that are wanted; the uniform distribution, without any work, in all others.

    Rows of a batch are independent, so that those that are wanted never notice; what the others hold is worth nothing.
    """

    def __init__(self, inner: Conditionals, wanted: Callable[[], Tensor], rows: Tensor | None = None) -> None:
        """``wanted()`` says it of every row of the batch, [B] bool; ``rows`` [b] are those asked here, None: all."""
        self.vocab_size = inner.vocab_size
        self.mask_id = inner.mask_id
        self.pad_id = inner.pad_id
        self._inner, self._wanted, self._rows = inner, wanted, rows

    def of_rows(self, rows: Tensor) -> Wanted:
        """See :class:`anyorder.types.RowWise`."""
        inner = self._inner.of_rows(rows) if isinstance(self._inner, RowWise) else self._inner
        return Wanted(inner, self._wanted, rows if self._rows is None else self._rows[rows])

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        wanted = self._wanted() if self._rows is None else self._wanted()[self._rows]
        return self._inner(tokens, positions.masked_fill(~wanted[:, None], -1))
