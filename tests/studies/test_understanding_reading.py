"""GLUE's and SQuAD's files: each form is read, each fault is one clear line."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyorder.errors import AnyorderError
from anyorder.studies.understanding.hub_data import hub_questions, hub_task
from anyorder.studies.understanding.reading import Example, read_file, read_task, some, split
from anyorder.studies.understanding.squad_files import read_questions, read_squad
from anyorder.studies.understanding.tasks import GLUE, chosen
from toy_tasks import glue_folder, qnli_lines, squad

FIRST = {
    "cola": ("gj04\t1\t\tThe cat.", ("The cat.",), 1),
    "sst2": ("sentence\tlabel\na cat \t0", ("a cat ",), 0),
    "mrpc": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tA ' cat\tB", ("A ' cat", "B"), 1),
    "stsb": ("index\tsentence1\tsentence2\tscore\n0\ta\tb\t4.750", ("a", "b"), 4.75),
    "qqp": ("a\tb\t1", ("a", "b"), 1),
    "mnli": ("a\tb\tcontradiction", ("a", "b"), 2),
    "qnli": ("index\tquestion\tsentence\tlabel\n0\twho?\tme\tnot_entailment", ("who?", "me"), 1),
    "rte": ("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment", ("a", "b"), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_every_task_in_every_form(name: str, ending: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    text, texts, label = FIRST[name]
    path = tmp_path / f"train.tsv{ending}"
    path.write_bytes(pack((text + "\n").encode()))
    assert read_file(path, GLUE[name]) == [Example(texts, label)]


def test_glues_own_headers_of_qqp_and_mnli(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta\tb\t1\n0\ttorn\n0\t1\t2\tc\td\t0\n")
    assert read_file(path, GLUE["qqp"]) == [(("a", "b"), 1), (("c", "d"), 0)]  # a torn line is passed over, as by all
    path.write_text("index\tpromptID\tsentence1\tsentence2\tlabel1\tgold_label\n0\t9\ta\tb\tneutral\tneutral\n")
    assert read_file(path, GLUE["mnli"]) == [(("a", "b"), 1)]


def test_matched_and_mismatched(tmp_path: Path) -> None:
    (tmp_path / "MNLI").mkdir()
    for name in ("train", "dev_matched", "dev_mismatched"):
        (tmp_path / "MNLI" / f"{name}.tsv").write_text(f"{name}\tb\tneutral\n")
    data = read_task(GLUE["mnli"], tmp_path, 0.5)
    assert {name: part[0].texts[0] for name, part in data.tests.items()} == {
        "mnli": "dev_matched", "mnli-mm": "dev_mismatched"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("cola", FIRST["sst2"][0], "is a file of sst2, not of cola"),
        ("sst2", FIRST["qnli"][0], "is a file of qnli, not of sst2"),
        ("sst2", FIRST["cola"][0], "is a file of cola, not of sst2"),
        ("rte", FIRST["stsb"][0], "is a file of stsb, not of rte"),
        ("mnli", FIRST["qqp"][0], "is a file of qqp, not of mnli"),
        ("sst2", "index\tsentence\n0\ta", "has no column 'label', only index, sentence"),
        ("rte", "index\tsentence1\tlabel\n0\ta\tentailment", "has no column 'sentence2'"),
        ("sst2", "sentence\tlabel\na\t1\nb\t2", "line 3 of .* has the label '2', which is none of 0, 1"),
        ("sst2", "sentence\tlabel\na\t1\nb", "line 3 of .* has 1 column, not 2"),
        ("stsb", "sentence1\tsentence2\tscore\na\tb\tc", "line 2 of .* has the score 'c'"),
        ("sst2", "sentence\tlabel", "holds no examples"),
        ("sst2", "", "has no column"),
    ],
)
def test_a_fault_is_one_line(name: str, text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text(text + "\n" if text else "")
    with pytest.raises(AnyorderError, match=says) as caught:
        read_file(path, GLUE[name])
    assert "\n" not in str(caught.value)


def test_missing_folders_and_files(tmp_path: Path) -> None:
    with pytest.raises(AnyorderError, match="there is no folder"):
        read_task(GLUE["rte"], tmp_path / "nothing", 0.5)
    with pytest.raises(AnyorderError, match="has no folder RTE"):
        read_task(GLUE["rte"], tmp_path, 0.5)
    glue_folder(tmp_path)
    (tmp_path / "RTE" / "train.tsv").unlink()
    with pytest.raises(AnyorderError, match=r"has no train.tsv \(or .xz, .gz\)"):
        read_task(GLUE["rte"], tmp_path, 0.5)
    assert len(read_task(GLUE["sst2"], tmp_path / "SST-2", 0.5).train) == 96  # the folder itself


def test_qnli_without_a_training_set_is_split_by_paragraph(tmp_path: Path) -> None:
    (tmp_path / "QNLI").mkdir()
    (tmp_path / "squad2").mkdir()
    found = squad(4, 6, 5)
    contexts = [p["context"] for a in found["data"] for p in a["paragraphs"]]
    (tmp_path / "squad2" / "dev-v2.0.json").write_text(json.dumps(found))
    lines = qnli_lines(20, 1)
    for context in contexts:  # two sentences of each paragraph
        half = len(context) // 2
        lines += [f"0\twho?\t{part}\tentailment" for part in (context[:half], context[half:])]
    (tmp_path / "QNLI" / "dev.tsv").write_text("\n".join(lines) + "\n")
    data = read_task(GLUE["qnli"], tmp_path, 0.5)
    assert "50%" in data.note
    assert len(data.train) + len(data.tests["qnli"]) == 20 + 2 * len(contexts)
    train, test = {e.texts[1] for e in data.train}, {e.texts[1] for e in data.tests["qnli"]}
    assert not train & test
    for context in contexts:
        half = len(context) // 2
        assert (context[:half] in train) == (context[half:] in train)


def test_splits_and_limits_are_the_same_in_every_run() -> None:
    first, rest = split(list("abcdefgh"), 0.25, lambda item: item)
    assert len(first) == 2
    again, _ = split(list("hgfedcba"), 0.25, lambda item: item)
    assert set(first) == set(again)
    assert sorted(first + rest) == list("abcdefgh")
    assert [len(part) for part in split(list("ab"), 0.01, lambda item: item)] == [1, 1]
    with pytest.raises(AnyorderError, match="cannot be split"):
        split(list("aa"), 0.5, lambda item: item)
    assert some(list(range(100)), 5) == some(list(range(100)), 5)
    assert some([1, 2], None) == some([1, 2], 2) == [1, 2]


def test_names_of_tasks() -> None:
    assert chosen("rte, CoLA") == ["cola", "rte"]
    assert len(chosen("all")) == 9
    with pytest.raises(AnyorderError, match="did you mean 'squad2'"):
        chosen("squad")


# --- SQuAD 2.0 -------------------------------------------------------------------------------------------------------


def written(tmp_path: Path, name: str, found: Any) -> Path:
    (tmp_path / "squad2").mkdir(exist_ok=True)
    path = tmp_path / "squad2" / name
    path.write_bytes(lzma.compress(json.dumps(found).encode()))
    return path


def test_articles_are_not_shared(tmp_path: Path) -> None:
    written(tmp_path, "train-subset.json.xz", squad(5, 4, 1))
    written(tmp_path, "dev-v2.0.json.xz", squad(6, 4, 2, "dev"))
    data = read_questions(tmp_path, 0.5)
    titles = [{q.title for q in part} for part in (data.train, data.held_out, data.test)]
    assert [len(part) for part in titles] == [7, 1, 3]
    assert not titles[0] & titles[1]
    assert not (titles[0] | titles[1]) & titles[2]
    assert all(title.startswith("dev") for title in titles[1] | titles[2])  # the threshold is for the dev set's kind
    assert "50%" in data.note
    written(tmp_path, "train-v2.0.json.xz", squad(5, 4, 1))
    whole = read_questions(tmp_path, 0.5)
    assert whole.note == ""
    assert len({q.title for q in whole.test}) == 6


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda d: d.pop("data"), "is not a file of SQuAD 2.0"),
        (lambda d: d["data"][0]["paragraphs"][0]["qas"][0].pop("is_impossible"), "lacks 'is_impossible'"),
        (lambda d: d["data"][0]["paragraphs"][0]["qas"][0]["answers"][0].update(answer_start=-9), "is not at -9"),
        (lambda d: d["data"][0]["paragraphs"][0]["qas"][0].update(answers=[]), "neither answers nor is_impossible"),
        (lambda d: d.update(data=[]), "holds no questions"),
    ],
)
def test_a_fault_of_squads_file_is_one_line(spoil: Any, says: str, tmp_path: Path) -> None:
    found = squad(1, 2, 1)
    spoil(found)
    with pytest.raises(AnyorderError, match=says):
        read_squad(written(tmp_path, "dev.json.xz", found))


def test_no_json_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("{")
    with pytest.raises(AnyorderError, match="is not JSON"):
        read_squad(tmp_path / "dev.json")
    with pytest.raises(AnyorderError, match="has no squad2/dev-v2"):
        read_questions(tmp_path / "..", 0.5)


# --- the hub ---------------------------------------------------------------------------------------------------------


def test_the_hubs_data_sets_have_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    pair = [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}]
    one = squad(2, 3, 1)

    def columns(answers: list[dict[str, Any]]) -> dict[str, list[Any]]:
        return {key: [answer[key] for answer in answers] for key in ("text", "answer_start")}

    rows = [
        {"id": q["id"], "title": a["title"], "question": q["question"], "context": p["context"],
         "answers": columns(q["answers"])}
        for a in one["data"] for p in a["paragraphs"] for q in p["qas"]
    ]  # fmt: skip
    parts = {
        ("nyu-mll/glue", "mnli"): {"train": pair, "validation_matched": pair, "validation_mismatched": pair},
        ("nyu-mll/glue", "sst2"): {part: [{"sentence": "a", "label": 1, "idx": 0}] for part in ("train", "validation")},
        ("rajpurkar/squad_v2",): {"train": rows, "validation": rows},
    }
    made = {
        name: datasets.DatasetDict({part: datasets.Dataset.from_list(rows) for part, rows in found.items()})
        for name, found in parts.items()
    }
    monkeypatch.setattr(datasets, "load_dataset", lambda *name: made[name])
    mnli = hub_task(GLUE["mnli"])
    assert mnli.train == mnli.tests["mnli"] == mnli.tests["mnli-mm"] == [Example(("a", "b"), 2)]
    assert hub_task(GLUE["sst2"]).tests == {"sst2": [Example(("a",), 1)]}
    questions = hub_questions()
    assert len(questions.test) == 6
    assert sum(not q.answers for q in questions.test) == 2


def test_a_hub_out_of_reach_is_one_line() -> None:
    with pytest.raises(AnyorderError, match="--data-dir"):
        hub_task(GLUE["rte"])
