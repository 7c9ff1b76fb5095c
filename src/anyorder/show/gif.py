"""A recording as an animated GIF: the text as prose, every word coming into its final place."""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from anyorder.errors import AnyorderError
from anyorder.show.animation import asset
from anyorder.show.recording import Drawn, Recording
from anyorder.text.vocabulary import GLUED_LEFT, GLUED_RIGHT

if TYPE_CHECKING:
    from PIL import ImageDraw, ImageFont

WIDTH, MARGIN, SIZE, LINE = 720, 28, 21, 40  # pixels
SMALL = 14
PAD = 4  # around a word, inside its colour
EDGES = (0.01, 0.03, 0.1, 0.3, 0.6, 0.9)  # of the colours, as player.js has them
STEP, LONGEST, LAST = 140, 12_000, 3_000  # milliseconds: a step, all of them, the finished text
MOST_FRAMES = 160
TALLEST = 2400  # pixels of the text: 60 lines, three times what the bundled model holds


class Place(NamedTuple):
    """Where a position stands on the picture."""

    x: int
    y: int
    width: int


def animated_gif(recording: Recording) -> bytes:
    """The GIF's bytes; long recordings leave out steps in between, never the first or the last."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise AnyorderError("a GIF needs Pillow: pip install 'anyorder[report]'") from None
    font, small = _font(SIZE), _font(SMALL)
    places, bottom = _places(recording, font)
    if bottom > TALLEST:
        raise AnyorderError(f"the text is too long for a GIF of {TALLEST} pixels: choose an .html file")
    last = len(recording.steps)
    every = math.ceil((last + 1) / MOST_FRAMES)
    shown = sorted({*range(0, last + 1, every), last})
    states = dict(zip(shown, recording.states(shown), strict=True))
    colours = _palette()

    def frame(number: int) -> Image.Image:
        image = Image.new("RGB", (WIDTH, bottom + 3 * SMALL + MARGIN), colours["paper"])
        draw = ImageDraw.Draw(image)
        fresh = {one.position for one in recording.steps[number - 1]} if number else set()
        for position, (place, token) in enumerate(zip(places, states[number], strict=True)):
            _draw_token(draw, place, token, position in fresh, font, colours)
        _draw_footer(draw, bottom, number, last, small, colours)
        return image

    # One palette for all frames: colours that differ from frame to frame flicker. The last frame has the most of them.
    palette = frame(last).quantize(128)
    frames = [frame(number).quantize(palette=palette, dither=Image.Dither.NONE) for number in shown]
    step = max(20, min(STEP, LONGEST // max(1, len(frames))))
    out = io.BytesIO()
    frames[0].save(
        out,
        format="gif",
        save_all=True,
        append_images=frames[1:],
        duration=[step] * (len(frames) - 1) + [LAST],
        loop=0,
        optimize=True,
    )
    return out.getvalue()


def _places(recording: Recording, font: Any) -> tuple[list[Place], int]:
    """Every position's place, as wide as the widest word it ever holds, and the height of the text."""
    widths = [0] * recording.length
    for one in (*recording.given, *(one for step in recording.steps for one in step)):
        pad = 0 if one.log_prob is None else 2 * PAD
        widths[one.position] = max(widths[one.position], math.ceil(font.getlength(_line(one.text))) + pad)
    space = round(font.getlength(" "))
    x, y = MARGIN, MARGIN
    places: list[Place] = []
    for unit in _units(recording):
        width = sum(widths[position] for position in unit)
        if places:
            x += space
            if unit[0] in recording.breaks or x + width > WIDTH - MARGIN:
                x, y = MARGIN, y + LINE
        for position in unit:
            places.append(Place(x, y, widths[position]))
            x += widths[position]
    return places, y + LINE


def _units(recording: Recording) -> list[list[int]]:
    """The positions that are written together, without spaces, in the finished text: no line breaks inside them."""
    (final,) = recording.states([len(recording.steps)])
    units: list[list[int]] = []
    for position, token in enumerate(final):
        before = final[position - 1] if position else None
        glued = (token and token.glue & GLUED_LEFT) or (before and before.glue & GLUED_RIGHT)
        if units and glued and position not in recording.breaks:
            units[-1].append(position)
        else:
            units.append([position])
    return units


def _draw_token(
    draw: ImageDraw.ImageDraw,
    place: Place,
    token: Drawn | None,
    fresh: bool,
    font: ImageFont.FreeTypeFont,
    colours: dict[str, str],
) -> None:
    x, y, width = place
    height = LINE - 10
    if token is None:
        draw.line((x + 2, y + height - 3, x + width - 2, y + height - 3), fill=colours["line"], width=2)
        return
    if token.log_prob is not None:
        p = math.exp(token.log_prob)
        box = (x, y, x + width - 1, y + height)
        outline = colours["accent"] if fresh else None
        draw.rounded_rectangle(box, radius=5, fill=colours[f"p{sum(p >= edge for edge in EDGES)}"], outline=outline)
        draw.line((x + 2, y + height - 1, x + 2 + p * (width - 5), y + height - 1), fill=colours["soft"], width=2)
        x += PAD
    draw.text((x, y + height - 9), _line(token.text), font=font, fill=colours["ink"], anchor="ls")


def _draw_footer(
    draw: ImageDraw.ImageDraw, top: int, step: int, steps: int, font: ImageFont.FreeTypeFont, colours: dict[str, str]
) -> None:
    """A line for how far it is, the colours, and the step."""
    y = top + SMALL // 2
    draw.line((MARGIN, y, WIDTH - MARGIN, y), fill=colours["line"], width=2)
    draw.line((MARGIN, y, MARGIN + (WIDTH - 2 * MARGIN) * step / max(1, steps), y), fill=colours["accent"], width=2)
    x, base = MARGIN, y + 2 * SMALL
    draw.text((x, base), "probability", font=font, fill=colours["soft"], anchor="ls")
    x += round(font.getlength("probability")) + 8
    for number, name in enumerate(("<1 %", "1", "3", "10", "30", "60", "≥90 %")):
        width = round(font.getlength(name)) + 12
        box = (x, base - SMALL, x + width - 2, base + 5)
        draw.rounded_rectangle(box, radius=3, fill=colours[f"p{number}"])
        draw.text((x + 5, base), name, font=font, fill=colours["ink"], anchor="ls")
        x += width
    draw.text((WIDTH - MARGIN, base), f"step {step} of {steps}", font=font, fill=colours["soft"], anchor="rs")


def _line(text: str | None) -> str:
    """A token as one line: some vocabularies have line breaks."""
    return " ".join((text or "").split("\n"))


def _palette() -> dict[str, str]:
    """The light colours of player.css by name."""
    light = asset("player.css").partition("@media")[0]
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", light))


def _font(size: int) -> Any:
    """DejaVu, which knows most alphabets, where matplotlib or the system has it; else the one inside Pillow."""
    from PIL import ImageFont

    try:
        from matplotlib import get_data_path

        return ImageFont.truetype(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)
    except (ImportError, OSError):
        return ImageFont.load_default(size)
