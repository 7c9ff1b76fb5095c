"""Nats per character: the sum it says, with an interval that holds as often as it says."""

import math

import pytest
from typer.testing import CliRunner

from anyorder.cli import app
from anyorder.errors import AnyorderError
from anyorder.studies.characters import paragraphs, per_character
from anyorder.tasks.options import ScoreOptions
from anyorder.tasks.score import score

TEXTS = ["the old man opened the door .", "the cat sat on the mat .", "a bird .", "the king and the queen went by ."]


def test_it_is_the_bound_over_characters(tiny_lm):
    row = per_character(tiny_lm, "x", TEXTS, samples=4)
    scores = score(tiny_lm, TEXTS, ScoreOptions("bound", samples=4))
    nats, letters = -sum(s.log_prob for s in scores), sum(map(len, TEXTS))
    assert row.nats_per_character == pytest.approx(nats / letters)
    assert row.nats_per_token * row.tokens == pytest.approx(nats)
    assert row.low < row.nats_per_character < row.high


def test_the_interval_is_that_of_a_ratio_by_hand(tiny_lm, monkeypatch):
    """Two texts of 10 and 20 characters with 10 and 26 nats: ratio 1.2, residuals -2 and 2."""
    from anyorder.studies import characters as module

    class Fixed:
        def __init__(self, log_prob):
            self.log_prob, self.tokens = log_prob, 5

    monkeypatch.setattr(module, "score", lambda *_, **__: [Fixed(-10.0), Fixed(-26.0)])
    row = per_character(tiny_lm, "x", ["a" * 10, "b" * 20])
    error = math.sqrt(8 / 1 * 2) / 30
    assert row.nats_per_character == pytest.approx(1.2)
    assert row.high - 1.2 == pytest.approx(12.7062047 * error)  # Student's t with one degree of freedom


def test_held_out_paragraphs_are_those_of_the_last_documents(tmp_path):
    path = tmp_path / "all.txt"
    path.write_text("\n\n".join(f"one {i}\ntwo {i}" for i in range(20)))
    assert paragraphs(path, held_out=0.1) == ["one 18", "two 18", "one 19", "two 19"]
    assert len(paragraphs(path)) == 40
    assert paragraphs(path, limit=2) == ["one 0", "two 19"]


def test_the_command(tiny_checkpoint, tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS))
    words = ["evaluate", "characters", "--data", str(path), "--model", str(tiny_checkpoint), "--samples", "2"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    assert "nats per character" in result.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no texts given"),
        (["--data", "none.txt"], "there is no file none.txt"),
        (["--held-out", "x.txt", "--share", "2"], "share must be below 1"),
    ],
)
def test_bad_input_is_one_sentence(words, says):
    result = CliRunner().invoke(app, ["evaluate", "characters", *words])
    assert isinstance(result.exception, AnyorderError)
    assert says in str(result.exception)


def test_too_few_texts_are_refused(tiny_lm):
    with pytest.raises(AnyorderError, match="too few for an interval"):
        per_character(tiny_lm, "x", TEXTS[:1])
