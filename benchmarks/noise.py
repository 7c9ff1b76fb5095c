"""How noisy a training step is: the gradient of 16 rows under each law of masks and each way to weigh texts.

python benchmarks/noise.py --data-dir FOLDER [--recipe recipes/bundled.yaml] [--init MODEL] [--batches 24] [--json]

Noise is E|g|² of a batch, signal |E g|², estimated without bias from all pairs of batches, both over the hidden
matrices and with their standard errors. Two laws of masks with `bound` have the same E g, so that their noise compares
as it is; ways to weigh texts differ in the scale of their gradients, which Muon and AdamW divide out, so compare noise
over signal. `counts` is E|g_K|² of the mean loss over K masked tokens of one whole row. FOLDER holds the files of
docs/data.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch
from common import machine

from anyorder.training.objective import normaliser
from anyorder.training.recipe import Recipe, load_recipe
from anyorder.training.trainer import _Run

WAYS = [
    ("uniform-count", "sequence", 0.0),
    ("uniform-count", "bound", 0.0),
    ("root-count", "bound", 0.0),
    ("uniform-count", "sequence", 1.0),
    ("uniform-count", "bound", 1.0),
]
COUNTS = (1, 2, 4, 8, 16, 32, 64, 124)
ROWS = 16


def gradients(recipe: Recipe, data_dir: Path, batches: int, rows: int) -> torch.Tensor:
    """One gradient per batch of ``rows`` rows, [batches, P]."""
    run = _Run(recipe, data_dir)
    matrices = [p for name, p in run.model.named_parameters() if p.ndim == 2 and ".layers." in name]
    found = []
    for i in range(batches):
        batch = run.batches.training(range(i * rows, (i + 1) * rows), recipe.objective.ordered)
        loss = run._loss(batch)[0] / normaliser(batch["predicted"], batch["maskable"], recipe.objective.normalise)
        found.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, matrices)]))
    return torch.stack(found)


def noise_and_signal(each: torch.Tensor) -> dict[str, list[float]]:
    """(value, standard error) of E|g|² and of |E g|², a U-statistic over pairs, from gradients [n, P]."""
    n, products = len(each), each @ each.T
    squares = products.diagonal()
    others = (products.sum(1) - squares) / (n - 1)  # with g_i held fixed, the mean over its pairs
    error = n**-0.5
    return {
        "noise": [float(squares.mean()), float(squares.std() * error)],
        "signal": [float(others.mean()), float(2 * others.std() * error)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--recipe", type=Path, default=Path("recipes/bundled.yaml"))
    parser.add_argument("--init", default="src/anyorder/models/assets/mini")
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:

        def recipe(*settings: str) -> Recipe:
            return load_recipe(given.recipe, [f"output={folder}", f"init={given.init}", *settings])

        for prior, normalise, ordered in WAYS:
            chosen = (f"objective.prior={prior}", f"objective.normalise={normalise}", f"objective.ordered={ordered}")
            found = noise_and_signal(gradients(recipe(*chosen), given.data_dir, given.batches, ROWS))
            rows.append({"prior": prior, "normalise": normalise, "ordered": ordered, **found})
        for count in COUNTS:
            chosen = (f"objective.prior=count:{count}", "objective.normalise=sequence", "objective.ordered=0")
            found = noise_and_signal(gradients(recipe(*chosen), given.data_dir, 2 * given.batches, 1))
            rows.append({"count": count, "noise": found["noise"]})
    if given.json:
        print(json.dumps({"rows": rows, "machine": machine()}))
        return
    for row in rows:
        print("  ".join(f"{key} {_shown(value)}" for key, value in row.items()))


def _shown(value: object) -> str:
    return "{:.3g} ± {:.2g}".format(*value) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    main()
