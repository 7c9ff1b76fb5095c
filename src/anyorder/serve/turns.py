"""Several pieces of work, one model: each computes for a moment and lets the next one, first come, first served."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.conditionals.mlm import ModelConditionals

PIECE = 4096  # tokens sent through the model before others may: some tens of milliseconds of a small one


class Turns:
    """A lock that is handed on in the order of asking; a plain one is usually caught again by who let it go."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._held = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._held:
                self._held = True
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._held = False

    def pass_on(self) -> None:
        """Let all who wait have their turn first."""
        if self._waiting:
            self.__exit__()
            self.__enter__()


class Watch:
    """The seconds of a batch's own turns."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    def start(self) -> None:
        """Its turn begins."""
        self._since = time.monotonic()

    def stop(self) -> None:
        """Its turn ends; nothing if it had not begun."""
        if self._since is not None:
            self.seconds += time.monotonic() - self._since
            self._since = None


class Pace:
    """What the thread that works calls between two pieces of its work; each thread has its own."""

    def __init__(self) -> None:
        self._of = threading.local()

    def set(self, call: Callable[[], None] | None) -> None:
        """From here on ``call`` is called in this thread."""
        self._of.call = call

    def __call__(self, *_: object) -> None:
        """Between two pieces; takes whatever a progress callback is given. It may raise, to end the work."""
        call = getattr(self._of, "call", None)
        if call is not None:
            call()


class Paced:
    """Conditionals that send a large question in pieces, with a pause between them; no answer changes."""

    def __init__(self, inner: ModelConditionals, pace: Pace) -> None:
        self.inner = inner
        self.vocab_size = inner.vocab_size
        self.mask_id = inner.mask_id
        self.pad_id = inner.pad_id
        self.token_budget = inner.token_budget
        self._pace = pace

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """log q, [B, K, V]; see :class:`anyorder.types.Conditionals`."""
        return self._in_pieces(self.inner, tokens, positions)

    def of_tokens(self, tokens: Tensor, positions: Tensor, wanted: Tensor) -> Tensor:
        """[B, K]; see :class:`anyorder.types.TokenScores`."""
        return self._in_pieces(self.inner.of_tokens, tokens, positions, wanted)

    def logit_rows(self, rows: Tensor, position: int) -> tuple[Tensor, Tensor]:
        """(log q [n, V], log z [n]); see :class:`anyorder.types.LogitRows`."""
        self._pace()
        return self.inner.logit_rows(rows, position)

    def _in_pieces(self, ask: Callable[..., Tensor], *over_rows: Tensor) -> Tensor:
        rows = max(1, PIECE // over_rows[0].shape[1])
        if len(over_rows[0]) <= rows:
            self._pace()
            return ask(*over_rows)
        answers = []
        for part in zip(*(tensor.split(rows) for tensor in over_rows), strict=True):
            self._pace()
            answers.append(ask(*part))
        return torch.cat(answers)
