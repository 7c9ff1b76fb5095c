"""A recording as one HTML page that needs no other file, or as a GIF."""

from __future__ import annotations

import html
import json
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from anyorder.errors import AnyorderError
from anyorder.show.figure import check_path
from anyorder.show.recording import Recording

KINDS = (".html", ".gif")


@cache
def asset(name: str) -> str:
    """The text of ``player.js`` or ``player.css``, which lie beside this file."""
    return (files("anyorder.show") / name).read_text(encoding="utf-8")


def animated_page(recording: Recording) -> str:
    """The whole page: the player, its style and the recording. All text reaches the page through ``textContent``."""
    # Inside a script element only "</script" and "<!--" could end the data; no "<" remains.
    data = json.dumps(recording.to_dict(), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    title = html.escape(recording.title or "anyorder")
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
html {{ background: var(--paper) }}
{asset("player.css")}</style>
<body>
<main class="player" id="player"></main>
<script type="application/json" id="recording">{data}</script>
<script type="module">
{asset("player.js")}
mount(document.getElementById("player"), JSON.parse(document.getElementById("recording").textContent));
</script>
</body>
</html>
"""


def check_animation_path(path: Path | None) -> None:
    """Fail before the work, not after it, where an animation could not be written."""
    if path is None:
        return
    check_path(path, KINDS)
    if path.suffix.lower() == ".gif" and find_spec("PIL") is None:
        raise AnyorderError("a GIF needs Pillow: pip install 'anyorder[report]', or name an .html file")


def write_animation(recording: Recording, path: Path) -> None:
    """Write the recording to a file that ends in one of ``KINDS``."""
    if path.suffix.lower() == ".gif":
        from anyorder.show.gif import animated_gif

        content = animated_gif(recording)
    else:
        content = animated_page(recording).encode()
    try:
        path.write_bytes(content)
    except OSError as error:
        raise AnyorderError(f"cannot write {path} ({error.strerror}): choose another place") from None
