"""Tables on the pages of results are those of the journals beside them."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path

import pytest

from anyorder.studies.understanding.table import AVERAGE, table

RESULTS = Path(__file__).parents[2] / "docs" / "results"
GLUE = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", AVERAGE]


@pytest.fixture(scope="module")
def cells():
    with lzma.open(RESULTS / "understanding-cells.jsonl.xz", "rt", encoding="utf-8") as file:
        return [record for line in file if "model" in (record := json.loads(line))]


@pytest.fixture(scope="module")
def page():
    return (RESULTS / "understanding.md").read_text(encoding="utf-8")


def row_of(page: str, name: str) -> list[str]:
    """The cells of the first row of the page whose first cell begins with ``name``."""
    rows = (line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| "))
    return next(row[1:] for row in rows if row[0].replace("\\", "").lower().split(",")[0] == name)


def test_glue_is_its_journal(cells, page):
    rows = table(cells)
    for model in dict.fromkeys(record["model"] for record in cells):
        for task, shown in zip(GLUE, row_of(page, model), strict=True):
            values = [row.value for row in rows if (row.model, row.task) == (model, task)]
            said = re.split(r" [±(]", shown)[0].split("/")
            assert [float(one) for one in said] == pytest.approx(values, abs=0.0501)
            if task == AVERAGE:
                ends = [float(end) for end in re.findall(r"\(([\d.]+)–([\d.]+)\)", shown)[0]]
                average = next(row for row in rows if (row.model, row.task) == (model, AVERAGE))
                assert ends == pytest.approx([average.low, average.high], abs=0.0501)


@pytest.mark.parametrize(
    ("model", "against"),
    [("u-pmlm-a", "bert"), ("u-pmlm-r", "u-pmlm-a"), ("u-pmlm-r", "xlnet"), ("u-pmlm-r*", "u-pmlm-r")],
)
def test_differences_are_its_journal(cells, page, model, against):
    kept = [record for record in cells if record["model"] in (model, against)]
    one = next(row for row in table(kept, against) if (row.model, row.task) == (model, AVERAGE))
    shown = [float(number) for number in re.findall(r"[-+]?[\d.]+", row_of(page, f"{model} over {against}")[-1])]
    assert shown == pytest.approx([one.difference, one.difference_low, one.difference_high], abs=0.0501)
