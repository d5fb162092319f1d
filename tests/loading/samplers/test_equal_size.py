"""Batches of molecules of one size: each molecule once, for any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling import attempt
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch import EqualSizeBatchSampler

SIZES = np.random.default_rng(0).integers(1, 7, 101)


def batches_of(sizes: Any, batch_size: int, ranks: int, **options: Any) -> list[list[list[int]]]:
    """The batches of every rank."""
    return [
        list(EqualSizeBatchSampler(sizes, batch_size, num_replicas=ranks, rank=rank, **options))
        for rank in range(ranks)
    ]


@given(
    sizes=st.lists(st.integers(0, 4), max_size=60),
    batch_size=st.integers(1, 9),
    ranks=st.integers(1, 5),
    shuffle=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_every_molecule_once(sizes: list[int], batch_size: int, ranks: int, shuffle: bool) -> None:
    counts = np.array(sizes, int)
    found, message = attempt(lambda: batches_of(counts, batch_size, ranks, shuffle=shuffle))
    if message is not None:
        assert "cannot be split evenly" in message
        assert len(sizes) % ranks
        return
    assert sorted(i for rank in found for batch in rank for i in batch) == list(range(len(sizes)))
    assert len({len(rank) for rank in found}) == 1
    for rank in found:
        for batch in rank:
            assert 0 < len(batch) <= batch_size
            assert len({sizes[i] for i in batch}) == 1
    sampler = EqualSizeBatchSampler(
        np.array(sizes, int), batch_size, num_replicas=ranks, rank=0, shuffle=shuffle
    )
    if ranks == 1:
        assert len(sampler) == len(found[0])


def test_orders() -> None:
    stored = EqualSizeBatchSampler([2, 1, 2, 2, 1, 3], 2, shuffle=False)
    assert list(stored) == [[0, 2], [1, 4], [3], [5]]
    first = list(EqualSizeBatchSampler(SIZES, 4, seed=3))
    assert list(EqualSizeBatchSampler(torch.from_numpy(SIZES), 4, seed=3)) == first
    second = list(EqualSizeBatchSampler(SIZES, 4, seed=4))
    assert sorted(map(len, second)) == sorted(map(len, first))


def test_drop_last_leaves_out_whole_batches() -> None:
    whole = len(EqualSizeBatchSampler(SIZES, 4))
    for ranks in (2, 3, 5):
        found = batches_of(SIZES, 4, ranks, drop_last=True)
        assert {len(rank) for rank in found} == {whole // ranks}
        sampler = EqualSizeBatchSampler(SIZES, 4, num_replicas=ranks, rank=0, drop_last=True)
        assert len(sampler) == whole // ranks


def test_states_of_other_plans() -> None:
    state = EqualSizeBatchSampler(SIZES, 4).state_dict()
    for other in (
        EqualSizeBatchSampler(SIZES, 5),
        EqualSizeBatchSampler(SIZES[1:], 4),
        EqualSizeBatchSampler(SIZES, 4, shuffle=False),
        apt.AtomBudgetBatchSampler(SIZES, 10),
    ):
        with pytest.raises(ValueError, match="state"):
            other.load_state_dict(state)
    sampler = EqualSizeBatchSampler(SIZES, 4)
    sampler.load_state_dict({**state, "position": 10_000})
    with pytest.raises(ValueError, match="state: no molecule"):
        next(iter(sampler))


def test_in_loaders(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "x.atp") as writer:
        for n in SIZES:
            writer.write(
                apt.Molecule(torch.randn(int(n), 3), torch.ones(int(n), dtype=torch.int64))
            )
    dataset = apt.AtpDataset(tmp_path / "x.atp")
    sampler = EqualSizeBatchSampler(dataset, 8)
    for loader in (
        apt.Loader(dataset, batch_sampler=sampler),
        DataLoader(dataset, batch_sampler=sampler),
    ):
        n = 0
        for batch in loader:
            stacked = batch.positions.view(len(batch), -1, 3)
            assert stacked.shape[1] == int(batch.n_atoms[0])
            n += len(batch)
        assert n == len(SIZES)


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        (lambda: EqualSizeBatchSampler(10, 4), TypeError, "a count alone does not tell"),
        (lambda: EqualSizeBatchSampler(SIZES, 0), ValueError, "batch_size: expected at least 1"),
        (lambda: EqualSizeBatchSampler(SIZES, 2.5), TypeError, "batch_size: expected an int"),
        (lambda: EqualSizeBatchSampler(SIZES, 4, rank=3, num_replicas=2), ValueError, "rank"),
    ],
)
def test_mistakes(given_: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        given_()


def test_few_molecules_for_many_ranks() -> None:
    with pytest.raises(ValueError, match="2 molecules, 1 batches, cannot be split evenly among 3"):
        list(EqualSizeBatchSampler([3, 3], 4, num_replicas=3, rank=0))
    assert batches_of([3, 3, 3], 4, 3) != []
    assert "EqualSizeBatchSampler(101 molecules, batch_size=4" in repr(
        EqualSizeBatchSampler(SIZES, 4)
    )


def test_a_state_between_steps_that_were_split() -> None:
    samplers = [
        EqualSizeBatchSampler([2, 1, 1, 1, 1, 3], 4, shuffle=False, num_replicas=2, rank=rank)
        for rank in range(2)
    ]
    seen = [number for sampler in samplers for number in next(iter(sampler))]
    alone = EqualSizeBatchSampler([2, 1, 1, 1, 1, 3], 4, shuffle=False)
    alone.load_state_dict(samplers[0].state_dict())
    assert sorted([*seen, *(number for batch in alone for number in batch)]) == list(range(6))
