"""Dealing molecules to batches: within the budget, level, and few batches."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atompack_torch.loading.samplers._dealing import deal, deal_within, fill_in_order, sorted_by

NO_LIMIT = 1 << 40
whole = st.integers(0, 60).map(float)
real = st.floats(0, 60, allow_subnormal=False)
costs_of_some = st.lists(whole, min_size=1, max_size=80) | st.lists(real, min_size=1, max_size=80)


def array(costs: Sequence[float]) -> np.ndarray:
    return np.array(costs, np.float64)


def heavy_tailed(n: int, seed: int = 0) -> np.ndarray:
    """Sizes from 5 to 500 atoms, most of them small."""
    drawn = 5 * (1 - np.random.default_rng(seed).random(n)) ** (-1 / 1.2)
    return np.clip(np.round(drawn), 5, 500)


def one_by_one(costs: Sequence[float], n_batches: int) -> list[float]:
    """The classical rule: the largest goes to the batch that has least. Returns their sums."""
    batches = [0.0] * n_batches
    for cost in sorted(costs, reverse=True):
        heapq.heapreplace(batches, batches[0] + cost)
    return batches


def fewest_one_by_one(costs: Sequence[float], budget: float) -> int:
    """How many batches the classical rule needs."""
    n_batches = 1
    while max(one_by_one(costs, n_batches)) > budget:
        n_batches += 1
    return n_batches


@given(st.lists(whole | real, min_size=1, max_size=300))
def test_sorted_by(values: list[float]) -> None:
    order = sorted_by(array(values))
    assert sorted(order.tolist()) == list(range(len(values)))
    found = array(values)[order]
    assert np.all(found[:-1] <= found[1:] * (1 + 1e-9) + 1e-300)
    if all(value == int(value) for value in values):
        assert order.tolist() == sorted(range(len(values)), key=values.__getitem__)


@given(costs_of_some, st.data())
def test_deal_uses_all_batches_and_keeps_the_number(
    costs: list[float], data: st.DataObject
) -> None:
    n_batches = data.draw(st.integers(1, len(costs)))
    most = data.draw(st.integers(-(-len(costs) // n_batches), len(costs) + 1))
    sizes = np.bincount(deal(array(costs), n_batches, most), minlength=n_batches)
    assert len(sizes) == n_batches
    assert sizes.min() >= 1
    assert sizes.max() <= most


@pytest.mark.parametrize("n_batches", [1, 2, 7, 100, 1000, 4000])
def test_deal_is_as_level_as_one_by_one(n_batches: int) -> None:
    """Even where whole rows are dealt immediately (few batches)."""
    costs = heavy_tailed(50_000)
    sums = np.bincount(deal(costs, n_batches, NO_LIMIT), costs)
    assert sums.sum() == costs.sum()
    assert sums.max() <= max(one_by_one(costs.tolist(), n_batches)) + costs.min()


def test_deal_keeps_the_number_of_many() -> None:
    """The batch without the large molecule may not take more than half of the others."""
    costs = np.ones(20_000)
    costs[11] = 5000
    assert np.bincount(deal(costs, 2, 10_000)).tolist() == [10_000, 10_000]
    assert np.bincount(deal(costs, 2, NO_LIMIT)).min() < 8000


@given(costs_of_some, st.floats(60, 400), st.integers(1, 90))
def test_deal_within_keeps_the_limits(costs: list[float], budget: float, most: int) -> None:
    batches, n_batches = deal_within(array(costs), budget, most)
    assert np.bincount(batches, array(costs)).max() <= budget
    sizes = np.bincount(batches)
    assert len(sizes) == n_batches
    assert sizes.min() >= 1
    assert sizes.max() <= most


@given(st.lists(st.integers(1, 60), min_size=1, max_size=60), st.integers(60, 300))
def test_deal_within_takes_few_batches(costs: list[int], budget: int) -> None:
    fewest = fewest_one_by_one(costs, budget)
    assert deal_within(array(costs), budget, NO_LIMIT)[1] <= fewest + 1 + fewest // 64


@pytest.mark.parametrize("budget", [600, 1024, 4096, 20_000])
def test_batches_are_full_and_level(budget: int) -> None:
    costs = heavy_tailed(1 << 16)
    batches, n_batches = deal_within(costs, budget, NO_LIMIT)
    sums = np.bincount(batches, costs)
    assert sums.max() <= budget
    if n_batches > 64:
        assert sums.mean() > 0.98 * budget
    assert sums.max() / sums.mean() < 1.01


def test_equal_costs_that_leave_room() -> None:
    """Where batches cannot be full, they are not too many either."""
    assert deal_within(np.full(1000, 0.6), 1.0, NO_LIMIT)[1] == 1000
    assert deal_within(np.full(1000, 0.5), 1.0, NO_LIMIT)[1] == 500
    assert deal_within(np.full(1000, 0.4), 1.0, NO_LIMIT)[1] <= 504
    assert deal_within(np.full(999, 10.0), 100.0, 4)[1] == 250


def test_molecules_without_cost_are_spread() -> None:
    costs = np.where(np.arange(10_000) % 2, 0.0, 20.0)
    batches, n_batches = deal_within(costs, 100.0, 64)
    sizes = np.bincount(batches)
    assert n_batches <= 1010
    assert sizes.max() <= 64
    batches, n_batches = deal_within(np.zeros(100), 1.0, 30)
    assert n_batches == 4
    assert np.bincount(batches).tolist() == [25] * 4
    assert deal_within(np.zeros(100), 1.0, NO_LIMIT)[1] == 1


@given(costs_of_some, st.floats(10, 200), st.integers(1, 90))
def test_fill_in_order_takes_what_fits(costs: list[float], budget: float, most: int) -> None:
    borders = fill_in_order(array(costs), budget, most).tolist()
    expected, spent, size = [0], 0.0, 0
    for i, cost in enumerate(costs):
        if i and (spent + cost > budget or size == most):
            expected.append(i)
            spent, size = 0.0, 0
        spent, size = spent + cost, size + 1
    assert borders == [*expected, len(costs)]
