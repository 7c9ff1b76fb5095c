"""The rows of Table 1: means, intervals, and ratios to mlm's."""

from __future__ import annotations

import json
import math

import pytest
import torch

from anyorder.metrics.pairwise import PairScore, summarise


def test_table_rows_are_means_with_intervals_around_them():
    generator = torch.Generator().manual_seed(1)
    values = torch.rand(200, 4, generator=generator).tolist()
    scores = {"mlm": [PairScore(*v) for v in values], "mrf": []}
    (row,) = summarise(scores, seed=3)
    mean = torch.tensor(values, dtype=torch.float64).mean(0)
    assert row.examples == 200
    assert row.u_ppl.value == pytest.approx(math.exp(mean[0] / 2))
    assert row.p_ppl.value == pytest.approx(math.exp(mean[1] / 2))
    assert row.a_kl.value == pytest.approx(float(mean[2]))
    assert row.g_kl.value == pytest.approx(float(mean[3]))
    # The bootstrap of a mean of 200 uniforms: about 1.96 · 0.289 / √200 = 0.040 on either side.
    for cell in (row.a_kl, row.g_kl):
        assert cell.low < cell.value < cell.high
        assert 0.03 < (cell.high - cell.low) / 2 < 0.05
    assert summarise(scores, seed=3) == [row]


def test_the_ratio_to_mlm_is_that_of_pairs_not_of_their_spread():
    """A method that is better by the same factor everywhere is so without doubt, however the examples differ."""
    nll = (10 * torch.rand(50, generator=torch.Generator().manual_seed(2), dtype=torch.float64)).tolist()
    scores = {
        "mlm": [PairScore(2 * x, x, 0.0, 0.0) for x in nll],
        "ag": [PairScore(2 * x - 2 * math.log(1.25), x - 2 * math.log(1.5), 0.0, 0.0) for x in nll],
    }
    mlm, ag = summarise(scores)
    assert mlm.p_ratio.value == mlm.p_ratio.low == mlm.p_ratio.high == 1
    for ratio, expected in ((ag.u_ratio, 1 / 1.25), (ag.p_ratio, 1 / 1.5)):
        for end in (ratio.value, ratio.low, ratio.high):
            assert end == pytest.approx(expected)
    assert ag.p_ppl.low < ag.p_ppl.value / 1.1
    (alone,) = summarise({"ag": scores["ag"]})
    assert math.isnan(alone.p_ratio.value)


def test_one_example_has_no_interval():
    (row,) = summarise({"mlm": [PairScore(2.0, 3.0, 0.5, math.nan)]})
    assert row.u_ppl.value == pytest.approx(math.e)
    assert math.isnan(row.u_ppl.low)
    assert f"{row.u_ppl:.2f}" == "2.72 (no interval from one)"
    out = json.loads(json.dumps(row.to_dict(), allow_nan=False))
    assert out["u_ppl"] == {"value": pytest.approx(math.e), "low": None, "high": None}
    assert out["g_kl"] is None


def test_scores_go_through_json_with_what_was_not_measured():
    written = json.dumps(PairScore(2.0, 3.0, math.nan, 0.5).to_dict(), allow_nan=False)
    back = PairScore.from_dict(json.loads(written))
    assert (back.u_nll, back.p_nll, back.g_kl) == (2.0, 3.0, 0.5)
    assert math.isnan(back.a_kl)
