"""Results in a notebook: valid, escaped HTML that holds what the results hold; one line in a terminal."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from anyorder.tasks.fill import Completion
from anyorder.tasks.generate import Generation
from anyorder.tasks.html import Shown, coloured, heat_map
from anyorder.tasks.score import Score

NASTY = "<script>alert('&')</script>"


class Reader(HTMLParser):
    """The rows of cells, refusing tags that do not close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_completions_are_a_table(tiny_lm):
    found = tiny_lm.fill("The ___{1-2} sat.", top=3)
    header, *rows = Reader(found._repr_html_()).rows
    assert header == ["log_prob", "prob", "p(length)", "text"]
    assert [row[-1] for row in rows] == [c.text for c in found]
    assert [row[1] for row in rows] == [f"{100 * c.prob:.2f}%" for c in found]


def test_text_is_escaped_everywhere():
    score = Score(NASTY, "pll", -3.0, 0.0, 1, per_token=((NASTY, -3.0),))
    shown = Shown([Completion(NASTY, -1.0, (NASTY,), (1,))])
    for html in (shown._repr_html_(), score._repr_html_(), heat_map([NASTY], [NASTY], [[0.5]])):
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        Reader(html)


def test_tokens_are_the_redder_the_more_surprising(tiny_lm):
    reds = [
        float(a) for a in re.findall(r"rgba\(214,69,65,([\d.]+)\)", coloured([("a", -0.1), ("b", -4.0), ("c", -99.0)]))
    ]
    assert reds == sorted(reds)
    assert reds[-1] == 0.6  # never so red that ink is hard to read on it
    score = tiny_lm.score("the cat sat", per_token=True)
    assert score._repr_html_().count("surprisal") == score.tokens


def test_a_joint_is_a_heat_map_that_shows_its_best_pairs(tiny_lm):
    joint = tiny_lm.joint("The ___ ___ on the mat.")
    (_, *columns), *lines = Reader(joint._repr_html_()).rows
    for a, b, p in joint.pairs(5):
        line = next(line for line in lines if line[0] == a)
        assert float(line[1 + columns.index(b)]) == pytest.approx(100 * p, rel=0.06)


def test_repr_is_one_line(tiny_lm):
    things = [
        tiny_lm,
        tiny_lm.joint("The ___ ___ on the mat."),
        tiny_lm.score("the cat"),
        Completion("a\nb", -1.0, ("b",), (1,)),
        Generation("a\nb", (1,), -1.0, 2),
        next(tiny_lm.stream("The ___ sat.", samples=2)),
    ]
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200


def test_stream_yields_texts(tiny_lm):
    steps = list(tiny_lm.stream("The ___ sat on the ___{2}.", samples=2, order="left-to-right"))
    assert [step.text.count("___") for step in steps] == [2, 1, 0]
    state, info = steps[-1]
    assert state is steps[-1].state
    assert info is steps[-1].info
    final = tiny_lm.generate("The ___ sat on the ___{2}.", samples=2, order="left-to-right")
    assert [g.text for g in final] == list(steps[-1].texts)
