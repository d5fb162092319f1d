"""The samplers inside torch's DataLoader and torchdata's StatefulDataLoader."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sampling import Numbers
from torch.utils.data import DataLoader
from torch_geometric.loader import DataLoader as GeometricLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from atompack_torch import (
    AtomBudgetBatchSampler,
    AtpDataset,
    AtpWriter,
    BlockShuffleSampler,
    BucketBatchSampler,
    DistributedMoleculeSampler,
    EqualSizeBatchSampler,
    Molecule,
    MoleculeBatch,
)

N = 200
SIZES = np.random.default_rng(0).integers(1, 30, N)


def budget() -> dict[str, Any]:
    return {"batch_sampler": AtomBudgetBatchSampler(SIZES, 60)}


def single() -> dict[str, Any]:
    return {"sampler": DistributedMoleculeSampler(N), "batch_size": 7}


def blocks() -> dict[str, Any]:
    return {"sampler": BlockShuffleSampler(N, block=5, window=4), "batch_size": 7}


every_sampler = pytest.mark.parametrize("make", [budget, single, blocks])
workers = pytest.mark.parametrize("num_workers", [0, 2])


def sampler_of(options: dict[str, Any]) -> Any:
    return options.get("batch_sampler") or options["sampler"]


def lists(batches: Any) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


@every_sampler
@workers
@pytest.mark.parametrize("epoch", [0, 3])
def test_resumed_twice_in_an_epoch(make: Any, num_workers: int, epoch: int) -> None:
    def begin() -> tuple[Any, Any]:
        options = make()
        sampler_of(options).set_epoch(epoch)
        return StatefulDataLoader(Numbers(N), num_workers=num_workers, **options), options

    loader, _ = begin()
    expected = lists(loader)
    assert sorted(chain.from_iterable(expected)) == list(range(N))
    loader, _ = begin()
    batches = iter(loader)
    found = lists(islice(batches, 3))
    for n_more in (0, 5, 4):
        state = loader.state_dict()
        loader, options = begin()
        loader.load_state_dict(state)
        batches = iter(loader)
        found += lists(islice(batches, n_more))
    found += lists(batches)
    assert found == expected
    # The next pass is whole again.
    sampler_of(options).set_epoch(epoch + 1)
    following = lists(loader)
    assert sorted(chain.from_iterable(following)) == list(range(N))
    assert following != expected


@every_sampler
@workers
def test_resumed_between_epochs(make: Any, num_workers: int) -> None:
    """After the end of an epoch comes the next one, or the one that was chosen."""
    options = make()
    loader = StatefulDataLoader(Numbers(N), num_workers=num_workers, **options)
    first = lists(loader)
    state = loader.state_dict()
    second = lists(loader)
    assert second != first
    for epoch, expected in ((0, first), (1, second), (None, second)):
        options = make()
        loader = StatefulDataLoader(Numbers(N), num_workers=num_workers, **options)
        loader.load_state_dict(state)
        if epoch is not None:
            sampler_of(options).set_epoch(epoch)
        assert lists(loader) == expected


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> AtpDataset:
    path = tmp_path_factory.mktemp("loaders") / "molecules.atp"
    with AtpWriter(path) as writer:
        for n in SIZES:
            writer.write(Molecule(np.zeros((n, 3)), [6] * int(n)))
    return AtpDataset(path, transform=MoleculeBatch.to_pyg)


@pytest.mark.parametrize("kind", ["budget", "items", "shuffle"])
@workers
def test_three_epochs_in_a_loader_of_torch_geometric(
    dataset: AtpDataset, kind: str, num_workers: int
) -> None:
    options: dict[str, Any] = {"batch_size": 7, "shuffle": True}
    if kind == "budget":
        options = {"batch_sampler": AtomBudgetBatchSampler(dataset, 60)}
    elif kind == "items":
        options = {"sampler": DistributedMoleculeSampler(dataset), "batch_size": 7}
    loader = GeometricLoader(dataset, num_workers=num_workers, **options)
    epochs = []
    for _ in range(3):
        batches = list(loader)
        assert all(torch.equal(batch.ptr.diff(), batch.n_atoms) for batch in batches)
        epochs.append([k for batch in batches for k in batch.index.tolist()])
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


@pytest.mark.parametrize("make", [single, blocks])
@workers
@pytest.mark.parametrize("batch_size", [3, 50])
def test_resumed_with_another_batch_size(make: Any, num_workers: int, batch_size: int) -> None:
    expected = list(chain.from_iterable(lists(DataLoader(Numbers(N), **make()))))
    options = make()
    loader: Any = StatefulDataLoader(Numbers(N), num_workers=num_workers, **options)
    batches = iter(loader)
    found = list(chain.from_iterable(lists(islice(batches, 4))))
    state = sampler_of(options).state_dict(consumed=len(found))
    for loader_of in (DataLoader, StatefulDataLoader):
        options = make() | {"batch_size": batch_size}
        sampler_of(options).load_state_dict(state)
        loader = loader_of(Numbers(N), num_workers=num_workers, **options)
        assert found + list(chain.from_iterable(lists(loader))) == expected


def test_states_are_plain() -> None:
    """torch.load takes them with its safe settings."""
    for make in (budget, single, blocks):
        state = sampler_of(make()).state_dict()
        file = io.BytesIO()
        torch.save(state, file)
        file.seek(0)
        assert torch.load(file, weights_only=True) == state


@pytest.mark.parametrize(
    "make",
    [
        lambda dataset: AtomBudgetBatchSampler(dataset, 60),
        lambda dataset: BucketBatchSampler(dataset, 60),
        lambda dataset: EqualSizeBatchSampler(dataset, 4),
        lambda dataset: BlockShuffleSampler(dataset, block=2, window=4),
        lambda dataset: DistributedMoleculeSampler(dataset),
        lambda dataset: DistributedMoleculeSampler(dataset, weights="charge"),
    ],
)
def test_molecules_that_a_refresh_adds_need_a_new_sampler(
    tmp_path: Path, make: Callable[[AtpDataset], Any]
) -> None:
    molecules = [Molecule(np.zeros((2, 3)), [6, 6], properties={"charge": 1.0})] * 9
    with AtpWriter(tmp_path / "growing.atp") as writer:
        writer.write(molecules)
    dataset = AtpDataset(tmp_path / "growing.atp")
    sampler = make(dataset)
    begun, expected = iter(sampler), list(make(dataset))
    found = [next(begun)]
    with AtpWriter(tmp_path / "growing.atp", mode="a") as writer:
        writer.write(molecules[:3])
    assert list(make(dataset)) == expected  # of the generation that it has open
    assert dataset.refresh()
    assert [*found, *begun] == expected
    with pytest.raises(ValueError, match=r"expected the 9 molecules .* got 12 after refresh"):
        list(sampler)
    assert len(list(make(dataset))) >= len(expected)
