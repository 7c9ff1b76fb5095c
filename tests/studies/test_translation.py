"""The study of translation on a language pair whose answers are known."""

from dataclasses import replace

import pytest
from rich.console import Console
from transformers import BertTokenizer

from anyorder.errors import AnyorderError
from anyorder.metrics.text import adjacent_repeats
from anyorder.show.translation import translation_table
from anyorder.stats import Interval
from anyorder.studies.options.translation import TranslationOptions
from anyorder.studies.translation import BASELINE, Pairs, TranslationQuality, read_pairs, study, systems
from toy_language import IDS, LENGTHS, toy_lm


@pytest.fixture(scope="module")
def lm():
    return toy_lm()


def test_every_way_is_measured_beside_left_to_right(lm):
    sources = [*LENGTHS] * 2
    references = [lm.translate(s, sampler="any-order", order="left-to-right").text for s in sources]
    ways = ["refine-repair", "parallel", "parallel-pairs", "gibbs"]
    rows = [row for row, _ in study(lm, Pairs(tuple(sources), tuple(references)),
                                    systems(ways, [1, 2], [1, 2], seed=0), resamples=20)]  # fmt: skip
    first = rows[0]
    assert (first.way, first.steps, first.stutter) == (BASELINE, None, 0.0)
    assert first.chrf.value == 100
    assert first.ahead.to_dict() == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert {row.way for row in rows} == {BASELINE, *ways}
    # parallel at one token per step is not confined to the steps asked for
    assert sum(row.steps is None for row in rows) == 2 + 2
    for row in rows:
        assert row.bleu.low <= row.bleu.high
        assert row.seconds > 0
        assert row.passes >= 1


def test_stutter_is_beyond_the_references(lm):
    pairs = Pairs(("hund",), ("the the dog",))
    (row, found) = next(study(lm, pairs, systems([], [1], [1], 0), resamples=0))
    mine = [a == b for a, b in zip(found.tokens[0], found.tokens[0][1:], strict=False)]
    assert row.stutter == pytest.approx(sum(mine) / len(mine) - 1 / 2)


def test_stutter_is_beyond_the_references_in_the_tokens_of_who_wrote(lm):
    """A baseline may cut the references otherwise: "dogss" is dog ##s ##s to one and unknown to the other."""
    others = {"##z" if token == "##s" else token: i for token, i in IDS.items()}
    other = replace(lm, tokenizer=BertTokenizer(vocab=others, do_lower_case=True, model_max_length=12))
    pairs, first = Pairs(("hund",), ("dogss",)), systems([], [1], [1], 0)
    ((alone, found),) = study(other, pairs, first, resamples=0)
    ((beside, _),) = study(lm, pairs, first, resamples=0, baseline=other)
    assert beside.stutter == alone.stutter == pytest.approx(adjacent_repeats(found.tokens))
    assert next(study(lm, pairs, first, resamples=0))[0].stutter == pytest.approx(alone.stutter - 1 / 2)


def test_pairs_are_spread_evenly(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"s{i}\tt{i}\n" for i in range(10)) + "empty\t\n")
    assert read_pairs(str(tmp_path / "a.tsv"), "1,2", 3).sources == ("s0", "s3", "s6")
    (tmp_path / "b.tsv").write_text("\n")
    with pytest.raises(AnyorderError, match="holds no pairs"):
        read_pairs(str(tmp_path / "b.tsv"), "1,2", None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": "0"}, "from 1"),
        ({"ways": "magic"}, "magic"),
        ({"columns": "1"}, "are two"),
        ({"lengths": "x"}, "from 1"),
    ],
)
def test_what_is_refused_before_any_work(tmp_path, options, said):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    with pytest.raises(AnyorderError, match=said):
        TranslationOptions(data=tmp_path / "a.tsv", **options)
    with pytest.raises(AnyorderError, match="there is no file"):
        TranslationOptions(data=tmp_path / "none.tsv")


def test_the_table_fits_a_terminal():
    figure = Interval(35.7, 32.8, 38.6)
    row = TranslationQuality(
        "adaptive-attention", None, 5, 500, figure, figure, Interval(-11.0, -13.2, -10.1), 0.1, 1.1, 9
    )
    console = Console(width=80)
    with console.capture() as shown:
        console.print(translation_table([row]))
    assert "adaptive-attention" in shown.get()
    assert "-13.2 to -10.1" in shown.get()
    assert "…" not in shown.get()
