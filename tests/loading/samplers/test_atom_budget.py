"""AtomBudgetBatchSampler: budgets, level steps, what does not fit, what is planned when."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from itertools import chain, islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from atompack_torch import AtomBudgetBatchSampler
from atompack_torch.loading.samplers import _windows
from atompack_torch.loading.samplers._dealing import deal
from atompack_torch.loading.samplers._windows import Plan

SMALL_WINDOW = 64


def heavy_tailed(n: int, seed: int = 0) -> np.ndarray:
    """Sizes from 5 to 500 atoms, most of them small."""
    drawn = 5 * (1 - np.random.default_rng(seed).random(n)) ** (-1 / 1.2)
    return np.clip(np.round(drawn), 5, 500).astype(np.int64)


def all_ranks(n_ranks: int, *arguments: Any, **options: Any) -> list[list[list[int]]]:
    return [
        list(AtomBudgetBatchSampler(*arguments, num_replicas=n_ranks, rank=rank, **options))
        for rank in range(n_ranks)
    ]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_windows, "_WINDOW", SMALL_WINDOW)
    monkeypatch.setattr(_windows, "_LARGEST_WINDOW", SMALL_WINDOW)


def firsts_of(sizes: list[int], budget: int, most: int | None) -> list[int]:
    """The first molecules of batches that are filled one after another."""
    firsts: list[int] = []
    spent = 0
    for i, size in enumerate(sizes):
        if not firsts or spent + size > budget or i - firsts[-1] == most:
            firsts, spent = [*firsts, i], 0
        spent += size
    return firsts


@given(
    sizes=st.lists(st.integers(0, 30), max_size=200),
    budget=st.integers(1, 80),
    most=st.none() | st.integers(1, 12),
    shuffle=st.booleans(),
    window=st.sampled_from([16, 64, 1 << 17]),
)
def test_batches_keep_the_limits(
    sizes: list[int], budget: int, most: int | None, shuffle: bool, window: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of molecules over the budget
        patch.setattr(_windows, "_WINDOW", window)
        sampler = AtomBudgetBatchSampler(sizes, budget, max_molecules=most, shuffle=shuffle)
        batches = list(sampler)
        assert len(sampler) == len(batches)
    assert Counter(chain.from_iterable(batches)) == Counter(range(len(sizes)))
    for batch in batches:
        assert all(type(number) is int for number in batch)
        assert 1 <= len(batch) <= (most or len(batch))
        assert sum(sizes[i] for i in batch) <= budget or len(batch) == 1
    if not shuffle:
        assert list(chain.from_iterable(batches)) == list(range(len(sizes)))
        if window > len(sizes):  # each takes what fits
            assert [batch[0] for batch in batches] == firsts_of(sizes, budget, most)


@pytest.mark.parametrize("n_ranks", [1, 8, 32])
def test_steps_are_level_and_batches_full(n_ranks: int) -> None:
    sizes = heavy_tailed(100_000)
    ranks = all_ranks(n_ranks, sizes, 4096)
    steps = np.array([[sizes[batch].sum() for batch in batches] for batches in ranks])
    assert np.mean(steps.max(0) / steps.mean(0)) < 1.005
    assert steps[:, :-1].mean() > 0.99 * 4096
    assert steps.max() <= 4096


def test_few_steps_are_level_too() -> None:
    """The last step is dealt again: half a batch for each rank rather than a whole one for some."""
    sizes = heavy_tailed(3000)
    ranks = all_ranks(8, sizes, 2048)
    steps = np.array([[sizes[batch].sum() for batch in batches] for batches in ranks])
    assert steps.shape[1] < 8
    assert np.mean(steps.max(0) / steps.mean(0)) < 1.03


def test_molecules_of_a_batch_are_drawn_from_everywhere() -> None:
    """Large and small ones, from all over the data."""
    sizes = np.sort(heavy_tailed(20_000))
    batches = list(AtomBudgetBatchSampler(sizes, 4096))
    means = np.array([np.mean(batch) for batch in batches])
    assert abs(means.mean() - 10_000) < 100
    assert means.std() < 1000
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.3


def test_batches_come_in_any_order() -> None:
    """Not those with the largest molecules first, as they are dealt."""
    sizes = heavy_tailed(20_000)
    largest = np.array([sizes[batch].max() for batch in AtomBudgetBatchSampler(sizes, 1500)])
    assert len(largest) > 200
    assert abs(np.corrcoef(largest, np.arange(len(largest)))[0, 1]) < 0.2
    batch = next(iter(AtomBudgetBatchSampler(sizes, 1500)))
    assert abs(np.corrcoef(sizes[batch], np.arange(len(batch)))[0, 1]) < 0.5


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("n_ranks", [2, 5, 16])
@pytest.mark.parametrize("n", [16, 17, 100, 333, 334, 335])
def test_the_last_batches_are_split(n_ranks: int, n: int) -> None:
    sizes = heavy_tailed(n)
    ranks = all_ranks(n_ranks, sizes, 600)
    assert len({len(batches) for batches in ranks}) == 1
    assert sorted(chain.from_iterable(chain.from_iterable(ranks))) == list(range(n))
    for batch in chain.from_iterable(ranks):
        assert batch
        assert sizes[batch].sum() <= 600


def test_splitting_reaches_back_over_several_steps() -> None:
    """Two molecules a batch: one batch too many for 16 ranks takes half of the step before."""
    sampler = AtomBudgetBatchSampler(np.ones(2 * 49), 2)
    assert len(list(sampler)) == 49
    ranks = all_ranks(16, np.ones(2 * 49), 2)
    assert {len(batches) for batches in ranks} == {4}
    steps = [[len(batches[step]) for batches in ranks] for step in range(4)]
    assert [sum(step) for step in steps] == [32, 32, 18, 16]
    assert sorted(chain.from_iterable(chain.from_iterable(ranks))) == list(range(98))
    # A place between two steps that were cut again lies inside of a batch.
    samplers = [AtomBudgetBatchSampler(np.ones(98), 2, num_replicas=16, rank=r) for r in range(16)]
    used = list(chain.from_iterable(chain.from_iterable(list(islice(s, 3)) for s in samplers)))
    states = [sampler.state_dict() for sampler in samplers]
    assert all(state == states[0] for state in states)
    for rank_count in (1, 3):
        rest = []
        for rank in range(rank_count):
            sampler = AtomBudgetBatchSampler(np.ones(98), 2, num_replicas=rank_count, rank=rank)
            sampler.load_state_dict(states[0])
            rest += chain.from_iterable(sampler)
        assert sorted(used + rest) == list(range(98))


def test_batches_are_split_one_by_one_where_dealing_anew_fails() -> None:
    """Eight full batches and nine ranks: the rule that levels them would go over the budget."""
    sizes = np.array([3, 3] * 4 + [2, 2, 2] * 4)
    dealt = np.bincount(deal(sizes.astype(np.float64), 9, 20), sizes)
    assert dealt.max() > 6
    assert len(list(AtomBudgetBatchSampler(sizes, 6, shuffle=False))) == 8
    batches = [batch for (batch,) in all_ranks(9, sizes, 6, shuffle=False)]
    assert sorted(chain.from_iterable(batches)) == list(range(len(sizes)))
    assert max(sizes[batch].sum() for batch in batches) == 6
    assert min(map(len, batches)) >= 1
    batches = [batch for (batch,) in all_ranks(19, sizes, 6, shuffle=False)]
    assert sorted(map(len, batches)) == [1] * 18 + [2]


def test_too_few_molecules_for_the_ranks() -> None:
    with pytest.raises(ValueError, match="3 molecules, 2 batches, cannot be split evenly among 4"):
        all_ranks(4, [1, 2, 2], 4)
    singles = np.full(9, 10)
    with pytest.raises(ValueError, match="use pad=True or drop_last=True"):
        all_ranks(8, singles, 10)
    assert [len(batches) for batches in all_ranks(8, singles, 10, drop_last=True)] == [1] * 8
    assert [len(batches) for batches in all_ranks(8, singles, 10, pad=True)] == [2] * 8
    assert all_ranks(4, [1, 2, 2], 4, drop_last=True) == [[]] * 4
    padded = list(chain.from_iterable(all_ranks(4, [1, 2, 2], 4, pad=True)))
    assert len(padded) == 4
    assert Counter(map(tuple, padded)).most_common() == [
        (batch, 2) for batch, _ in Counter(map(tuple, padded)).most_common()
    ]


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_nothing_and_one(n_ranks: int) -> None:
    assert all_ranks(n_ranks, [], 10) == [[]] * n_ranks
    assert len(AtomBudgetBatchSampler([], 10, num_replicas=n_ranks, rank=0)) == 0
    assert list(AtomBudgetBatchSampler([7], 10)) == [[0]]
    assert list(AtomBudgetBatchSampler(torch.tensor([0]), 10, pad=True)) == [[0]]
    assert all_ranks(3, [7], 10, pad=True) == [[[0]]] * 3


def test_molecules_above_the_budget() -> None:
    sizes = np.array([5, 200, 5, 101, 5, 100])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sampler = AtomBudgetBatchSampler(sizes, 100)
        batches = list(sampler) + list(sampler)
    assert len(caught) == 1
    assert "2 of 6 molecules cost more than the budget" in str(caught[0].message)
    assert "the largest is molecule 1 with 200" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert sorted(map(sorted, batches[: len(batches) // 2])) == [[0, 2, 4], [1], [3], [5]]
    with pytest.raises(ValueError, match="2 of 6 molecules cost more than the budget of 100"):
        AtomBudgetBatchSampler(sizes, 100, oversized="error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AtomBudgetBatchSampler(sizes, 200, oversized="error")
    with pytest.warns(UserWarning, match="6 of 6"):
        assert len(AtomBudgetBatchSampler(sizes, 2)) == 6
    with pytest.warns(UserWarning, match="2 of 6"):
        stored = AtomBudgetBatchSampler(sizes, 100, shuffle=False)
    assert list(stored) == [[0], [1], [2], [3], [4], [5]]


def test_other_costs() -> None:
    sizes, edges = np.full(100, 10), np.linspace(0.5, 2, 100)
    batches = list(AtomBudgetBatchSampler(sizes, 20.0, costs=edges))
    assert max(edges[batch].sum() for batch in batches) <= 20.0
    assert len(batches) == 7
    assert list(AtomBudgetBatchSampler(100, 20.0, costs=torch.from_numpy(edges))) == batches
    free = list(AtomBudgetBatchSampler(100, 20.0, costs=np.zeros(100), max_molecules=30))
    assert sorted(map(len, free)) == [25] * 4
    half_free = np.where(np.arange(10_000) % 2, 0.0, 20.0)
    assert len(list(AtomBudgetBatchSampler(10_000, 100.0, costs=half_free))) <= 1010
    for cost, most, n_batches in ((0.6, None, 1000), (0.5, None, 500), (0.1, 4, 250)):
        equal = np.full(1000, cost)
        assert len(AtomBudgetBatchSampler(1000, 1.0, costs=equal, max_molecules=most)) == n_batches


def test_what_it_takes() -> None:
    sizes = heavy_tailed(50)
    expected = list(AtomBudgetBatchSampler(sizes, 600))
    with_sizes = SimpleNamespace(n_atoms=torch.from_numpy(sizes))
    others = (sizes.tolist(), torch.from_numpy(sizes), sizes.astype(np.float32), with_sizes)
    for source in (*others, sizes.astype(np.uint16), torch.from_numpy(sizes).bfloat16()):
        if not isinstance(source, torch.Tensor) or source.dtype != torch.bfloat16:
            assert list(AtomBudgetBatchSampler(source, 600)) == expected
        assert len(list(AtomBudgetBatchSampler(source, 600))) >= 1
    with pytest.raises(TypeError, match="a count alone does not tell the atoms"):
        AtomBudgetBatchSampler(50, 600)
    with pytest.raises(TypeError, match="n_atoms: expected numbers, got"):
        AtomBudgetBatchSampler(["a"], 600)
    with pytest.raises(TypeError, match="n_atoms: expected numbers, got bool"):
        AtomBudgetBatchSampler(sizes > 6, 600)
    with pytest.raises(ValueError, match="one number a molecule"):
        AtomBudgetBatchSampler(sizes.reshape(5, 10), 600)
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="costs: expected finite numbers of at least 0"):
            AtomBudgetBatchSampler(2, 600, costs=[1.0, wrong])
    with pytest.raises(ValueError, match="costs: expected one for each of 50 molecules, got 49"):
        AtomBudgetBatchSampler(sizes, 600, costs=sizes[1:])
    for wrong in (0, -5, np.nan, np.inf):
        with pytest.raises(ValueError, match="max_atoms: expected a "):
            AtomBudgetBatchSampler(sizes, wrong)
    with pytest.raises(ValueError, match="max_molecules: expected at least 1, got 0"):
        AtomBudgetBatchSampler(sizes, 600, max_molecules=0)
    with pytest.raises(ValueError, match="oversized: expected one of alone, error, got 'drop'"):
        AtomBudgetBatchSampler(sizes, 600, oversized="drop")  # type: ignore[arg-type]


def test_states_of_other_budgets_or_sizes_are_refused() -> None:
    sizes = heavy_tailed(500)
    state = AtomBudgetBatchSampler(sizes, 600).state_dict()
    AtomBudgetBatchSampler(sizes.astype(np.int32), 600.0).load_state_dict(state)
    with pytest.raises(ValueError, match="expected max_atoms=700, got 600"):
        AtomBudgetBatchSampler(sizes, 700).load_state_dict(state)
    with pytest.raises(ValueError, match="expected max_molecules=9, got None"):
        AtomBudgetBatchSampler(sizes, 600, max_molecules=9).load_state_dict(state)
    changed = sizes.copy()
    changed[400] += 1
    with pytest.raises(ValueError, match="expected costs="):
        AtomBudgetBatchSampler(changed, 600).load_state_dict(state)
    many = np.arange(70_000) % 100  # the same numbers in a different order
    state_of_many = AtomBudgetBatchSampler(many, 600).state_dict()
    with pytest.raises(ValueError, match="expected costs="):
        AtomBudgetBatchSampler(many[::-1], 600).load_state_dict(state_of_many)
    broken = AtomBudgetBatchSampler(sizes, 600)
    broken.load_state_dict({**state, "position": 10_000})
    with pytest.raises(ValueError, match="no batch 10000 in window 0"):
        list(broken)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("n_ranks", [1, 2])
def test_only_the_windows_at_hand_are_planned(
    monkeypatch: pytest.MonkeyPatch, n_ranks: int
) -> None:
    planned: list[int] = []
    batches = Plan.batches
    monkeypatch.setattr(
        Plan, "batches", lambda self, window: planned.append(window) or batches(self, window)
    )
    sizes = heavy_tailed(64 * 50)
    first = AtomBudgetBatchSampler(sizes, 600, num_replicas=n_ranks, rank=0)
    items = iter(first)
    assert planned == []
    next(items)
    assert planned == [0]
    taken = list(islice(items, len(first) // 2))
    assert taken
    state, n_planned = first.state_dict(), len(planned)
    following = next(items)
    planned.clear()
    resumed = AtomBudgetBatchSampler(sizes, 600, num_replicas=n_ranks, rank=0)
    resumed.load_state_dict(state)
    assert next(iter(resumed)) == following
    assert planned in ([n_planned - 1], [n_planned - 1, n_planned])


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("cost", [1, 3, 7, 100, 101, 0])
@pytest.mark.parametrize("max_molecules", [None, 4])
def test_batches_of_equal_molecules_are_counted_without_planning(
    cost: int, max_molecules: int | None, shuffle: bool
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of molecules over the budget
        sampler = AtomBudgetBatchSampler(
            np.full(333, cost), 100, max_molecules=max_molecules, shuffle=shuffle
        )
    assert len(sampler) == len(list(sampler))


@pytest.mark.parametrize("budget", [np.int64(30), np.float32(30.5), torch.tensor(30)])
def test_states_consist_of_plain_numbers(budget: Any) -> None:
    """Checkpoints hold them, and are read with ``weights_only``."""
    sampler = AtomBudgetBatchSampler([10] * 9, budget, shuffle=np.True_)  # type: ignore[arg-type]
    state = sampler.state_dict()
    assert json.loads(json.dumps(state)) == state
    assert state["planned"]["max_atoms"] == float(budget)  # type: ignore[index]
