"""Bad recipes: settings replaced, removed and added, bytes damaged, and what YAML itself allows."""

from __future__ import annotations

import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from anyorder.training import recipe as recipes
from campaign.inputs import Kind
from campaign.mutate import changed, damaged
from campaign.place import RECIPE, check_output, command, judge

_KEYS = st.sampled_from(
    [one.name for group in vars(recipes).values() if isinstance(group, type) and hasattr(group, "__dataclass_fields__")
     for one in fields(group)]
)  # fmt: skip
# Values that are one to YAML only: dates that are none, tags, aliases of aliases, things that contain themselves.
_BOMB = "".join(f"{a}: &{a} [{', '.join([f'*{b}'] * 9)}]\n" for b, a in zip("abcdefgh", "bcdefghi", strict=True))
_ODD = [
    "2026-13-45", "2026-11-18", "!!timestamp x", "!!bool x", "!!int x", "!!float x", "!!binary '='", "!!set {a}",
    "12:61", "!!omap [a]", "&a [*a]", "&a {model: *a}", "*nothing", "!!python/object/apply:os.system [false]",
    "!anything 1", "~", "0o9", "0b2", "9" * 5000, "1e999", ".nan", ".inf", "-.inf", "{[a]: 1}", "{1: 2}", "{~: 1}",
    "|\n  a", "- a", "%x", "{<<: {optim: 1}}", "{<<: 3}", "'\\0'", '"\\ud800"', "\u2028", "=", "<<", "? a",
    "[" * 30, "{a: " * 30,
]  # fmt: skip


def _yaml(value: Any) -> bytes:
    try:
        return yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")
    except (yaml.YAMLError, ValueError):
        return b"{"


@st.composite
def _odd(draw: st.DrawFn) -> bytes:
    """A sound recipe in which a value, or a line more, is one of YAML's own."""
    lines = _yaml(RECIPE).decode().splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    key, _, _ = lines[at].partition(":")
    odd = draw(st.sampled_from(_ODD))
    lines[at : at + 1] = draw(st.sampled_from([[f"{key}: {odd}"], [lines[at], odd], [lines[at], f"{odd}: 1"]]))
    if draw(st.integers(0, 9)) == 0:
        return f"a: &a [x]\n{_BOMB}output: *i\n".encode()
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _train(case: bytes) -> str:
    Path("bad.yaml").write_bytes(case)
    shutil.rmtree("run", ignore_errors=True)
    # An hour's work is no hang: where nothing else is wrong, a run of two steps shows it.
    small = ["optim.steps=2", "output=run", "tokenizer.vocab_size=99"]
    small += ["model.hidden_size=8", "model.layers=1"] if len(case) % 2 else []
    said = command("train", "bad.yaml", "--quiet", *(word for one in small for word in ("--set", one)))
    outcome = judge(said, str(case))
    log = Path("run/metrics.jsonl")
    if outcome == "answered" and log.exists():
        check_output(log.read_text())
    return outcome


def kinds() -> dict[str, Kind]:
    """The kinds of this file; the working directory is a :func:`campaign.place.place`."""
    made = changed(RECIPE, _KEYS).map(_yaml) | damaged(_yaml(RECIPE)) | _odd()
    return {"recipes": Kind(made, _train)}
