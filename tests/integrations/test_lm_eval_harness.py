"""The lm-evaluation-harness on local task files: likelihoods against a plain loop, no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("lm_eval", reason="the extra lm-eval is not installed")

from lm_eval.api.instance import Instance

from anyorder.cli import app
from anyorder.cli import lm_eval as command
from anyorder.errors import AnyorderError
from anyorder.integrations.lm_eval import AnyorderLM


def instances(kind: Any, *arguments: tuple[Any, ...]) -> list[Instance]:
    return [Instance(kind, {}, args, i) for i, args in enumerate(arguments)]


def plain(lm: Any, context: str, continuation: str) -> tuple[float, bool]:
    """log p and greediness, one forward pass per token."""
    given = lm.tokenizer(context, add_special_tokens=False)["input_ids"] if context else []
    ids = lm.tokenizer(context + continuation)["input_ids"]
    start, total, greedy = 1 + len(given), 0.0, True
    for i in range(start, len(ids) - 1):
        asked = torch.tensor([ids])
        asked[0, i:-1] = lm.tokenizer.mask_token_id
        with torch.no_grad():
            log_q = lm.model(input_ids=asked).logits[0, i].log_softmax(-1)
        total += float(log_q[ids[i]])
        greedy &= int(log_q.argmax()) == ids[i]
    return total, greedy


PAIRS = [("the cat", " sat on the mat"), ("", "a dog"), ("the old king walked to the ", "river"), ("a", " b c d e")]


def test_loglikelihood_is_the_conditional_chain(tiny_lm: Any) -> None:
    for (context, continuation), (value, greedy) in zip(
        PAIRS, AnyorderLM(tiny_lm).loglikelihood(instances("loglikelihood", *PAIRS)), strict=True
    ):
        expected = plain(tiny_lm, context, continuation)
        assert value == pytest.approx(expected[0], abs=1e-4)
        assert greedy == expected[1]


def test_what_greedy_decoding_writes_is_greedy(tiny_lm: Any) -> None:
    """Build a continuation from the model's own best guesses: it, and only it, must be called greedy."""
    model = AnyorderLM(tiny_lm)
    q, special = tiny_lm.conditionals, set(tiny_lm.tokenizer.all_special_ids)
    found = 0
    for context in ("the cat", "a young man saw", "two birds", "the moon and the", "he went to school", "one good day"):
        ids = tiny_lm.tokenizer(context, add_special_tokens=False)["input_ids"]
        row = torch.tensor([[2, *ids, q.mask_id, q.mask_id, 3]])
        for i in (1 + len(ids), 2 + len(ids)):
            row[0, i] = int(q(row, torch.tensor([[i]]))[0, 0].argmax())
        best = row[0, 1 + len(ids) : -1].tolist()
        continuation = " " + tiny_lm.tokenizer.decode(best)
        if special & set(best) or model._encode(context, continuation)[1] != best:
            continue  # the best guesses are not a text that tokenises back
        found += 1
        pairs = [(context, continuation), (context, " cat cat")]
        answers = model.loglikelihood(instances("loglikelihood", *pairs))
        assert answers[0][1]
        assert not answers[1][1]
    assert found


def test_bound_estimates_the_same_kind_of_number(tiny_lm: Any) -> None:
    one = AnyorderLM(tiny_lm, method="bound", samples=300).loglikelihood(instances("loglikelihood", PAIRS[2]))
    # A single token has only one order, so the bound is exact there.
    assert one[0][0] == pytest.approx(plain(tiny_lm, *PAIRS[2])[0], abs=1e-4)
    many = AnyorderLM(tiny_lm, method="bound").loglikelihood(instances("loglikelihood", *PAIRS))
    assert all(value < 0 for value, _ in many)
    with pytest.raises(AnyorderError, match="not a likelihood"):
        AnyorderLM(tiny_lm, method="pll")


