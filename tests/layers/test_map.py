"""docs/map.md names every public file, and nothing that is not there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "docs" / "map.md").read_text(encoding="utf-8")))


def test_every_public_file_is_on_the_map():
    source = ROOT / "src" / "anyorder"
    public = {str(f.relative_to(source)) for f in source.rglob("*.py") if not f.name.startswith("_")}
    assert sorted(public - NAMED) == []


def test_what_the_map_names_is_there():
    folders = (ROOT / "src" / "anyorder", ROOT / "tests")
    assert [name for name in sorted(NAMED) if not any((folder / name).exists() for folder in folders)] == []
