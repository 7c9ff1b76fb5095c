"""What plots must not get wrong, read off the figures before they are saved."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from anyorder.joints import product
from anyorder.joints.arnold_gokhale import arnold_gokhale
from anyorder.show import joint_plot
from anyorder.show.figure import FONT, new_figure, plain_log
from anyorder.tasks.joint import TextJoint
from joints.known_tables import conditionals_of


def text_joints(v: int = 30) -> dict[str, TextJoint]:
    """The likeliest pair, (25, 27), is of tokens that are rare alone."""
    p = torch.ones(v, v, dtype=torch.float64)
    p[25], p[:, 27] = 0.01, 0.01
    p[25, 27] = 2.0
    p = p / p.sum()
    words = SimpleNamespace(style="wordpiece", pieces=[f"w{i}" for i in range(v)])
    joints = {"ag": arnold_gokhale(*conditionals_of(p)), "mlm": product(p.sum(1).log(), p.sum(0).log())}
    return {name: TextJoint(joint, name, words) for name, joint in joints.items()}  # type: ignore[arg-type]  # stand-ins


@pytest.fixture
def drawn(monkeypatch):
    figures = []
    monkeypatch.setattr(joint_plot, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def test_a_heat_map_shows_the_best_pair_and_one_unit(drawn):
    joint_plot.heat_map(text_joints(), "heat.png", title="a ___ ___", tokens=6)
    (figure,) = drawn
    first = figure.axes[0]
    assert "w25" in [label.get_text() for label in first.get_yticklabels()]
    assert "w27" in [label.get_text() for label in first.get_xticklabels()]
    assert "%" not in first.get_title() + figure.axes[-1].get_ylabel()
    assert min(label.get_fontsize() for label in first.get_xticklabels()) >= FONT


def test_no_line_through_a_single_example_and_no_legend_over_the_data(drawn):
    records = [
        {"distance": d, "positions": [1, 2], "scores": {"mlm": {"p_nll": 4.0 + d + i}}}
        for d in range(4)
        for i in range(1 if d == 2 else 3)
    ]
    joint_plot.distance_plot(records, "distance.png", title="t")
    (figure,) = drawn
    axis = figure.axes[0]
    assert axis.get_legend() is None
    assert len(figure.legends) == 1
    line = axis.lines[-1]
    assert [bool(x != x) for x in line.get_ydata()] == [False, False, True, False]
    assert axis.get_xlabel()
    assert axis.get_ylabel()


def test_logarithmic_ticks_are_plain_numbers():
    figure, (axis,) = new_figure()
    axis.plot([1, 2], [0.3, 7.0])
    plain_log(axis, "y")
    figure.canvas.draw()
    labels = [label.get_text() for label in axis.get_yticklabels() if label.get_text()]
    assert "0.5" in labels
    assert all(float(label) > 0 for label in labels)
