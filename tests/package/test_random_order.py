"""Computed orders: permutations, the same everywhere, and as random as drawn ones."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atompack_torch import random_order
from atompack_torch.random_order import RandomOrder, mix, permutation

TABLE = random_order._TABLE
keys = st.integers(0, 2**64 - 1)


def whole(key: int, n: int) -> list[int]:
    return RandomOrder(key, n).at(np.arange(n)).tolist()


@pytest.mark.parametrize("table", [0, TABLE])
@given(key=keys, n=st.integers(1, 400))
def test_an_order_has_every_number_once(table: int, key: int, n: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_order, "_TABLE", table)
        assert sorted(whole(key, n)) == list(range(n))


@pytest.mark.parametrize("n", [TABLE, TABLE + 1, 129**2 - 1, 129**2, 129**2 + 1, 100_003])
def test_any_part_is_known_without_the_rest(n: int) -> None:
    order, numbers = RandomOrder(3, n), whole(3, n)
    assert sorted(numbers) == list(range(n))
    positions = np.random.default_rng(0).integers(0, n, 500)
    assert order.at(positions).tolist() == np.array(numbers)[positions].tolist()
    assert order.between(n - 5, n).tolist() == numbers[-5:]


def test_orders_are_the_same_everywhere() -> None:
    """A change of these numbers breaks every checkpoint from the middle of an epoch."""
    assert whole(mix(0, 0), 8) == [6, 0, 3, 4, 7, 1, 2, 5]
    assert RandomOrder(mix(0, 0), 10**8).at(np.arange(4)).tolist() == [
        74126924,
        25515719,
        50713245,
        14096082,
    ]
    assert permutation(7, 6).tolist() == [2, 0, 1, 5, 4, 3]


def test_key_and_order_of_the_numbers_behind_it_matter() -> None:
    assert len({mix(a, b) for a in range(-3, 50) for b in range(50)}) == 53 * 50
    assert mix(1, 2) != mix(2, 1)


def chi_square(counts: np.ndarray) -> float:
    """In standard deviations from what drawn orders give."""
    expected = counts.mean()
    square = ((counts - expected) ** 2 / expected).sum()
    freedom = (counts.shape[0] - 1) * (counts.shape[1] - 1 if counts.ndim == 2 else 1)
    return float((square - freedom) / np.sqrt(2 * freedom))


def test_all_orders_of_five_are_as_frequent() -> None:
    number = {order: i for i, order in enumerate(permutations(range(5)))}
    counts = np.zeros(len(number))
    for epoch in range(12_000):
        counts[number[tuple(whole(mix(0, epoch), 5))]] += 1
    assert abs(chi_square(counts)) < 4


@pytest.mark.parametrize("n", [30, 97, 1000])
@pytest.mark.parametrize("table", [0, TABLE])
def test_every_number_is_as_often_everywhere(
    monkeypatch: pytest.MonkeyPatch, n: int, table: int
) -> None:
    """Also those of consecutive epochs, and where the network is small."""
    monkeypatch.setattr(random_order, "_TABLE", table)
    orders = np.array([whole(mix(0, epoch), n) for epoch in range(2000)])
    cells = np.minimum(np.arange(n) * 16 // n, 15)
    counts = np.zeros((16, 16))
    np.add.at(counts, (np.broadcast_to(cells, orders.shape), cells[orders]), 1)
    sizes = np.bincount(cells)
    counts /= np.outer(sizes, sizes) / sizes.mean() ** 2
    assert abs(chi_square(counts)) < 5


@pytest.mark.parametrize("n", [97, 1000, 100_003])
@pytest.mark.parametrize("distance", [1, 2, 317])
def test_neighbours_are_not_related(monkeypatch: pytest.MonkeyPatch, n: int, distance: int) -> None:
    monkeypatch.setattr(random_order, "_TABLE", 0)
    orders = np.array([whole(epoch, n) for epoch in range(max(200_000 // n, 1))])
    shift = distance % n
    left, right = orders[:, :-shift].ravel(), orders[:, shift:].ravel()
    assert abs(np.corrcoef(left, right)[0, 1]) < 4 / np.sqrt(len(left)) + 1 / n
    # How far a step goes, cyclically: every distance as often.
    steps = np.bincount((right - left) % n * 8 // n, minlength=8)
    assert abs(chi_square(steps)) < 5


def test_many_are_shuffled_without_being_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    few = random_order.shuffled(3, 50)
    expected = torch.randperm(50, generator=torch.Generator().manual_seed(3))
    assert few.between(0, 50).tolist() == expected.tolist()
    monkeypatch.setattr(random_order, "_DRAWN", 40)
    many = random_order.shuffled(3, 50)
    assert isinstance(many, RandomOrder)
    assert sorted(many.between(0, 50).tolist()) == list(range(50))
