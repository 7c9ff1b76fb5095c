"""Translation against a language pair whose laws are known, and what is refused."""

import itertools
import math

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.tasks.given import length_laws, openings
from toy_language import FIRST, IDS, LENGTHS, TARGETS, toy_lm


@pytest.fixture(scope="module")
def lm():
    return toy_lm()


def joint(lm, source, length):
    return lm.conditionals.tables[IDS[source], length].log_joint


@pytest.mark.parametrize("source", LENGTHS)
def test_the_law_of_lengths_is_the_heads(lm, source):
    law = length_laws(lm, openings(lm, [source]))[0].exp()
    assert law[0] == 0
    assert law[1:4].tolist() == pytest.approx(list(LENGTHS[source].values()))


def greedy_chain(table):
    """Left to right, the likeliest token each: (tokens, log p)."""
    taken, total = [], 0.0
    for _t in range(table.ndim):
        rest = table[tuple(taken)] if taken else table
        here = rest.logsumexp(list(range(1, rest.ndim))) if rest.ndim > 1 else rest
        here = here.log_softmax(0)
        taken.append(int(here.argmax()))
        total += float(here.max())
    return taken, total


@pytest.mark.parametrize("source", LENGTHS)
def test_the_best_of_all_lengths_is_the_one_of_highest_mean(lm, source):
    chains = {n: greedy_chain(joint(lm, source, n)) for n in (1, 2, 3)}
    best = max(chains, key=lambda n: chains[n][1] / n)
    found = lm.translate(source, sampler="any-order", order="left-to-right", lengths=3)
    assert [t - FIRST for t in found.tokens] == chains[best][0]
    assert found.log_prob == pytest.approx(chains[best][1])
    assert found.length_log_prob == pytest.approx(math.log(LENGTHS[source][best]))
    assert len(found.others) == 2
    likeliest = max(LENGTHS[source], key=LENGTHS[source].get)
    alone = lm.translate(source, sampler="any-order", order="left-to-right")
    assert [t - FIRST for t in alone.tokens] == chains[likeliest][0]


def law_of(found, length):
    counts = torch.zeros([len(TARGETS)] * length)
    for one in found:
        counts[tuple(t - FIRST for t in one.tokens)] += 1
    return counts / counts.sum()


def apart(source, count):
    """The tokens of one source under different names: what is drawn comes from the text."""
    return [source + " " * n for n in range(count)]


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ({"sampler": "any-order"}, True),
        ({"sampler": "any-order", "order": "right-to-left"}, True),
        ({"sampler": "parallel", "steps": 2}, True),  # a token at a time
        ({"sampler": "gibbs", "mode": "sequential", "block": 2}, True),
        ({"sampler": "parallel", "steps": 1}, False),
        ({"sampler": "refine", "steps": 1}, False),
    ],
    ids=str,
)
def test_what_is_drawn_has_the_samplers_law(lm, options, exact):
    draws = 1000
    table = joint(lm, "haus", 2).exp()
    product = table.sum(1)[:, None] * table.sum(0)[None, :]
    found = law_of(lm.translate(apart("haus", draws), draw=True, seed=1, **options), 2)
    wanted = table if exact else product
    # The expected distance of a histogram from its own law is below sqrt(cells / (2 pi n)); the two laws are far apart.
    floor = math.sqrt(table.numel() / (2 * math.pi * draws))
    assert (table - product).abs().sum() / 2 > 4 * floor
    assert (found - wanted).abs().sum() / 2 < 1.5 * floor


def test_a_target_does_not_depend_on_its_batch(lm):
    together = lm.translate(["haus", "hund", "", "haus"], draw=True, seed=5, lengths=2)
    assert together[2].text == ""
    assert together[2].tokens == ()
    again = lm.translate(["hund", "haus", "haus", "hund", ""], draw=True, seed=5, lengths=2)
    texts = [one.to_dict() | {"passes": 0} for one in again]
    assert [one.to_dict() | {"passes": 0} for one in together] == [texts[1], texts[3], texts[4], texts[2]]
    assert texts[0] == texts[3]


def test_a_trace_shows_every_state(lm):
    found = lm.translate("hund", steps=3, trace=True)
    assert found.states[0] == "_ _ _"
    assert len(found.states) >= 3
    assert found.states[-1] == found.text
    assert "states" in found.to_dict()
    assert "states" not in lm.translate("hund").to_dict()


