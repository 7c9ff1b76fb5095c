"""Toy data in the forms of GLUE and SQuAD 2.0, which a tiny model learns in seconds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tiny import tiny_checkpoint_of

FILL = ("the", "old", "man", "house", "door", "garden", "river", "red", "blue", "small", "big", "on", "in", "by")
GOOD, BAD = ("sun", "good", "bread"), ("moon", "bad", "night")
ANSWERS = ("king", "queen", "child")


def toy_checkpoint(path: Path, family: str = "bert", **changes: Any) -> Path:
    """A tiny random model whose weights begin small, so that it can be taught; no dropout, so that it is quick."""
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return tiny_checkpoint_of(family, path, initializer_range=0.02, **none, **changes)


def sentence(rng: random.Random, word: str = "", length: int = 6) -> str:
    words = [rng.choice(FILL) for _ in range(rng.randint(3, length))]
    words.insert(rng.randint(0, len(words)), word)
    return " ".join(" ".join(words).split())


def sst2_lines(count: int, seed: int) -> list[str]:
    """Separable: a good word makes the label 1, a bad one 0."""
    rng = random.Random(seed)
    labels = [i % 2 for i in range(count)]
    return ["sentence\tlabel", *(f"{sentence(rng, rng.choice((BAD, GOOD)[label]))}\t{label}" for label in labels)]


def cola_lines(count: int, seed: int) -> list[str]:
    """CoLA has no header and four columns."""
    return ["gj04\t{1}\t\t{0}".format(*line.split("\t")) for line in sst2_lines(count, seed)[1:]]


def rte_lines(count: int, seed: int) -> list[str]:
    """Entailment where the second text is good."""
    lines = [line.split("\t") for line in sst2_lines(count, seed)[1:]]
    names = ("not_entailment", "entailment")
    rows = [f"{i}\tthe old man\t{text}\t{names[int(label)]}" for i, (text, label) in enumerate(lines)]
    return ["index\tsentence1\tsentence2\tlabel", *rows]


def qnli_lines(count: int, seed: int) -> list[str]:
    """RTE's, under QNLI's names."""
    return ["index\tquestion\tsentence\tlabel", *rte_lines(count, seed)[1:]]


def stsb_lines(count: int, seed: int) -> list[str]:
    """The score is 5 for good words, 0 for bad."""
    lines = [line.split("\t") for line in sst2_lines(count, seed)[1:]]
    return ["index\tsentence1\tsentence2\tscore", *(f"0\tone\t{text}\t{5 * int(label)}.0" for text, label in lines)]


LINES = {"CoLA": cola_lines, "SST-2": sst2_lines, "RTE": rte_lines, "STS-B": stsb_lines}


def glue_folder(root: Path, train: int = 96, dev: int = 24) -> Path:
    """CoLA, SST-2, RTE and STS-B with train.tsv and dev.tsv."""
    for name, lines in LINES.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for part, count, seed in (("train", train, 1), ("dev", dev, 2)):
            (root / name / f"{part}.tsv").write_text("\n".join(lines(count, seed)) + "\n")
    return root


def squad(articles: int, each: int, seed: int, prefix: str = "article") -> dict[str, Any]:
    """The answer is the one person in the passage; every third passage has none, and no answer."""
    rng = random.Random(seed)
    data = []
    for a in range(articles):
        paragraphs = []
        for i in range(each):
            answer = "" if i % 3 == 2 else rng.choice(ANSWERS)
            context = sentence(rng, answer, 9)
            spans = [{"text": answer, "answer_start": context.index(answer)}] if answer else []
            one = {"id": f"{prefix}-{a}-{i}", "question": "one is ?", "answers": spans, "is_impossible": not answer}
            paragraphs.append({"context": context, "qas": [one]})
        data.append({"title": f"{prefix}-{a}", "paragraphs": paragraphs})
    return {"version": "v2.0", "data": data}


def squad_folder(root: Path, train: int = 12, each: int = 12) -> Path:
    """train-v2.0.json and dev-v2.0.json."""
    (root / "squad2").mkdir(parents=True, exist_ok=True)
    (root / "squad2" / "train-v2.0.json").write_text(json.dumps(squad(train, each, 1)))
    (root / "squad2" / "dev-v2.0.json").write_text(json.dumps(squad(3, each, 2, "dev")))
    return root
