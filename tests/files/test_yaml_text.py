"""YAML that is small as a text and endless as a value, or no value at all, is one mistake more in the text."""

from __future__ import annotations

import time

import pytest
import yaml

from anyorder.files.yaml_text import parse_yaml

LAUGHS = "a: &a [x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 10_000, "nested too deeply"),
        ("{a: " * 10_000, "nested too deeply"),
        (LAUGHS, "too large"),
        (MERGES, "too large"),
        ("a: &a [*a]", "contains it"),
        ("a: 2026-13-45", "month must be in 1..12"),
        ("a: !!bool x", "cannot be read"),
        ("a: !!timestamp x", "cannot be read"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("a: [", "expected"),
        ("!!python/object/apply:os.system [false]", "could not determine a constructor"),
    ],
)
def test_it_is_refused_at_once(text: str, says: str) -> None:
    began = time.process_time()
    with pytest.raises(yaml.YAMLError, match=says):
        parse_yaml(text)
    assert time.process_time() - began < 3  # the nested ones took PyYAML longer by far, the aliases all memory


def test_what_is_sound_is_read() -> None:
    assert parse_yaml("a: &a {b: [1, ~]}\nc: {<<: *a, d: 2}\ne: *a") == {
        "a": {"b": [1, None]},
        "c": {"b": [1, None], "d": 2},
        "e": {"b": [1, None]},
    }
    assert parse_yaml("") is None