@pytest.mark.parametrize("must", [("dog",), ("the", "house"), ("dogs",)], ids=str)
def test_what_must_appear_stands_there_exactly_once_at_its_likeliest_place(lm, must):
    for source, sampler in itertools.product(LENGTHS, ("refine", "parallel", "any-order", "gibbs")):
        found = lm.translate(source, must=must, sampler=sampler, lengths=3)
        for text in (found.text, *found.others):
            words = text.split()
            assert all(words.count(word) == 1 for word in must), (text, must)


def test_the_place_of_a_constraint_is_searched(lm):
    table = joint(lm, "hund", 3)
    dog = IDS["dog"] - FIRST
    marginals = [table.logsumexp([d for d in range(3) if d != t])[dog] for t in range(3)]
    best = max(range(3), key=lambda t: marginals[t])
    from anyorder.tasks.constraints import place
    from anyorder.tasks.given import blank_row

    row = blank_row(lm, openings(lm, ["hund"])[0], 3)
    first, *_ = place(lm.conditionals, row.tokens, row.free, [[IDS["dog"]]], beam=3)
    assert first.places == ((3 + best, 1),)
    assert first.log_prob == pytest.approx(float(marginals[best]))


def test_more_than_once_if_asked(lm):
    texts = [
        one.text.split()
        for one in lm.translate(apart("hund", 200), must=("dog",), must_repeat=True, draw=True, sampler="any-order")
    ]
    assert any(words.count("dog") > 1 for words in texts)


def test_repeats_are_repaired(lm):
    options = {"sampler": "parallel", "steps": 1, "draw": True, "seed": 2}
    plain, mended = (lm.translate(apart("hund", 300), repair=n, **options) for n in (0, 3))

    def stutter(found):
        return sum(a == b for one in found for a, b in itertools.pairwise(one.tokens))

    assert 0 < stutter(mended) < stutter(plain)  # what the language itself repeats comes back


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("  ", {}, "the source is empty"),
        (["haus", "hund " * 9], {}, "source 2 takes 11 of the model's 12 tokens"),
        ("[SEP]", {}, "the source is empty"),
        ("haus", {"must": ("xyz",)}, "cannot represent 'xyz'"),
        ("haus", {"must": ("",)}, "must appear is empty"),
        ("haus", {"must": ("dog the a house dog the a",)}, "do not fit"),
        ("haus", {"steps": 0}, "whole numbers from 1"),
        ("haus", {"temperature": 0.5}, "--draw"),
        ("haus", {"sampler": "parallel", "pairs": True}, "add --draw"),
        ("haus", {"block": 2}, "the sampler 'refine' has no --block"),
        ("haus", {"start": "given"}, "start"),
    ],
)
def test_what_is_refused(lm, source, options, said):
    with pytest.raises(AnyorderError, match=said):
        lm.translate(source, **options)


def test_a_model_of_single_texts_is_refused(tiny_lm):
    with pytest.raises(AnyorderError, match=r"not trained on pairs.*recipes/translate.yaml"):
        tiny_lm.translate("the old man")
    with pytest.raises(AnyorderError, match="no head for lengths"):
        length_laws(tiny_lm, openings(tiny_lm, ["the old man"]), "head")


def test_the_law_of_the_text_is_bayes_rule(tiny_lm):
    """Of a model without a head: p(L | source) ∝ p(last tokens of the source | L blanks after it)."""
    (opening,) = openings(tiny_lm, ["the cat sat"])
    law = length_laws(tiny_lm, [opening])[0].exp()
    assert float(law.sum()) == pytest.approx(1)
    assert law.nonzero().squeeze(1).tolist() == list(range(1, 9))  # half to twice its three tokens, and two


def test_generate_after_a_given_text(tiny_lm):
    made = tiny_lm.generate(given="the old man", prompt="the ___ sat on ___.", order="left-to-right", seed=3)[0]
    assert made.text.startswith("the ")
    assert "old man" not in made.text
    assert len(made.tokens) == 6
    other = tiny_lm.generate(given="a queen", prompt="the ___ sat on ___.", order="left-to-right", seed=3)[0]
    assert made.log_prob != other.log_prob
    with pytest.raises(AnyorderError, match="do not fit"):
        tiny_lm.generate(given="the old man " * 15, length=40)
    with pytest.raises(AnyorderError, match="the source is empty"):
        tiny_lm.generate(given=" ", length=4)


def test_generate_takes_the_likeliest_length_of_a_pair(lm):
    assert len(lm.generate(given="hund", sampler="any-order", reading="full")[0].tokens) == 3


def test_several_numbers_of_steps_are_several_translations(lm):
    with pytest.raises(AnyorderError, match="one number of steps, not 1,2"):
        lm.translate("hund", steps="1,2")
    assert lm.translate("hund", steps="2").text == lm.translate("hund", steps=2).text
