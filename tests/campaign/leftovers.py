"""What an earlier run left, damaged before it is resumed: outputs, notes, journals and run folders."""

from __future__ import annotations

import shutil
from pathlib import Path

from hypothesis import strategies as st

from campaign.inputs import Kind
from campaign.mutate import damaged
from campaign.place import command, judge
from campaign.tally import Broken
from campaign.tampered import WEIGHTS


@st.composite
def _leftovers(draw: st.DrawFn) -> tuple[list[str], str, bytes]:
    """A command that resumes, and one file of what it would resume from, damaged."""
    words, names = draw(st.sampled_from(_RESUMED))
    name = draw(st.sampled_from(names))
    folder, file = name.rpartition("/")[::2]
    if folder == "run/cache":  # the tokenised corpus has a name that depends on its settings
        name = str(next(Path("before", folder).iterdir()).relative_to("before") / file)
    return words.split(), name, draw(damaged(Path("before", name).read_bytes()))


_RUN = "run/checkpoints/step-00000002"
_STATE = ("state.json", "optimizer.pt", "config.json", WEIGHTS, "tokenizer.json")
_CACHE = ("meta.json", "train.ids.npy", "train.offsets.npy", "valid.ids.npy", "valid.offsets.npy")
_PAIRWISE = "evaluate pairwise --model model --data texts.txt --examples 2 --method mlm --method mrf --json"
_RESUMED = [
    ("fill --model model --file blanks.txt --out fills.jsonl --resume", ["fills.jsonl", "fills.jsonl.unfinished"]),
    ("score --model model texts.txt --out scores.tsv --resume", ["scores.tsv"]),
    (f"{_PAIRWISE} --out pairs.log --resume", ["pairs.log"]),
    ("train recipe.yaml --resume --quiet --set optim.steps=3", [
        *(f"{_RUN}/{name}" for name in _STATE), *(f"run/cache/{name}" for name in _CACHE), "run/metrics.jsonl",
    ]),
]  # fmt: skip


def leave() -> None:
    """Let every command that can be resumed leave something, under ``before``."""
    before = Path("before")
    before.mkdir()
    for words, _ in _RESUMED:
        said = command(*words.replace(" --set optim.steps=3", "").replace(" --resume", "").split())
        if said.status:
            raise Broken(f"{words}: {said.err}")
    Path("fills.jsonl.unfinished").write_text('{"dtype": "float32"}')
    for name in ("fills.jsonl", "fills.jsonl.unfinished", "scores.tsv", "pairs.log", "run"):
        Path(name).rename(before / name)


def _resume(case: tuple[list[str], str, bytes]) -> str:
    words, name, data = case
    for one in Path("before").iterdir():
        old = Path(one.name)
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
        if name.split("/")[0].startswith(one.name.partition(".")[0]):
            shutil.copytree(one, old) if one.is_dir() else shutil.copy(one, old)
    Path(name).write_bytes(data)
    return judge(command(*words), " ".join(words) + repr(data))


def kinds() -> dict[str, Kind]:
    """Damaged outputs and run folders; the working directory is a :func:`campaign.place.place`."""
    leave()
    return {"leftovers": Kind(_leftovers(), _resume)}
