"""One way to make a figure: matplotlib if it is there, a clear sentence if not, a file or bytes for a page."""

from __future__ import annotations

import base64
import io
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from anyorder.errors import AnyorderError

FONT = 9  # points, of ticks and legends: what can be read at the size a page shows


def plain_log(axis: Any, which: str) -> None:
    """A logarithmic axis whose ticks read 0.6 rather than 6×10⁻¹, and not one for every digit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    getattr(axis, f"set_{which}scale")("log")
    line = getattr(axis, f"{which}axis")
    low, high = line.get_view_interval()
    decades = math.log10(high / low) if low > 0 else 9.0
    if decades < 1:  # which may hold a single 1, 2 or 5
        line.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        line.set_minor_locator(NullLocator())
    else:
        line.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,), numticks=8))
    line.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    line.set_minor_formatter(NullFormatter())


def new_figure(columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row, ready to draw on; never needs a screen."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise AnyorderError("a plot needs matplotlib: pip install 'anyorder[report]'") from None
    figure, axes = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    for ax in axes.flat:
        ax.tick_params(labelsize=FONT)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def save_figure(figure: Any, path: str | Path) -> None:
    """Write the figure to ``path`` and forget it."""
    import matplotlib.pyplot as plt

    try:
        if Path(path).suffix.lower() == ".png":
            Path(path).write_bytes(_png(figure, dpi=150, colours=256))
        else:
            figure.savefig(path)
    except (OSError, ValueError) as error:
        raise AnyorderError(f"cannot write the plot {path}: {error}") from None
    finally:
        plt.close(figure)


def embedded(figure: Any) -> str:
    """The figure as a data URI, for a page that needs no other file."""
    import matplotlib.pyplot as plt

    drawn = _png(figure, dpi=90, colours=64)
    plt.close(figure)
    return "data:image/png;base64," + base64.b64encode(drawn).decode()


def _png(figure: Any, dpi: int, colours: int) -> bytes:
    """The figure with a palette: a third of the bytes, and drawings of lines need no more colours."""
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    Image.open(drawn).convert("RGB").quantize(colours).save(small, format="png", optimize=True)
    return small.getvalue()


def check_plot_path(path: Path | None, kinds: tuple[str, ...] = (".png", ".svg", ".pdf")) -> None:
    """Fail before the work, not after it, where a plot (or a page of plots) could not be written."""
    if path is None:
        return
    check_path(path, kinds)
    if find_spec("matplotlib") is None:
        raise AnyorderError("a plot needs matplotlib: pip install 'anyorder[report]'")


def check_path(path: Path, kinds: tuple[str, ...]) -> None:
    """Refuse a file whose folder is missing or whose name ends otherwise."""
    if not path.parent.is_dir():
        raise AnyorderError(f"there is no folder {path.parent} for {path.name}: create it first")
    if path.suffix.lower() not in kinds:
        raise AnyorderError(f"cannot write {path.name!r}: use a name that ends in {' or '.join(kinds)}")
