"""What a wheel must do in an environment that has nothing else: run as `python -I smoke.py THE.whl` by `make wheel`."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import anyorder

LIMIT = 40  # MB


def command(*words: str) -> str:
    """What a command prints; its failure is ours."""
    program = Path(sys.executable).with_name("anyorder")
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


wheel = Path(sys.argv[1])
size = wheel.stat().st_size / 1e6
assert size < LIMIT, f"{wheel.name} has {size:.1f} MB, more than {LIMIT}"
package = Path(anyorder.__file__).parent
assert package.is_relative_to(sys.prefix), f"anyorder comes from {package}, not from the wheel"
assert (package / "py.typed").exists()
assert version("anyorder") == anyorder.__version__ == command("--version").split()[-1]

best = anyorder.load().fill("The ___ sat on the ___.", top=3)
assert len(best) == 3
assert best[0].log_prob >= best[1].log_prob
assert json.loads(command("fill", "The ___ sat on the ___.", "--top", "1", "--json"))[0]["text"] == best[0].text
assert len(json.loads(command("generate", "The ___{4} sea .", "--seed", "1", "--json"))) == 1
cat, mat = (json.loads(line) for line in command("score", "The cat sat.", "Sat the the.", "--json").splitlines())
assert cat["log_prob"] > mat["log_prob"]
assert all(one["ok"] for one in json.loads(command("certify", "--sampler", "any-order", "--draws", "500", "--json")))
print(f"{wheel.name}: {size:.1f} MB, installed and working in {sys.prefix}")
