"""Scores of texts against a plain loop, and what must not change them: padding, order and size of batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from anyorder.errors import AnyorderError
from anyorder.tasks import score as score_module
from anyorder.tasks.pieces import affixes, pieces, word_numbers
from anyorder.tasks.score import Method, batches

METHODS = ("chain", "bound", "pll", "pll-word")
TEXTS = [
    "the old man opened the door.",
    "cats",
    "the young kings walked into the garden, and the birds opened the windows.",
    "",
    "the quick brown fox was under the lazy dog",
    "a cat sat on the mat. " * 3,
]


def plain(lm: Any, text: str, hidden_with: Any) -> list[float]:
    """One mask pattern at a time, straight through the model: no batching, no padding, no code of ours."""
    encoded = lm.tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    ids, special = encoded["input_ids"][0], encoded["special_tokens_mask"][0].bool()
    words = encoded.word_ids(0)
    terms = []
    for i in (~special).nonzero()[:, 0].tolist():
        asked = ids.clone()
        asked[[j for j in range(len(ids)) if not special[j] and hidden_with(i, j, words)]] = lm.tokenizer.mask_token_id
        with torch.no_grad():
            logits = lm.model(input_ids=asked[None]).logits[0, i]
        terms.append(float(logits.log_softmax(-1)[ids[i]]))
    return terms


PATTERNS = {
    "pll": lambda i, j, words: i == j,
    "pll-word": lambda i, j, words: j >= i and words[i] == words[j],
    "chain": lambda i, j, words: j >= i,
}


@pytest.mark.parametrize("method", PATTERNS)
def test_scores_equal_a_plain_loop(tiny_lm: Any, method: str) -> None:
    for text, result in zip(TEXTS, tiny_lm.score(TEXTS, method, per_token=True), strict=True):
        expected = plain(tiny_lm, text, PATTERNS[method])
        assert result.log_prob == pytest.approx(sum(expected), abs=1e-4, rel=1e-5)
        assert [value for _, value in result.per_token] == pytest.approx(expected, abs=1e-5, rel=1e-5)
        assert result.tokens == len(expected)
        assert result.standard_error == 0


def test_words_of_many_tokens_tell_pll_and_pll_word_apart(tiny_lm: Any) -> None:
    assert tiny_lm.tokenizer.tokenize("kings opened") == ["king", "##s", "opened"]
    plain_, word = (tiny_lm.score("kings opened", m, per_token=True).per_token for m in ("pll", "pll-word"))
    assert plain_[0] != word[0]
    assert [v for _, v in plain_[1:]] == pytest.approx([v for _, v in word[1:]], rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_padding_order_and_size_of_batches_change_nothing(
    tiny_lm: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"order": "random", "samples": 2} if method == "chain" else {}
    together = tiny_lm.score(TEXTS, method, **options)
    alone = [tiny_lm.score(text, method, **options) for text in TEXTS]
    backwards = tiny_lm.score(TEXTS[::-1], method, **options)[::-1]
    monkeypatch.setattr(score_module, "BATCH", 40)
    small = tiny_lm.score(TEXTS, method, **options)
    for other in (alone, backwards, small):
        for a, b in zip(together, other, strict=True):
            assert a.text == b.text
            assert a.log_prob == pytest.approx(b.log_prob, abs=1e-5, rel=1e-5)
            assert a.standard_error == pytest.approx(b.standard_error, abs=1e-5, rel=1e-5)


class Plain:
    """Conditionals that only know the contract's one question."""

    def __init__(self, inner: Any) -> None:
        self.ask = inner.__call__
        self.vocab_size, self.mask_id, self.pad_id = inner.vocab_size, inner.mask_id, inner.pad_id

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.ask(tokens, positions)


@pytest.mark.parametrize("direct", [True, False])
def test_answers_stream_through_small_memory(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch, direct: bool) -> None:
    from anyorder.scoring import ask

    before = [tiny_lm.score(TEXTS, method) for method in METHODS]
    monkeypatch.setattr(ask, "CELLS", 300)  # few rows, or two or three answers, at a time
    lm = tiny_lm if direct else replace(tiny_lm, conditionals=Plain(tiny_lm.conditionals))
    for method, expected in zip(METHODS, before, strict=True):
        for a, b in zip(lm.score(TEXTS, method), expected, strict=True):
            assert a.log_prob == pytest.approx(b.log_prob, abs=1e-4)


def test_empty_texts_are_kept(tiny_lm: Any) -> None:
    for method in METHODS:
        results = tiny_lm.score(["", "  ", "a cat"], method)
        assert [r.tokens for r in results] == [0, 0, 2]
        assert [r.log_prob for r in results[:2]] == [0, 0]
    assert tiny_lm.score([]) == []


def test_bound_estimates_the_mean_over_random_orders(tiny_lm: Any) -> None:
    text = TEXTS[0]
    orders = tiny_lm.score(text, "chain", order="random", samples=400)
    masks = tiny_lm.score(text, "bound", samples=400)
    spread = (orders.standard_error**2 + masks.standard_error**2) ** 0.5
    assert abs(orders.log_prob - masks.log_prob) < 3 * spread
    per_token = tiny_lm.score(text, "bound", per_token=True)
    assert sum(v for _, v in per_token.per_token) == pytest.approx(per_token.log_prob)


