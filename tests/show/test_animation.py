from __future__ import annotations

import io
import json
import math
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.show.animation import animated_page
from anyorder.show.gif import EDGES, WIDTH, _palette, _units, animated_gif
from anyorder.show.recording import Drawn, Recorder, Recording, headline
from anyorder.tasks.generate import generations, plan
from anyorder.tasks.options import GenerateOptions
from running import anyorder

NASTY = "</script><script>document.title='broken'</script><!--<b>&amp;"


def recorded(lm, **options) -> tuple[Recording, str, list[int]]:
    """A recording, the text it ends with, and its tokens."""
    recorder, task = Recorder(), plan(lm, **options)
    one = next(iter(generations(task, recorder.watch)))
    return recorder.recording(task), one.text, list(one.tokens)


def read(page: str) -> dict:
    """The data in an exported page."""
    return json.loads(re.search(r'id="recording">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize(
    "options",
    [
        {"length": 9, "begin": "the cat"},
        {"length": 9, "begin": "the \u2603 cat", "allow_unknown": True},
        {"length": 9, "sampler": "parallel", "steps": 3},
        {"length": 9, "sampler": "gibbs", "block": 2, "steps": 12},
        {"length": 6, "sampler": "metropolis", "steps": 20},
        {"length": 9, "sampler": "refine", "start": "random", "steps": 3},
        {"draft": "the cat sat on the mat .", "sampler": "refine", "steps": 3},
    ],
)
def test_the_last_state_of_a_recording_is_the_text(tiny_lm, options):
    recording, _, tokens = recorded(tiny_lm, seed=5, **options)
    last = recording.states()[-1]
    assert [one.text for one in last] == [tiny_lm.tokenizer.decode([t]).replace("##", "") for t in tokens]
    assert len(last) == recording.length


def test_what_is_recorded_is_what_was_drawn(tiny_lm):
    """Any-order: a token per step, each with its own log q; their sum is the text's log-probability."""
    recorder, task = Recorder(), plan(tiny_lm, begin="the cat", length=8, seed=2)
    (one,) = generations(task, recorder.watch)
    recording = recorder.recording(task)
    assert [len(step) for step in recording.steps] == [1] * 6
    assert [d.position for d in recording.given] == [0, 1]
    assert all(d.log_prob is None for d in recording.given)
    assert sum(d.log_prob for step in recording.steps for d in step) == pytest.approx(one.log_prob)
    empty = [state.count(None) for state in recording.states()]
    assert empty == [6, 5, 4, 3, 2, 1, 0]


def test_a_refused_proposal_changes_nothing(tiny_lm):
    recorder, task = Recorder(), plan(tiny_lm, length=4, sampler="metropolis", steps=30, seed=1)
    accepted = []
    list(generations(task, lambda *step: (recorder.watch(*step), accepted.append(bool(step[2].accepted[0])))))
    assert 0 < sum(accepted) < 30
    assert len(recorder.recording(task).steps) == sum(accepted)


def test_lines_of_an_acrostic_begin_lines(tiny_lm):
    recording, text, _ = recorded(tiny_lm, acrostic="tc", length=10)
    assert text.count("\n") == len(recording.breaks) == 1
    assert recording.states()[-1][recording.breaks[0]].text.lower().startswith("c")


def test_glue_follows_the_tokenizer(tiny_lm):
    from anyorder.text.vocabulary import vocabulary

    words = vocabulary(tiny_lm.tokenizer, tiny_lm.conditionals.vocab_size)
    glue = {piece: words.glue(i) for i, piece in enumerate(words.pieces)}
    assert glue["cat"] == 0
    assert glue["."] == 1
    assert all(value == 1 for piece, value in glue.items() if piece.startswith("##"))


def test_a_page_holds_text_that_cannot_leave_its_data():
    given = Recording(2, (Drawn(0, NASTY),), ((Drawn(1, NASTY, 0, -1.0, 0.5),),), title=NASTY)
    page = animated_page(given)
    assert NASTY not in page
    assert page.count("<script") == 2
    assert read(page) == json.loads(json.dumps(given.to_dict()))


def test_a_gif_has_a_frame_per_step_and_ends_with_the_text(tiny_lm):
    from PIL import Image

    recording, _, _ = recorded(tiny_lm, length=12, seed=3)
    gif = Image.open(io.BytesIO(animated_gif(recording)))
    assert (gif.format, gif.width, gif.n_frames) == ("GIF", WIDTH, 13)
    gif.seek(12)
    assert gif.info["duration"] > 1000
    gif.seek(0)
    first = gif.convert("RGB").copy()
    gif.seek(12)
    colours = _palette()
    # Nothing is coloured but the legend at first; at the end the colour of every bucket that was drawn is there.
    last, height = gif.convert("RGB"), first.height - 80
    drawn = {sum(math.exp(d.log_prob) >= e for e in EDGES) for step in recording.steps for d in step}
    for bucket in drawn:
        colour = tuple(int(colours[f"p{bucket}"][i : i + 2], 16) for i in (1, 3, 5))
        assert not near(first, colour, height)
        assert near(last, colour, height)


def near(image, colour, height) -> bool:
    """Whether some pixel above the foot has about this colour (a GIF has few)."""
    pixels = torch.tensor(list(image.crop((0, 0, image.width, height)).get_flattened_data()))
    return bool(((pixels - torch.tensor(colour)).abs().max(1).values <= 12).any())


def test_a_long_recording_makes_a_short_gif():
    from PIL import Image

    steps = tuple((Drawn(i % 8, f"w{i}", 0, -0.1 * (i % 40), 1.0),) for i in range(700))
    gif = Image.open(io.BytesIO(animated_gif(Recording(8, (), steps))))
    assert gif.n_frames <= 161


def test_a_long_recording_is_not_held_state_by_state():
    """Steps cost nothing to send: a state of 3,000 positions for each of 3,000 would be 72 MB."""
    recording = Recording(3000, (), ((Drawn(0, "a", 0, 0.0, 0.0),),) * 3000)
    tracemalloc.start()
    try:
        assert len(recording.states([0, 7, 3000])) == 3
        assert len(_units(recording)) == 3000
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert recording.states([1]) == [recording.states(range(2))[1]]


def test_a_gif_of_any_text_is_drawn_or_refused():
    from PIL import Image

    odd = Recording(2, (Drawn(0, "a\nb"),), ((Drawn(1, "", 0, -800.0, 0.0),), (Drawn(1, "日本\t\x00", 0, 0.0, 0.0),)))
    assert Image.open(io.BytesIO(animated_gif(odd))).n_frames == 3
    assert Image.open(io.BytesIO(animated_gif(Recording(0, (), ())))).n_frames == 1
    with pytest.raises(AnyorderError, match="too long for a GIF"):
        animated_gif(Recording(4096, tuple(Drawn(i, "word" * 9) for i in range(4096)), ()))


def test_the_headline_says_what_was_asked():
    title, note = headline("mini", GenerateOptions(begin="Tom", sampler="gibbs", block=3, temperature=0.5, seed=4))
    assert title == "begin: Tom"
    assert note == "gibbs, block 3, mode parallel, temperature 0.5, seed 4, model mini"
    note = headline("mini", GenerateOptions(top_k=5, top_p=0.9, min_p=0.1, typical=0.5))[1]
    assert note == "any-order, order random, top-k 5, top-p 0.9, min-p 0.1, typical 0.5, seed 0, model mini"


def test_every_colour_can_be_read_upon():
    """Contrast of ink on each colour, light and dark, at least 4.5 as WCAG AA asks."""
    css = (Path(__file__).parents[2] / "src/anyorder/show/player.css").read_text()
    for part in css.split("@media"):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part))
        for name in ("paper", *(f"p{i}" for i in range(7))):
            assert contrast(colours["ink"], colours[name]) >= 4.5, name
        assert contrast(colours["soft"], colours["paper"]) >= 4.5


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("kind", ["html", "gif"])
def test_the_command_writes_a_file(monkeypatch, capsys, tiny_checkpoint, tmp_path, kind):
    path = tmp_path / f"out.{kind}"
    arguments = ("-m", str(tiny_checkpoint), "--length", "5", "--json", "--trace", "--animate", str(path))
    status, out, _ = anyorder(monkeypatch, capsys, "generate", *arguments)
    assert status == 0
    assert len(json.loads(out)) == 1
    content = path.read_bytes()
    assert content.startswith(b"GIF89a" if kind == "gif" else b"<!doctype html>")
    if kind == "html":
        assert len(read(content.decode())["steps"]) == 5


@pytest.mark.parametrize(
    ("name", "says"), [("out.mp4", "ends in .html or .gif"), ("no/such/out.gif", "there is no folder")]
)
def test_a_bad_name_is_refused_before_the_work(monkeypatch, capsys, name, says):
    status, out, err = anyorder(monkeypatch, capsys, "generate", "-m", "no/model", "--animate", name)
    assert (status, out, says in err) == (2, "", True)


def test_a_step_without_a_change_is_the_same_state():
    recording = Recording(1, (Drawn(0, "a"),), ((Drawn(0, "b", 0, -1.0, 1.0),), (Drawn(0, None),)))
    assert [[one and one.text for one in state] for state in recording.states()] == [["a"], ["b"], [None]]
    assert replace(recording, steps=()).states() == [[Drawn(0, "a")]]
