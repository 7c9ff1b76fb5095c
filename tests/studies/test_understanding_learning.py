"""Real fine-tuning of tiny models: toy tasks to 100 %, checkpoints that load and agree, windows, cuts, batches."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from anyorder.errors import AnyorderError
from anyorder.studies.options.understanding import LearningOptions
from anyorder.studies.understanding.batches import SimilarBatches
from anyorder.studies.understanding.learning import Learned, learn, read_job
from anyorder.studies.understanding.multi_task import learn_together, load_shared
from anyorder.studies.understanding.spans import Spans, best_span
from anyorder.studies.understanding.squad_files import Question, Questions
from anyorder.studies.understanding.training import Collator, answers, fit
from toy_tasks import glue_folder, squad_folder, toy_checkpoint


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return squad_folder(glue_folder(tmp_path_factory.mktemp("data")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(toy_checkpoint(tmp_path_factory.mktemp("bert")))


def options(data: Path, **changes: Any) -> LearningOptions:
    return LearningOptions(**{"data_dir": data, "epochs": 12, "lr": 3e-3, "batch": 16, **changes})


@pytest.fixture(scope="module")
def learned(data: Path, bert: str) -> dict[str, Learned]:
    """SST-2 and SQuAD's toys, learnt by a tiny BERT."""
    return {task: learn(read_job(task, options(data)), bert, options(data), seed=0) for task in ("sst2", "squad2")}


def test_a_separable_task_is_learnt_to_100_percent(learned: dict[str, Learned]) -> None:
    (row,) = learned["sst2"].metrics
    assert (row["metric"], row["value"], row["low"], row["high"]) == ("accuracy", 100, 100, 100)
    assert (row["baseline"], row["examples"], row["train"], row["cut"]) == (50, 24, 96, 0)


def test_bfloat16_multiplies_in_it_and_keeps_the_weights(data: Path, bert: str) -> None:
    said = options(data, dtype="bfloat16")
    job = read_job("sst2", said)
    seen: set[tuple[bool, torch.dtype]] = set()

    def note(module: torch.nn.Module, given: tuple[torch.Tensor, ...], answer: torch.Tensor) -> None:
        seen.add((torch.is_grad_enabled(), answer.dtype))

    ready = job.load(bert)
    hook = ready.model.bert.encoder.layer[0].output.dense.register_forward_hook(note)
    fit(ready.model, ready.tokenizer, job.training_rows(ready), said, seed=0)
    outcomes, _ = job.outcomes(ready)
    hook.remove()
    assert seen == {(True, torch.bfloat16), (False, torch.float32)}
    assert {p.dtype for p in ready.model.parameters()} == {torch.float32}
    assert outcomes[0].value("accuracy") == 100


def test_spans_and_no_answers_are_learnt_to_100_percent(learned: dict[str, Learned]) -> None:
    exact, f1 = learned["squad2"].metrics
    assert (exact["metric"], f1["metric"]) == ("exact", "f1")
    assert exact["value"] == f1["value"] == 100
    assert exact["baseline"] == pytest.approx(100 / 3)  # what answering nothing gives
    assert exact["unanswered"] == 12


def test_the_checkpoint_is_a_pipelines(learned: dict[str, Learned], tmp_path: Path, data: Path) -> None:
    learned["sst2"].save(tmp_path / "m", {"task": "sst2"})
    classify = pipeline("text-classification", model=str(tmp_path / "m"))
    records = [json.loads(line) for line in (tmp_path / "m" / "predictions.jsonl").read_text().splitlines()]
    texts = [line.split("\t")[0] for line in (data / "SST-2" / "dev.tsv").read_text().splitlines()[1:]]
    assert len(records) == len(texts)
    for said, record in zip(classify(texts), records, strict=True):
        assert said["label"] == record["predicted"] == record["gold"]
        assert said["score"] == pytest.approx(float(np.exp(record["logits"]).max() / np.exp(record["logits"]).sum()))
    metrics = json.loads((tmp_path / "m" / "metrics.json").read_text())
    assert metrics["rows"][0]["value"] == 100
    assert metrics["settings"] == {"task": "sst2"}


def test_the_span_checkpoint_answers(learned: dict[str, Learned], tmp_path: Path) -> None:
    learned["squad2"].save(tmp_path / "m", {})
    model = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "m").eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "m")
    inputs = tokenizer("one is ?", "the old queen by the river", return_tensors="pt")
    with torch.no_grad():
        answer = model(**inputs)
    start, end = int(answer.start_logits.argmax()), int(answer.end_logits.argmax())
    assert tokenizer.decode(inputs["input_ids"][0, start : end + 1]) == "queen"


