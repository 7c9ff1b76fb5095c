"""The site builds strict, without a network and without anything from elsewhere."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the extra docs is not installed")

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

ROOT = Path(__file__).parents[2]
# What a browser fetches by itself when it shows a page, as opposed to a link that a reader may follow.
FETCHED = re.compile(r"""<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Strict: links, anchors and references that lead nowhere, or a page nobody lists, are errors."""
    folder = tmp_path_factory.mktemp("site")

    def refuse(*args: object) -> None:
        raise AssertionError(f"the site asked for the network: {args}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


def test_nothing_comes_from_elsewhere(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert len(pages) > 30
    assert not {page.name: found for page, text in pages.items() if (found := FETCHED.findall(text))}
    assert FETCHED.search('<script src="https://cdn.example/x.js"></script>')  # the pattern finds what it is for


def test_docstrings_are_read(site: Path) -> None:
    """Options have their help text, roles are links, examples are code."""
    options = (site / "reference" / "options.html").read_text(encoding="utf-8")
    assert "How many completions, at most." in options
    assert "Seed of every random choice." in options  # put together elsewhere: read from the class, not its source
    recipe = (site / "reference" / "training.html").read_text(encoding="utf-8")
    assert "several short texts in one row, each reading only itself" in recipe  # a comment beside a field
    assert "blank lines separate documents" in recipe  # one above a field
    facade = (site / "reference" / "index.html").read_text(encoding="utf-8")
    assert ":func:" not in facade
    assert "&gt;&gt;&gt;" not in facade
    assert 'href="types.html#anyorder.types.Conditionals"' in facade


def test_notebooks_are_pages(site: Path) -> None:
    page = (site / "notebooks" / "filling.html").read_text(encoding="utf-8")
    assert 'href="filling.ipynb"' in page
    assert "walked into the" in page


def test_a_broken_link_fails(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](nowhere.md) and [no anchor](#none)\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = settings[settings.index("validation:") : settings.index("exclude_docs:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: test\nstrict: true\n{validation}")
    with pytest.raises(Abort, match="2 warnings"):
        build(load_config(str(tmp_path / "mkdocs.yml")))
