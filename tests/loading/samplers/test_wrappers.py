"""Samplers inside of wrappers that deal to the ranks: small imitations of what frameworks do."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sampling import Numbers, process_group
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from atompack_torch import (
    AtomBudgetBatchSampler,
    BlockShuffleSampler,
    DistributedMoleculeSampler,
)

N, BATCH = 205, 4
SIZES = np.random.default_rng(0).integers(1, 30, N)

ACCELERATE = """
class BatchSamplerShard:
    def __init__(self, batch_sampler, num_processes, process_index):
        self.batch_sampler = batch_sampler
        self.num_processes, self.process_index = num_processes, process_index

    def __len__(self):
        return -(-len(self.batch_sampler) // self.num_processes)

    def __iter__(self):
        for number, batch in enumerate(self.batch_sampler):
            if number % self.num_processes == self.process_index:
                yield batch


class DataLoaderDispatcher:
    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def set_epoch(self, epoch):
        self.batch_sampler.sampler.set_epoch(epoch)

    def __iter__(self):
        yield from self.batch_sampler
"""
FIT_LOOP = """
class FitLoop:
    def __init__(self, trainer):
        self.trainer = trainer

    def on_advance_start(self, loader, epoch):
        loader.batch_sampler.sampler.set_epoch(epoch)
"""


class DistributedSamplerWrapper(DistributedSampler[Any]):
    """Shards any sampler, as Lightning and others do."""

    def __iter__(self) -> Iterator[Any]:
        items = list(self.dataset)  # type: ignore[call-overload]
        return (items[i] for i in super().__iter__())


def module(monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> Any:
    made = ModuleType(name)
    exec(source, made.__dict__)
    monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture
def accelerate(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An imitation of accelerate's wrappers, under the name of their module."""
    return module(monkeypatch, "accelerate.data_loader", ACCELERATE)


def molecules(**options: Any) -> Any:
    return DistributedMoleculeSampler(N, **options)


def blocks(**options: Any) -> Any:
    return BlockShuffleSampler(N, block=5, window=4, **options)


def budget(**options: Any) -> Any:
    return AtomBudgetBatchSampler(SIZES, 60, **options)


def batches(sampler: Any) -> Any:
    return (
        sampler
        if isinstance(sampler, AtomBudgetBatchSampler)
        else BatchSampler(sampler, BATCH, False)
    )


every_sampler = pytest.mark.parametrize("make", [molecules, blocks, budget])
Make = Callable[..., Any]


@every_sampler
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_a_wrapper_gets_everything(make: Make, n_ranks: int, accelerate: Any) -> None:
    """Once in each epoch over all ranks, by a loader as accelerate makes it again."""
    epochs = []
    for epoch in range(2):
        seen: list[int] = []
        for rank in range(n_ranks):
            with process_group(rank, n_ranks):
                sampler = make()
                sampler.set_epoch(epoch)
                shard = accelerate.BatchSamplerShard(batches(sampler), n_ranks, rank)
                items = [batch.tolist() for batch in DataLoader(Numbers(N), batch_sampler=shard)]
                assert make is not budget or len(items) == len(shard)
                seen += chain.from_iterable(items)
        assert Counter(seen) == Counter(range(N))
        epochs.append(seen)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("option", [{}, {"pad": True}, {"drop_last": True}])
@pytest.mark.parametrize("n_ranks", [2, 3, 7])
def test_batches_are_those_of_the_ranks(n_ranks: int, option: Any, accelerate: Any) -> None:
    """Wrapped or not, a rank gets the same steps."""
    for rank in range(n_ranks):
        with process_group(rank, n_ranks):
            alone, wrapped = budget(**option), budget(**option)
            shard = accelerate.BatchSamplerShard(wrapped, n_ranks, rank)
            expected = list(alone)
            assert list(shard) == expected
            assert len(shard) == len(alone) == len(expected)


@every_sampler
def test_wrappers_like_a_distributed_sampler(make: Make) -> None:
    seen: list[int] = []
    for rank in range(2):
        with process_group(rank, 2):
            sampler = make()
            wrapper = DistributedSamplerWrapper(sampler, shuffle=False, drop_last=False)
            items = list(wrapper)
            assert abs(len(items) - len(wrapper)) == 0
            seen += chain.from_iterable(items) if make is budget else items
    n_more = len(seen) - N  # the wrapper pads
    assert set(seen) == set(range(N))
    assert 0 <= n_more <= 60


@every_sampler
def test_a_wrapper_of_one_process_changes_nothing(make: Make, accelerate: Any) -> None:
    with process_group(1, 2):
        expected = list(batches(make()))
        assert list(accelerate.BatchSamplerShard(batches(make()), 1, 0)) == expected
        seen = sum(map(len, expected))
        assert seen < N


@every_sampler
def test_ranks_given_twice(make: Make, accelerate: Any) -> None:
    message = r"accelerate's BatchSamplerShard deals to the ranks itself: .* got rank 1 of 2"
    with pytest.raises(ValueError, match=message):
        list(accelerate.BatchSamplerShard(batches(make(num_replicas=2, rank=1)), 2, 1))
    whole = make(num_replicas=1, rank=0)
    whole.set_epoch(0)
    of_each = [list(accelerate.BatchSamplerShard(batches(whole), 2, rank)) for rank in range(2)]
    assert sorted(chain.from_iterable(chain.from_iterable(of_each))) == list(range(N))


@every_sampler
def test_dispatching_is_refused(make: Make, accelerate: Any) -> None:
    """On all ranks, when they choose the epoch; only one of them would iterate."""
    loader = accelerate.DataLoaderDispatcher(batches(make()))
    with pytest.raises(ValueError, match="dispatch_batches: expected False, got True"):
        loader.set_epoch(0)
    with pytest.raises(ValueError, match="dispatch_batches: expected False, got True"):
        list(loader)


def test_states_of_wrapped_passes(accelerate: Any) -> None:
    """What all ranks have used, wherever the wrapper stopped; continues without it too."""
    sampler = budget()
    shard = iter(accelerate.BatchSamplerShard(sampler, 2, 1))
    used = [next(shard) for _ in range(5)]
    state = sampler.state_dict()
    expected = [budget(num_replicas=2, rank=rank) for rank in range(2)]
    steps = [list(rank) for rank in expected]
    assert used == steps[1][:5]
    for rank in range(2):
        resumed = budget(num_replicas=2, rank=rank)
        resumed.load_state_dict(state)
        assert list(resumed) == steps[rank][5:]
    assert sampler.state_dict(consumed=6) == expected[0].state_dict(consumed=3)


@pytest.mark.parametrize("make", [molecules, blocks])
def test_samplers_of_molecules_are_distributed_samplers(make: Make) -> None:
    """Lightning and Ray replace or wrap any other."""
    assert isinstance(make(), DistributedSampler)
    assert DataLoader(Numbers(N), BATCH, sampler=make()).sampler.num_replicas is None


@pytest.mark.parametrize("overfit_batches", [0.0, 2, 0.5])
def test_overfitting_keeps_its_batches(
    monkeypatch: pytest.MonkeyPatch, overfit_batches: float
) -> None:
    loop = module(monkeypatch, "lightning.pytorch.loops.fit_loop", FIT_LOOP)
    trainer = SimpleNamespace(overfit_batches=overfit_batches)
    loader = DataLoader(Numbers(N), batch_sampler=budget())
    loop.FitLoop(trainer).on_advance_start(loader, 3)
    assert loader.batch_sampler.epoch == (0 if overfit_batches else 3)  # type: ignore[union-attr]