def test_one_run_has_one_law_also_of_a_model_trained_to_be_read_in_order(tiny_lm: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(tiny_lm.model.config, "anyorder_ordered", True, raising=False)
    texts = ["the cat sat on the mat", "two birds"]
    model = AnyorderLM(tiny_lm)
    rolling = model.loglikelihood_rolling(instances("loglikelihood_rolling", *((t,) for t in texts)))
    after_nothing = model.loglikelihood(instances("loglikelihood", *(("", t) for t in texts)))
    assert rolling == pytest.approx([value for value, _ in after_nothing], abs=1e-4)
    assert tiny_lm.score(texts[0], method="chain").log_prob != pytest.approx(rolling[0], abs=1e-3), "read in order"


def test_rolling_is_the_score_of_the_whole_text(tiny_lm: Any) -> None:
    texts = ["the cat sat on the mat", "the old man walked over the road to the river . " * 12, ""]
    answers = AnyorderLM(tiny_lm).loglikelihood_rolling(instances("loglikelihood_rolling", *((t,) for t in texts)))
    assert answers == pytest.approx([s.log_prob for s in tiny_lm.score(texts, "chain")])


def test_long_contexts_keep_their_end_and_long_continuations_all_their_tokens(tiny_lm: Any) -> None:
    model = AnyorderLM(tiny_lm)
    context = "the cat sat on the mat and " * 20
    kept = " ".join((context + "ran").split()[-62:-1])
    long, short = model.loglikelihood(instances("loglikelihood", (context, "ran"), (kept, " ran")))
    assert long[0] == pytest.approx(short[0], abs=1e-4)
    value, greedy = model.loglikelihood(instances("loglikelihood", ("a dog", " cat" * 100)))[0]
    assert value < -100
    assert not greedy


def test_generation_stops_where_it_is_told(tiny_lm: Any) -> None:
    model = AnyorderLM(tiny_lm, block=4)
    settings = {"until": ["\n"], "max_gen_toks": 10}
    requests = instances("generate_until", ("the cat", settings), ("", settings), ("cat " * 200, settings))
    texts = model.generate_until(requests)
    assert texts == model.generate_until(requests)  # greedy
    words = texts[0].split()
    assert words
    stop = {"until": [words[-1]], "max_gen_toks": 10}
    shorter = model.generate_until(instances("generate_until", ("the cat", stop)))[0]
    assert shorter == texts[0][: texts[0].index(words[-1])]
    sampled = {"until": [], "max_gen_toks": 5, "do_sample": True, "temperature": 1.0, "top_k": 20}
    draws = model.generate_until(instances("generate_until", *[("the cat", sampled)] * 6))
    assert len(set(draws)) > 1
    ids = tiny_lm.tokenizer(draws[0], add_special_tokens=False)["input_ids"]
    assert not set(ids) & {0, 2, 3, 4}
    beside = model.generate_until(instances("generate_until", ("a dog ran to the", sampled), ("the cat", sampled)))
    assert beside[1] == draws[0], "an answer does not depend on what is asked with it"


def write_tasks(folder: Path) -> None:
    rows = [
        {"context": "the cat", "choices": ["sat on the mat", "mat the on sat"], "answer": 0, "text": "the cat sat"},
        {"context": "a dog", "choices": ["ran", "tree tree"], "answer": 1, "text": "a dog ran to the river"},
    ]
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = f"dataset_path: json\ndataset_kwargs:\n  data_files: {{test: {data}}}\ntest_split: test\n"
    (folder / "choice.yaml").write_text(
        common + "task: local_choice\noutput_type: multiple_choice\ndoc_to_text: '{{context}}'\n"
        "doc_to_choice: '{{choices}}'\ndoc_to_target: answer\nmetric_list:\n  - metric: acc\n"
    )
    (folder / "rolling.yaml").write_text(
        common + "task: local_rolling\noutput_type: loglikelihood_rolling\ndoc_to_text: ''\n"
        "doc_to_target: '{{text}}'\nmetric_list:\n  - metric: word_perplexity\n"
    )
    (folder / "write.yaml").write_text(
        common
        + "task: local_write\noutput_type: generate_until\ndoc_to_text: '{{context}}'\ndoc_to_target: '{{text}}'\n"
        "generation_kwargs:\n  until: ['.']\n  max_gen_toks: 6\nmetric_list:\n  - metric: exact_match\n"
    )


def test_local_tasks_from_the_command_line(tiny_lm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load_model", lambda *_, **__: tiny_lm)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    write_tasks(tasks)
    names = f"local_choice,local_write,{tasks / 'rolling.yaml'}"  # by name, and by file
    args = ["lm-eval", "--tasks", names, "--include-path", str(tasks)]
    args += ["--json", "--use-cache", str(tmp_path / "answers")]
    calls = []
    inner = AnyorderLM.loglikelihood

    def counting(self: AnyorderLM, requests: list[Instance]) -> list[tuple[float, bool]]:
        calls.append(len(requests))
        return inner(self, requests)

    monkeypatch.setattr(AnyorderLM, "loglikelihood", counting)
    answers = []
    for _ in range(2):
        result = CliRunner().invoke(app, args)
        if result.exception is not None:
            raise result.exception
        answers.append(json.loads(result.stdout[result.stdout.index("{") :]))
    rows = {row["task"]: row for row in answers[0]["rows"]}
    hits = 0
    for context, good, bad, target in (
        ("the cat", "sat on the mat", "mat the on sat", 0),
        ("a dog", "ran", "tree tree", 1),
    ):
        values = [plain(tiny_lm, context, " " + text)[0] for text in (good, bad)]
        hits += values.index(max(values)) == target
    assert rows["local_choice"]["acc"] == hits / 2
    texts = ["the cat sat", "a dog ran to the river"]
    total = sum(s.log_prob for s in tiny_lm.score(texts, "chain"))
    words = sum(len(t.split()) for t in texts)
    expected = float(torch.tensor(-total / words, dtype=torch.float64).exp())
    assert rows["local_rolling"]["word_perplexity"] == pytest.approx(expected, rel=1e-4)
    assert rows["local_write"]["exact_match"] == 0
    assert answers[0]["rows"] == answers[1]["rows"]
    assert calls == [4]  # the second run took every answer from the cache
    # Another method, model or seed has answers of its own, for all that the cache has the same name.
    CliRunner().invoke(app, ["lm-eval", "--tasks", "local_choice", *args[3:], "--method", "bound", "--samples", "2"])
    assert calls == [4, 4]


def test_unknown_tasks_are_named(tiny_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import lm_eval.tasks

    class OwnTasks(lm_eval.tasks.TaskManager):  # without the harness's own, which take a minute to read
        def __init__(self, **options: Any) -> None:
            super().__init__(**{**options, "include_defaults": False})

    monkeypatch.setattr(lm_eval.tasks, "TaskManager", OwnTasks)
    monkeypatch.setattr("anyorder.models.hub.offline_if_unreachable", lambda: False)  # with or without a network
    for tasks, message in (
        ("no_such_task", "not all of no_such_task are tasks"),
        ("no.yaml", "no task file 'no.yaml'"),
    ):
        result = CliRunner().invoke(app, ["lm-eval", "--tasks", tasks])
        assert isinstance(result.exception, AnyorderError)
        assert message in str(result.exception)
