"""What a command imports before it has work to do: nothing heavy."""

import json
import subprocess
import sys

import pytest
import typer

from anyorder.cli import app

HEAVY = ("torch", "numpy", "transformers", "scipy", "matplotlib", "huggingface_hub", "urllib.request", "ray", "pyarrow")
SCRIPT = """
import json, sys
from anyorder.cli import app
try:
    app(sys.argv[1:])
finally:
    print(json.dumps(sorted(sys.modules)))
"""


def imported(*arguments: str) -> set[str]:
    """The modules that are there once `anyorder ARGUMENTS` has ended."""
    run = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", ["--version", "--help", "fill --help", "generate --help"])
def test_help_and_version_import_nothing_heavy(arguments: str) -> None:
    assert not imported(*arguments.split()) & set(HEAVY)


def test_the_help_of_no_command_needs_torch() -> None:
    """In one process, so that every command is covered without a start of Python for each."""
    names = [" ".join(path) for path in commands(typer.main.get_command(app))]
    assert len(names) > 15
    script = f"""
import sys
from typer.testing import CliRunner
from anyorder.cli import app
for name in {names!r}:
    result = CliRunner().invoke(app, [*name.split(), "--help"])
    assert result.exit_code == 0, result.output
    assert "torch" not in sys.modules, name
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)


def commands(group: typer.core.TyperGroup, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of every command."""
    found = []
    for name, part in group.commands.items():
        path = (*before, name)
        found += commands(part, path) if hasattr(part, "commands") else [path]
    return found
