"""Shares of a table's rows: all of them, in order, one torch thread each, and no trace left behind."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from anyorder.joints import threads as module
from anyorder.joints.arnold_gokhale import fit
from anyorder.joints.threads import over_shares


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_each_thread_has_its_rows_and_torch_to_itself(monkeypatch):
    monkeypatch.setattr(module, "_LARGE", 1)
    together = threading.Barrier(3)

    def look(rows: slice) -> tuple[int, int, int]:
        together.wait(timeout=60)  # three at once, or this breaks
        return rows.start, rows.stop, torch.get_num_threads()

    assert over_shares(look, torch.zeros(10, 2)) == [(0, 3, 1), (3, 6, 1), (6, 10, 1)]
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as newcomer:
        assert newcomer.submit(torch.get_num_threads).result() == 3


def test_a_small_table_stays_whole():
    assert over_shares(lambda rows: rows, torch.zeros(10, 2)) == [slice(0, 10)]


@pytest.mark.usefixtures("three_threads")
def test_an_error_in_a_share_arrives(monkeypatch):
    monkeypatch.setattr(module, "_LARGE", 1)
    with pytest.raises(ZeroDivisionError):
        over_shares(lambda rows: 1 // rows.start, torch.zeros(10, 2))


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("shape", [(2048, 2049), (2, 2**21)])
def test_a_step_of_arnold_gokhale_is_that_of_the_whole_table(shape):
    c = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        found = fit(c + 0, tolerance=0, max_iterations=2, accelerate=False)
    assert torch.get_num_threads() == 3
    mu_a, mu_b = (torch.full((n,), 1 / n, dtype=torch.float64) for n in shape)
    for _ in range(2):
        p = c.double() / (1 / mu_a[:, None] + 1 / mu_b)
        p = p / p.sum()
        mu_a, mu_b = p.sum(1), p.sum(0)
    for log_marginal, expected in zip(found.log_marginals, (mu_a, mu_b), strict=True):
        torch.testing.assert_close(log_marginal.exp(), expected, rtol=1e-5, atol=0)
