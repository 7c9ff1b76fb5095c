"""What a user installs: the extras, their pins, and the versions of Python that the workflow runs."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

import anyorder

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OURS = {"bench", "dev", "docs"}  # for those who work on anyorder; `all` is for those who use it


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_all_is_every_extra_for_users():
    (everything,) = EXTRAS["all"]
    assert Requirement(everything).extras == EXTRAS.keys() - OURS - {"all"}


def test_what_is_required_is_pinned():
    lines = (ROOT / "constraints-cpu.txt").read_text(encoding="utf-8").splitlines()
    pins = {plain(line.split("==")[0]): line.split("==")[1] for line in lines if "==" in line}
    assert len(pins) == sum("==" in line for line in lines), "a package is pinned twice"
    required = [Requirement(one) for group in (PROJECT["dependencies"], *EXTRAS.values()) for one in group]
    named = [one for one in required if one.name != "anyorder"]
    assert [str(one) for one in named if not one.specifier.contains(pins.get(plain(one.name), "0"))] == []


def test_versions_agree():
    assert PROJECT["version"] == anyorder.__version__
    assert f"version: {anyorder.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_workflow_runs_every_python_that_is_promised():
    promised = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if "Python :: 3." in one]
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert re.findall(r'"(3\.\d+)"', workflow[workflow.index("python: [") :].splitlines()[0]) == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
