from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anyorder.chains.symmetry import representatives
from anyorder.chains.worlds import (
    WORLD_NAMES,
    grid_edges,
    make_world,
    parse_blocks,
    parse_numbers,
    shift_modes,
)
from anyorder.errors import AnyorderError


@pytest.mark.parametrize("name", WORLD_NAMES)
def test_every_world_is_a_distribution_and_independent_at_coupling_zero(name: str) -> None:
    p = make_world(name, n=3, coupling=0.8, vocab=3).table.log_joint.exp().numpy()
    assert p.sum() == pytest.approx(1.0)
    assert (p > 0).all()
    p = make_world(name, n=3, coupling=0.0, vocab=3).table.log_joint.exp().numpy()
    product = np.einsum("a,b,c->abc", p.sum((1, 2)), p.sum((0, 2)), p.sum((0, 1)))
    np.testing.assert_allclose(p, product, atol=1e-12)


def test_a_seed_gives_the_same_world() -> None:
    first, again, other = (make_world("random", n=3, seed=s).table.log_joint for s in (1, 1, 2))
    assert (first == again).all()
    assert not (first == other).all()


def test_grid_edges_of_six_are_two_rows_of_three() -> None:
    assert sorted(grid_edges(6)) == [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]


def test_shifted_modes_stutter_where_they_are_mixed() -> None:
    first, second = shift_modes(4).tolist()
    assert all(second[i + 1] == first[i] for i in range(3))
    assert len(set(first)) == 4


def test_worlds_from_files(tmp_path: Path) -> None:
    p = np.array([[0.1, 0.2], [0.3, 0.4]])
    np.save(tmp_path / "w.npy", p)
    (tmp_path / "w.json").write_text(json.dumps(p.tolist()))
    for name in ("w.npy", "w.json"):
        np.testing.assert_allclose(make_world(str(tmp_path / name)).table.log_joint.exp().numpy(), p)


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ([[0.5, -0.1], [0.3, 0.3]], "negative"),
        ([[0.5, 0.5], [0.3, 0.3]], "sums to 1.6"),
        ([[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]], "shape"),
        ("words", "not a table of numbers"),
        ([[0.5], [0.5, 0.1]], "not a table of numbers"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, table: object, what: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(table))
    with pytest.raises(AnyorderError, match=what):
        make_world(str(path))


@pytest.mark.parametrize("damage", [lambda data: data[:5], lambda data: data.replace(b"}", b"("), lambda _: b""])
def test_damaged_tables_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "bad.npy"
    np.save(path, np.full((2, 2), 0.25))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(AnyorderError, match=r"is not a table of numbers.*write it again") as refusal:
        make_world(str(path))
    assert "\n" not in str(refusal.value)


def test_bad_names_and_sizes() -> None:
    with pytest.raises(AnyorderError, match="did you mean 'ising-clique'"):
        make_world("ising-click")
    with pytest.raises(AnyorderError, match="no such world file"):
        make_world("missing.npy")
    with pytest.raises(AnyorderError, match="are free: use fewer positions"):
        make_world("ising-chain", n=50)
    with pytest.raises(AnyorderError, match="are free: use fewer positions"):
        make_world("random", n=100_000, vocab=5)
    with pytest.raises(AnyorderError, match="at least one position"):
        make_world("random", n=0)
    with pytest.raises(AnyorderError, match="at least two words"):
        make_world("random", vocab=1)
    with pytest.raises(AnyorderError, match="float64"):
        make_world("ising-clique", n=6, coupling=100.0)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.5", [0.5]),
        ("0.2,0.4", [0.2, 0.4]),
        ("0.2…2.0", [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]),
        ("0.2..2.0", [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0]),
        ("0:1:3,-2", [0.0, 0.5, 1.0, -2.0]),
    ],
)
def test_couplings(text: str, numbers: list[float]) -> None:
    assert parse_numbers(text) == pytest.approx(numbers)


@pytest.mark.parametrize("text", ["", "a", "1:2:x", "1:2:1", "nan", "1..2..3..4", "inf"])
def test_bad_couplings(text: str) -> None:
    with pytest.raises(AnyorderError, match="coupling"):
        parse_numbers(text)


def test_blocks() -> None:
    assert parse_blocks("3,1..2", 4) == [1, 2, 3]
    for bad in ("5", "0", "x", "1,,2"):
        with pytest.raises(AnyorderError, match="block"):
            parse_blocks(bad, 4)


def test_representatives_are_one_of_each_orbit() -> None:
    clique = make_world("ising-clique", n=5, coupling=0.3).table
    # Only the number of ups matters, and ups and downs are alike: 0, 1 or 2 of 5.
    assert sorted(min(s, 5 - s) for s in clique.states[representatives(clique)].sum(1).tolist()) == [0, 1, 2]
    random = make_world("random", n=4).table
    assert len(representatives(random)) == 16