def test_seeds_change_estimates_and_nothing_else(tiny_lm: Any) -> None:
    assert tiny_lm.score(TEXTS[0], "bound", seed=1) == tiny_lm.score(TEXTS[0], "bound", seed=1)
    assert tiny_lm.score(TEXTS[0], "bound", seed=1) != tiny_lm.score(TEXTS[0], "bound", seed=2)
    assert tiny_lm.score(TEXTS[0], "pll", seed=1) == tiny_lm.score(TEXTS[0], "pll", seed=2)


def test_long_texts_are_read_in_windows(tiny_lm: Any) -> None:
    text = " ".join(["the old man walked over the road to the river ."] * 12)  # 132 tokens, the model takes 62
    result = tiny_lm.score(text, "chain", stride=20, per_token=True)
    assert (result.tokens, result.windows) == (132, 5)
    # The third window by hand: 20 new tokens, given the 42 before them.
    ids = tiny_lm.tokenizer(text, add_special_tokens=False)["input_ids"]
    window = [2, *ids[40:102], 3]
    for new in (0, 7, 19):
        asked = window.copy()
        asked[43 + new : 63] = [tiny_lm.tokenizer.mask_token_id] * (20 - new)
        with torch.no_grad():
            logits = tiny_lm.model(input_ids=torch.tensor([asked])).logits[0, 43 + new]
        assert result.per_token[82 + new][1] == pytest.approx(float(logits.log_softmax(-1)[window[43 + new]]), abs=1e-4)
    with pytest.raises(AnyorderError, match="text 2 has 132 tokens"):
        tiny_lm.score(["a", text], strict=True)


def test_windows_score_every_token_once(tiny_lm: Any) -> None:
    for words in (1, 61, 62, 63, 100, 300):
        for stride in (None, 1, 30, 62):
            text = " ".join(["cat"] * words)
            rows = pieces(tiny_lm.tokenizer, [text], 64, stride=stride)
            assert sum(row.scored for row in rows) == words
            assert all(len(row.tokens) <= 64 for row in rows)
            assert all(set(row.tokens[row.start : row.stop]) == {tiny_lm.tokenizer.vocab["cat"]} for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ppl"}, "unknown method 'ppl'"),
        ({"method": "chain", "order": "sideways"}, "unknown order"),
        ({"method": "pll", "order": "random"}, "pll has no order"),
        ({"method": "pll", "samples": 3}, "only the bound and random orders are sampled"),
        ({"method": "bound", "samples": 1}, "at least 2 samples"),
        ({"method": "bound", "samples": 0}, "at least 1"),
        ({"method": "pll", "stride": 63}, "does not fit"),
    ],
)
def test_bad_options_are_refused(tiny_lm: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(AnyorderError, match=message):
        tiny_lm.score("the cat", **options)


def test_blanks_and_padding_in_a_text_are_refused(tiny_lm: Any) -> None:
    for token in ("[MASK]", "[PAD]"):
        with pytest.raises(AnyorderError, match=f"text 2 contains .*{token[1:-1]}"):
            tiny_lm.score(["the cat", f"the {token} sat"])


def test_batches_hold_their_budget_and_every_row(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_module, "BATCH", 500)
    rows = pieces(tiny_lm.tokenizer, ["cat " * n for n in range(1, 40)], 64)
    for method in (Method("pll"), Method("bound", samples=4), Method("chain", "random", 3)):
        made = list(batches(rows, method, pad_id=0))
        assert sorted(i for batch in made for i in batch) == list(range(39))
        costs = [sum(method.rows(rows[i]) * len(rows[i].tokens) for i in batch) for batch in made]
        assert all(cost <= 500 or len(batch) == 1 for cost, batch in zip(costs, made, strict=True))
    monkeypatch.setattr(score_module, "ENOUGH", 100)
    for batch in batches(rows, Method("pll"), pad_id=0):
        lengths = [len(rows[i].tokens) for i in batch]
        cost = sum(Method("pll").rows(rows[i]) * len(rows[i].tokens) for i in batch[:-1])
        assert max(lengths) <= 9 / 8 * min(lengths) or cost < 100
    for batch in batches(rows, Method("pll"), pad_id=None):
        assert len({len(rows[i].tokens) for i in batch}) == 1


def test_words_of_every_kind_of_tokenizer() -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    byte_pairs = Tokenizer(
        models.BPE({c: i for i, c in enumerate("abcdĠ?")} | {"Ġa": 6, "cd": 7}, [("Ġ", "a"), ("c", "d")])
    )
    byte_pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_pairs.decoder = decoders.ByteLevel()
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), *[(t, -1.0) for t in ("▁a", "▁", "b", "cd", "d", "c")]], 0))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    for backend, text, expected in (
        (byte_pairs, "ab acd", [0, 0, 1, 1]),  # a b Ġa cd
        (unigram, "ab acd", [0, 0, 1, 1]),  # ▁a b ▁a cd
    ):
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
        encoded = tokenizer([text], add_special_tokens=False)
        assert word_numbers(tokenizer, encoded, 0) == expected
        assert affixes(tokenizer) == ([], [])


def test_words_of_slow_tokenizers_come_from_their_marks() -> None:
    class Slow:
        is_fast = False

        def convert_ids_to_tokens(self, ids: list[str]) -> list[str]:
            return ids

    for tokens, expected in (
        (["king", "##s", "open", "##ed", "."], [1, 1, 2, 2, 3]),
        (["▁king", "s", "▁open", "ed"], [1, 1, 2, 2]),
        (["King", "s", "Ġopen", "ed"], [0, 0, 1, 1]),
    ):
        assert word_numbers(Slow(), {"input_ids": [tokens]}, 0) == expected  # type: ignore[arg-type]  # a stand-in
