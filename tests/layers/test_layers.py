"""The rooms of the house: no import, at any depth of a file, climbs to a higher one; no packages need each other."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "anyorder"
# Lowest first. `anyorder` is the package's own __init__, the door to what a user loads.
LAYERS = """
errors types stats memory files kinds options
masking text metrics
models
conditionals
samplers joints scoring chains
training
tasks
anyorder
studies
show
serve integrations
cli
__main__
"""
RANK = {room: height for height, line in enumerate(LAYERS.strip().splitlines()) for room in line.split()}


def room(file: Path) -> str:
    """The package, or the module of the top level, that a file belongs to."""
    name = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "anyorder" if name == "__init__" else name


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """(line, room) of every import of ours in a file, also of those inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno} imports by a relative name"
            # `from anyorder import samplers` means the package; `from anyorder import load` the door
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first == "anyorder":
                yield node.lineno, rest[0] if rest and rest[0] in RANK else "anyorder"


def edges() -> Iterator[tuple[str, str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        for line, target in imported(file):
            if target != room(file):
                yield room(file), target, f"{file.relative_to(SOURCE)}:{line}"


def test_every_room_has_its_place():
    assert {room(file) for file in SOURCE.rglob("*.py")} <= RANK.keys()


def test_no_import_climbs():
    climbing = [f"{where} ({a} imports {b})" for a, b, where in edges() if RANK[b] > RANK[a]]
    assert not climbing, "\n".join(climbing)


def test_no_two_packages_need_each_other():
    needs: dict[str, set[str]] = {}
    for a, b, _ in edges():
        needs.setdefault(a, set()).add(b)
    TopologicalSorter(needs).prepare()  # raises CycleError and names the cycle
