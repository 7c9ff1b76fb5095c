"""Mixtures: the shares that were asked for, every block of a file before any comes again, and the same after a kill."""

from collections import Counter

import pytest

from anyorder.errors import AnyorderError
from anyorder.training.batches import _share
from anyorder.training.mixture import Mixture

SIZES, WEIGHTS = (7, 50, 300), (0.25, 0.125, 0.625)


def files_of(blocks):
    return [0 if b < 7 else 1 if b < 57 else 2 for b in blocks]


def test_shares_hold_from_the_start():
    mixture = Mixture(SIZES, WEIGHTS, seed=3)
    for n in (8, 80, 1000, 4321):
        counts = Counter(files_of(mixture[i] for i in range(n)))
        for file, weight in enumerate(WEIGHTS):
            assert abs(counts[file] - weight * n) <= len(WEIGHTS)


def test_each_file_is_read_through_before_it_comes_again():
    mixture = Mixture(SIZES, WEIGHTS, seed=0)
    seen = {0: [], 1: [], 2: []}
    for i in range(4000):
        seen[files_of([mixture[i]])[0]].append(mixture[i])
    for file, size in enumerate(SIZES):
        epochs = [seen[file][k : k + size] for k in range(0, len(seen[file]) - size + 1, size)]
        assert len(epochs) > 1
        for epoch in epochs:
            assert len(set(epoch)) == size
        assert epochs[0] != epochs[1]  # shuffled again


def test_the_stream_has_no_memory():
    mixture, other = (Mixture(SIZES, WEIGHTS, seed=seed) for seed in (1, 2))
    forwards = [mixture[i] for i in range(500)]
    again = Mixture(SIZES, WEIGHTS, seed=1)
    assert [again[i] for i in reversed(range(500))] == forwards[::-1]
    # One that has read nothing before; at some places only, for each takes milliseconds to make.
    assert [Mixture(SIZES, WEIGHTS, seed=1)[i] for i in range(0, 500, 17)] == forwards[::17]
    assert [other[i] for i in range(500)] != forwards


def test_a_share_of_the_blocks_is_that_share_of_each_file():
    """Files that take turns: of two, every other block of all is every block of one."""
    for weights, share in (((0.5, 0.5), 0.5), ((0.25, 0.25, 0.25, 0.25), 0.25), ((0.6, 0.4), 0.2)):
        mixture = Mixture([100] * len(weights), weights, seed=0)
        chosen, every = Counter(), Counter()
        for first in range(0, 2000, 8):
            turns = [mixture.turn(i) for i in range(first, first + 8)]
            rows = _share([number for _, number in turns], share)
            every.update(file for file, _ in turns)
            chosen.update(turns[row][0] for row in rows)
        for file, count in every.items():
            assert abs(chosen[file] - share * count) < 1


def test_without_weights_a_block_is_counted_by_its_number():
    mixture = Mixture(SIZES, (), seed=0)
    assert [mixture.turn(i) for i in (0, 999, 1000, 54321)] == [(0, 0), (0, 999), (0, 1000), (0, 54321)]


def test_without_weights_every_block_comes_once_per_epoch():
    mixture = Mixture(SIZES, (), seed=0)
    for epoch in range(3):
        assert sorted(mixture[357 * epoch + i] for i in range(357)) == list(range(357))


@pytest.mark.parametrize(
    ("sizes", "weights", "message"),
    [
        ((3, 4), (1.0,), r"1 share for 2"),
        ((3, 4), (1.0, -0.5), "negative"),
        ((3, 4), (0.0, 0.0), "above 0"),
        ((3, 0), (0.5, 0.5), "file 2 .* no block"),
    ],
)
def test_weights_that_mean_nothing_are_refused(sizes, weights, message):
    with pytest.raises(AnyorderError, match=message):
        Mixture(sizes, weights, seed=0)
