"""The curve of a model: the loss of a hidden token against the share of the text that is visible, in a small file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anyorder.errors import AnyorderError
from anyorder.files.json_text import parse_json
from anyorder.stats import Record

NAME = "curve.json"  # beside a checkpoint's config.json


@dataclass(frozen=True)
class Curve(Record):
    """L at some shares of visible tokens, from texts of one length.

    Attributes:
        visible: shares of a text's tokens that are visible, ascending.
        loss: nats per hidden token there.
        standard_error: of each loss, over texts.
        tokens: of every text it was measured on, special ones not counted.
        texts: how many there were.
    """

    visible: tuple[float, ...]
    loss: tuple[float, ...]
    standard_error: tuple[float, ...]
    tokens: int
    texts: int

    def losses(self, length: int, given: int = 0) -> np.ndarray:
        """[length - given] L(t) of a text of ``length`` tokens, ``given`` of which stand from the start.

        Between the measured shares it is a straight line. A text of another length is taken to lose as much at the same
        share: what helps a token most is how near the visible ones are, which the share decides.
        """
        return np.interp(np.arange(given, length) / length, self.visible, self.loss)

    def write(self, path: Path) -> None:
        """Write the file that :func:`read_curve` finds."""
        path.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")


def read_curve(folder: Path) -> Curve | None:
    """The curve beside the checkpoint in ``folder``, if there is one."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        said = parse_json(path.read_text(encoding="utf-8"))
        visible, loss, error = (tuple(map(float, said[key])) for key in ("visible", "loss", "standard_error"))
        curve = Curve(visible, loss, error, tokens=int(said["tokens"]), texts=int(said["texts"]))
        sound = len(curve.visible) == len(curve.loss) > 0 and bool(np.isfinite(curve.loss).all())
        if not (sound and (np.diff(curve.visible) > 0).all()):
            raise ValueError("its points are not a curve")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AnyorderError(
            f"cannot read {path} ({error}): measure it again with `anyorder evaluate schedule`, or remove it"
        ) from None
    return curve
