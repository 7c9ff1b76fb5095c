"""The page: its files, the player they share with exported animations, and recordings made into files.

Guard's content-security policy lets a browser load nothing but these files: no script or style inside the page.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from pydantic import Field

from anyorder.errors import AnyorderError
from anyorder.serve.requests import Request
from anyorder.show.animation import animated_page, asset
from anyorder.show.gif import animated_gif
from anyorder.show.recording import Drawn, Recording

PAGE = Path(__file__).parent / "page"
FRESH = {"Cache-Control": "no-cache"}  # asked for again each time, and answered with 304 if nothing changed
_KINDS = {"js": "text/javascript", "css": "text/css"}
MOST_DRAWN = 20_000  # tokens of a recording, all steps together: some megabytes of HTML


class DrawnBody(Request):
    """A token of a recording."""

    position: int = Field(ge=0, le=4096)
    text: Annotated[str, Field(max_length=200)] | None
    glue: int = Field(0, ge=0, le=3)
    log_prob: float | None = Field(None, le=1e-6)
    entropy: float | None = Field(None, ge=-1e-6)


Row = Annotated[list[DrawnBody], Field(max_length=4096)]


class RecordingBody(Request):
    """How a text came about, as :class:`anyorder.show.recording.Recording` has it."""

    length: int = Field(ge=0, le=4096)
    given: Row
    steps: Annotated[list[Row], Field(max_length=4096)]
    breaks: tuple[int, ...] = Field((), max_length=4096, strict=False)
    title: str = Field("", max_length=4000)
    note: str = Field("", max_length=400)

    def read(self) -> Recording:
        """The recording itself; raises AnyorderError where it contradicts itself."""
        rows = [self.given, *self.steps]
        if sum(map(len, rows)) > MOST_DRAWN:
            raise AnyorderError(f"a recording has at most {MOST_DRAWN:,} tokens, all steps together: send fewer steps")
        if any(one.position >= self.length for row in rows for one in row):
            raise AnyorderError(f"a token stands beyond the {self.length} positions of its recording: raise length")
        given, *steps = (tuple(Drawn(**one.model_dump()) for one in row) for row in rows)
        return Recording(self.length, given, tuple(steps), self.breaks, self.title, self.note)


class AnimationBody(Request):
    """What to make of a recording."""

    kind: Literal["html", "gif"] = Field(description="html or gif.")
    recording: RecordingBody = Field(description="Which tokens were given, and what each step drew.")


class Page(StaticFiles):
    """The files of the page."""

    def file_response(self, *args: Any, **keywords: Any) -> Response:
        """See starlette."""
        response = super().file_response(*args, **keywords)
        response.headers.update(FRESH)
        return response


def install(app: FastAPI) -> None:
    """Add the page at ``/`` and what it asks for besides the library's own endpoints; the last to be installed."""
    drawing = threading.Lock()  # pictures one after the other: they share the processor with the model

    @app.get("/player.{kind}", include_in_schema=False)
    def player(kind: Literal["js", "css"]) -> Response:
        return Response(asset(f"player.{kind}"), media_type=_KINDS[kind], headers=FRESH)

    @app.post("/animation", tags=["anyorder"], response_class=Response)
    def animation(said: AnimationBody) -> Response:
        """A recording as a page that needs no other file, or as a GIF."""
        recording = said.recording.read()
        with drawing:
            content = animated_gif(recording) if said.kind == "gif" else animated_page(recording).encode()
        kind = "image/gif" if said.kind == "gif" else "text/html; charset=utf-8"
        # Saved, never shown: what is inside an exported page may run scripts.
        headers = {"Content-Disposition": f'attachment; filename="anyorder.{said.kind}"'}
        return Response(content, media_type=kind, headers=headers)

    app.mount("/", Page(directory=PAGE, html=True))
