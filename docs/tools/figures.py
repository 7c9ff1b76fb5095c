"""Draw the figures of docs/how.md, from the code they explain: ``python docs/tools/figures.py``."""

from __future__ import annotations

from pathlib import Path

import torch

from anyorder.joints import arnold_gokhale, mrf, product
from anyorder.masking import log_count, parse_prior
from anyorder.show.figure import FONT, new_figure, save_figure

FOLDER = Path(__file__).parents[1] / "figures"
FIRST, SECOND = ("New", "Los", "San"), ("York", "Angeles", "Francisco")
# Three cities, and a little of everything else: a joint that no product comes near to.
CITIES = torch.tensor([[0.46, 0.01, 0.01], [0.01, 0.28, 0.01], [0.01, 0.01, 0.20]], dtype=torch.float64)


def priors(path: Path, tokens: int = 20) -> None:
    """How many of a text's tokens are hidden: BERT's habit and u-PMLM's (Liao et al., equations 4 and 5)."""
    figure, axes = new_figure(2, width=4.4, height=2.8)
    habits = {"BERT: 15 % of the tokens": "fixed:0.15", "u-PMLM: every count alike": "uniform-count"}
    for axis, (name, spec) in zip(axes, habits.items(), strict=True):
        chance = log_count(parse_prior(spec), tokens).exp()
        axis.bar(range(tokens + 1), chance.tolist(), color="#4477aa")
        axis.set(xlabel=f"tokens hidden, of {tokens}", ylim=(0, 0.27))
        axis.set_title(name, fontsize=10)
    axes[0].set_ylabel("share of training texts")
    save_figure(figure, path)


def joints(path: Path) -> None:
    """Two blanks: the true joint, what a product makes of it, and what is derived from the conditionals."""
    log_p = CITIES.log()
    first_given_second = log_p.log_softmax(0).T.contiguous()  # row: the token conditioned on
    second_given_first = log_p.log_softmax(1)
    marginals = CITIES.sum(1).log(), CITIES.sum(0).log()
    panels = {
        "the truth": CITIES,
        "each blank alone (mlm)": product(*marginals).rows(slice(None)).exp(),
        "Markov random field (mrf)": mrf(first_given_second, second_given_first).rows(slice(None)).exp(),
        "Arnold–Gokhale (ag)": arnold_gokhale(first_given_second, second_given_first).rows(slice(None)).exp(),
    }
    figure, axes = new_figure(len(panels), width=2.9, height=3.0)
    for axis, (name, p) in zip(axes, panels.items(), strict=True):
        axis.grid(visible=False)
        axis.imshow(p.numpy(), cmap="viridis", vmin=0, vmax=0.5)
        for i, row in enumerate(p.tolist()):
            for j, value in enumerate(row):
                axis.text(j, i, f"{value:.2f}", ha="center", va="center", color="black" if value > 0.3 else "white")
        axis.set_xticks(range(3), SECOND, fontsize=FONT)
        axis.set_yticks(range(3), FIRST, fontsize=FONT)
        axis.set_title(name, fontsize=10)
    save_figure(figure, path)


FIGURES = {"how-priors.png": priors, "how-joints.png": joints}

if __name__ == "__main__":
    for name, draw in FIGURES.items():
        draw(FOLDER / name)