@pytest.mark.parametrize("family", ["anyorder-relative-bert", "modernbert"])
def test_other_families_learn_too_and_load_in_a_pipeline(
    family: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = toy_checkpoint(tmp_path / "a", family)
    done = learn(read_job("rte", options(data)), str(model), options(data), seed=0)
    assert done.metrics[0]["value"] == 100
    done.save(tmp_path / "b", {})
    classify = pipeline("text-classification", model=str(tmp_path / "b"))
    assert classify({"text": "the old man", "text_pair": "the sun on the river"})["label"] == "entailment"
    assert "not supported" not in caplog.text


def test_xlnet_and_gpt_fine_tune(data: Path, tmp_path: Path) -> None:
    from anyorder.models.build import build
    from tiny import VOCAB, tiny_tokenizer

    few = options(data, epochs=1, train_limit=32, test_limit=12)
    for kind in ("xlnet", "gpt2"):
        sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate": 24, "max_length": 64}
        build(kind, vocab_size=len(VOCAB), pad_id=0, cls_id=2, sep_id=3, **sizes).save_pretrained(tmp_path / kind)
        tiny_tokenizer().save_pretrained(tmp_path / kind)
        for task in ("sst2", "squad2"):
            done = learn(read_job(task, few), str(tmp_path / kind), few, seed=0)
            assert len(done.predictions) == 12


def test_regression(data: Path, bert: str, tmp_path: Path) -> None:
    settings = options(data, epochs=14)
    done = learn(read_job("stsb", settings), bert, settings, seed=0)
    pearson, spearman = done.metrics
    assert (pearson["metric"], spearman["metric"]) == ("pearson", "spearman")
    assert pearson["value"] > 70
    assert pearson["baseline"] == 0
    done.save(tmp_path / "m", {})
    score = pipeline("text-classification", model=str(tmp_path / "m"))({"text": "one", "text_pair": "the sun"})
    with torch.no_grad():
        inputs = done.ready.tokenizer("one", "the sun", return_tensors="pt")
        assert score["score"] == pytest.approx(float(done.ready.model(**inputs).logits))


def test_a_seed_fixes_everything(data: Path, bert: str) -> None:
    few = options(data, epochs=1, train_limit=48)
    job = read_job("sst2", few)
    state = torch.random.get_rng_state()
    one, two, other = (learn(job, bert, few, seed=seed) for seed in (2**40, 2**40, 4))
    assert one.predictions == two.predictions
    assert one.predictions != other.predictions
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_rate_that_diverges_is_said(data: Path, bert: str) -> None:
    wild = options(data, lr=1e20, epochs=1)
    with pytest.raises(AnyorderError, match="smaller --lr"):
        learn(read_job("sst2", wild), bert, wild, seed=0)


def test_long_texts_are_cut_and_counted(data: Path, bert: str) -> None:
    short = options(data, max_length=8)
    job = read_job("sst2", short)
    ready = job.load(bert)
    rows, cut = job._rows(job.tests["sst2"], ready)
    whole, none = read_job("sst2", options(data))._rows(job.tests["sst2"], ready)
    assert none == 0
    assert cut == sum(len(row["input_ids"]) > 8 for row in whole) > 0
    assert max(len(row["input_ids"]) for row in rows) == 8


# --- SQuAD's windows -------------------------------------------------------------------------------------------------

CONTEXT = "the old man sat by the river and the king ran into the house on the road to the city"
WORDS = CONTEXT.split(" ")


def spans(question: Question, **changes: Any) -> Spans:
    return Spans(Questions([question], [question], [question]), LearningOptions(**{"max_length": 14, **changes}))


@pytest.mark.parametrize("stride", [1, 3, None])
def test_windows_cover_the_passage_and_point_at_the_answer(stride: int | None, bert: str) -> None:
    question = Question("1", "t", "one is ?", CONTEXT, (("king ran", CONTEXT.index("king ran")),))
    job = spans(question, stride=stride)
    ready = job.load(bert)
    windows, cut = job.windows([question], ready)
    assert cut == 0
    seen = {
        offset for window in windows for offset, inside in zip(window.offsets, window.inside, strict=True) if inside
    }
    assert [CONTEXT[a:b] for a, b in sorted(seen)] == WORDS
    begins = [next(a for (a, _), inside in zip(w.offsets, w.inside, strict=True) if inside) for w in windows]
    places = [CONTEXT[:begin].count(" ") for begin in begins]
    assert {b - a for a, b in itertools.pairwise(places)} == {stride or 4}  # a third of 14
    inside = 0
    for window, row in zip(windows, job.training_rows(ready), strict=True):
        start, end = row["start_positions"], row["end_positions"]
        text = CONTEXT[window.offsets[start][0] : window.offsets[end][1]]
        if start != window.null:
            inside += 1
            assert text == "king ran"
        else:
            visible = {CONTEXT[a:b] for (a, b), i in zip(window.offsets, window.inside, strict=True) if i}
            assert not {"king", "ran"} <= visible
    assert inside > 0


def test_an_unanswerable_question_points_at_no_answer(bert: str) -> None:
    job = spans(Question("1", "t", "one is ?", CONTEXT, ()))
    rows = job.training_rows(job.load(bert))
    assert {(row["start_positions"], row["end_positions"]) for row in rows} == {(0, 0)}


def test_a_long_question_is_cut_and_counted(bert: str) -> None:
    job = spans(Question("1", "t", "one is the " * 9, CONTEXT, ()))
    windows, cut = job.windows(job.test, job.load(bert))
    assert cut == 1
    assert max(len(window.row["input_ids"]) for window in windows) == 14
    assert windows[0].inside.index(True) == 1 + 7 + 1  # [CLS], half a window of question, [SEP]


@pytest.mark.parametrize("seed", range(6))
def test_the_best_span_is_the_best_of_all(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    start, end = torch.randn(2, 12, generator=generator)
    inside = torch.rand(12, generator=generator) > 0.3
    pairs = [(i, j) for i in range(12) for j in range(i, min(12, i + 4)) if inside[i] and inside[j]]
    best = max(pairs, key=lambda p: float(start[p[0]] + end[p[1]]))
    score, *found = best_span(start, end, inside, longest=4)
    assert tuple(found) == best
    assert score == pytest.approx(float(start[best[0]] + end[best[1]]))


# --- batches ---------------------------------------------------------------------------------------------------------


def test_batches_hold_every_row_once_of_one_task_and_near_lengths() -> None:
    lengths = torch.randint(3, 60, (403,), generator=torch.Generator().manual_seed(0)).tolist()
    groups = ["a"] * 300 + ["b"] * 103
    sampler = SimilarBatches(lengths, 16, 0, groups)
    epochs = [list(sampler), list(sampler)]
    for batches in epochs:
        assert len(batches) == len(sampler) == 19 + 7
        assert sorted(row for batch in batches for row in batch) == list(range(403))
        assert all(len({groups[row] for row in batch}) == 1 for batch in batches)
    assert epochs[0] != epochs[1]
    padded = sum(max(lengths[row] for row in batch) * len(batch) for batch in epochs[0])
    assert padded < 1.25 * sum(lengths)
    # not from long to short: the order of the batches says nothing of their length
    means = [np.mean([lengths[row] for row in batch]) for batch in epochs[0]]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.6
    assert list(SimilarBatches(lengths, 16, 0, groups)) == epochs[0]


def test_answers_keep_the_rows_order(bert: str, data: Path) -> None:
    job = read_job("sst2", options(data))
    ready = job.load(bert)
    ready.model.eval()
    rows, _ = job._rows(job.tests["sst2"], ready)
    together = torch.stack([one for (one,) in answers(ready.model, ready.tokenizer, rows, ["logits"], batch=5)])
    alone = [answers(ready.model, ready.tokenizer, [row], ["logits"])[0][0] for row in rows]
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-5, rtol=0)


# --- several tasks ---------------------------------------------------------------------------------------------------


def test_each_batch_reaches_its_own_head_and_the_one_encoder(data: Path, bert: str) -> None:
    jobs = {task: read_job(task, options(data)) for task in ("cola", "stsb", "squad2")}
    shared, ready = load_shared(jobs, bert, seed=0)
    encoders = {id(one.model.base_model) for one in ready.values()}
    assert len(encoders) == 1
    for task in jobs:
        shared.zero_grad()
        rows = [{**row, "task": task} for row in jobs[task].training_rows(ready[task])[:4]]
        shared(**Collator(ready[task].tokenizer)(rows)).loss.backward()
        for other, one in ready.items():
            head = [p for name, p in one.model.named_parameters() if not name.startswith("bert.")]
            assert head
            assert all((p.grad is not None and bool(p.grad.any())) == (other == task) for p in head)
        embeddings = shared.heads["cola"].bert.embeddings.word_embeddings.weight
        assert bool(embeddings.grad.any())


def test_tasks_learnt_together_are_each_a_checkpoint(data: Path, bert: str, tmp_path: Path) -> None:
    settings = options(data, epochs=8)
    jobs = {task: read_job(task, settings) for task in ("cola", "sst2", "squad2")}
    places = learn_together(jobs, bert, settings, 0, tmp_path)
    for task in ("cola", "sst2"):  # they had the same signal: both heads have learnt it
        ready = jobs[task].load(str(places[task]))
        ready.model.eval()
        assert jobs[task].outcomes(ready)[0][0].value(jobs[task].task.metrics[0]) > 80
    one, two = (AutoModelForSequenceClassification.from_pretrained(places[task]) for task in ("cola", "sst2"))
    torch.testing.assert_close(one.bert.encoder.state_dict(), two.bert.encoder.state_dict())
    assert not torch.equal(one.classifier.weight, two.classifier.weight)
    before = (places["cola"] / "model.safetensors").stat().st_mtime_ns
    learn_together(jobs, bert, settings, 0, tmp_path)  # finished: used as it is
    assert (places["cola"] / "model.safetensors").stat().st_mtime_ns == before
