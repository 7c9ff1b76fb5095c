"""One server over the tiny model and one browser for all tests of the page."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def address(tiny_lm: Any) -> Iterator[str]:
    """The page's address."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra web is not installed")
    from anyorder.serve.app import make_app
    from anyorder.serve.run import listen

    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(make_app(tiny_lm), log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, without a screen."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        # The sandbox needs rights that a container's root does not have; the pages are our own.
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    """A page of its own; a test that leaves an error in its console fails."""
    context = browser.new_context(base_url=address, viewport={"width": 1100, "height": 900}, accept_downloads=True)
    context.set_default_timeout(30_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
    yield page
    context.close()
    # What the browser says about an answer that the test itself refused or broke off is no fault of the page.
    assert [text for text in wrong if "Failed to load resource" not in text] == []
