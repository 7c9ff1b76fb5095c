"""GLUE's eight tasks of the paper's Table 5 and SQuAD 2.0: what their files hold and how they are measured."""

from __future__ import annotations

from dataclasses import dataclass

from anyorder.errors import choose


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: as on the command line, and in the hub's data sets.
        folder: GLUE's name of its folder.
        texts: columns of the one or two texts in GLUE's file.
        label: column of the label.
        values: the labels as the file writes them; none for a number (regression).
        names: what the labels mean, in the same order: the hub's numbers.
        metrics: GLUE's; two of them are averaged before tasks are.
        hub_texts: columns of the texts in the hub's data set.
        plain: for files without a header line: how many columns, and which hold the texts and the label.
        header: GLUE's own file names its columns.
        torn: GLUE's own file has lines that lack columns, which everyone passes over.
    """

    name: str
    folder: str
    texts: tuple[str, ...]
    label: str
    values: tuple[str, ...]
    names: tuple[str, ...]
    metrics: tuple[str, ...]
    hub_texts: tuple[str, ...] = ("sentence1", "sentence2")
    plain: tuple[int, tuple[int, ...], int] | None = None
    header: bool = True
    torn: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """What the header must name."""
        return (*self.texts, self.label)


_PAIR = (3, (0, 1), 2)
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("entailment", "neutral", "contradiction")
_YES_NO = ("0", "1")
GLUE = {
    task.name: task
    for task in (
        Task("cola", "CoLA", ("sentence",), "label", _YES_NO, ("unacceptable", "acceptable"), ("matthews",),
             ("sentence",), plain=(4, (3,), 1), header=False),
        Task("sst2", "SST-2", ("sentence",), "label", _YES_NO, ("negative", "positive"), ("accuracy",), ("sentence",)),
        Task("mrpc", "MRPC", ("#1 String", "#2 String"), "Quality", _YES_NO, ("not_equivalent", "equivalent"),
             ("f1", "accuracy")),
        Task("stsb", "STS-B", ("sentence1", "sentence2"), "score", (), (), ("pearson", "spearman")),
        Task("qqp", "QQP", ("question1", "question2"), "is_duplicate", _YES_NO, ("not_duplicate", "duplicate"),
             ("f1", "accuracy"), ("question1", "question2"), plain=_PAIR, torn=True),
        Task("mnli", "MNLI", ("sentence1", "sentence2"), "gold_label", _NLI, _NLI, ("accuracy",),
             ("premise", "hypothesis"), plain=_PAIR),
        Task("qnli", "QNLI", ("question", "sentence"), "label", _ENTAILMENT, _ENTAILMENT, ("accuracy",),
             ("question", "sentence")),
        Task("rte", "RTE", ("sentence1", "sentence2"), "label", _ENTAILMENT, _ENTAILMENT, ("accuracy",)),
    )
}  # fmt: skip
SQUAD = "squad2"
NAMES = (*GLUE, SQUAD)


def chosen(names: str) -> list[str]:
    """The tasks of a list with commas between, in the paper's order; ``all`` is every one."""
    given = [name.strip().lower() for name in names.split(",") if name.strip()]
    wanted = set(NAMES) if given == ["all"] else {choose(name, NAMES, "task", ", or all") for name in given}
    return [name for name in NAMES if name in wanted]
