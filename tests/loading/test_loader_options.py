"""``Loader`` and samplers: wrong options say what to write instead; who else chooses epochs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
)

import atompack_torch as apt

N = 30


@pytest.fixture(scope="module")
def path(new_path: Callable[[], Path]) -> Path:
    """A file of carbon atoms."""
    made = new_path()
    with apt.AtpWriter(made) as writer:
        for number in range(N):
            n = number % 3 + 1
            positions = np.zeros((n, 3), np.float32)
            writer.write(apt.Molecule(positions, np.full(n, 6), energy=float(number)))
    return made


@pytest.fixture(scope="module")
def dataset(path: Path) -> apt.AtpDataset:
    """Of that file."""
    return apt.AtpDataset(path)


def numbers(batches: Any) -> list[list[int]]:
    return [batch.index.tolist() for batch in batches]


@contextmanager
def ranks(n: int) -> Iterator[None]:
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=n)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def test_other_data_sets_say_what_to_give(dataset: apt.AtpDataset, path: Path) -> None:
    wrong = {
        r"got Subset; instead of .* give dataset\.subset\(indices\)": Subset(dataset, [1, 2]),
        r"got ConcatDataset; give one dataset of several": ConcatDataset([dataset, dataset]),
        r"got PosixPath: open it first: apt\.open": path,
        r"got list; torch\.utils\.data\.DataLoader takes any": [1, 2],
    }
    for message, given in wrong.items():
        with pytest.raises(TypeError, match=f"^dataset: expected a dataset .*{message}"):
            apt.Loader(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("num_workers", "give num_threads"),
        ("collate_fn", "give transform to the dataset"),
        ("prefetch_factor", "give prefetch"),
        ("generator", "give seed"),
        ("pin_memory_device", "give device"),
        ("persistent_workers", "no worker processes"),
        ("worker_init_fn", "no worker processes"),
        ("num_replicas", "give batch_sampler"),
        ("shufle", r"did you mean shuffle\?"),
        ("max_atoms", "it takes dataset, batch_size"),
    ],
)
def test_unknown_options(dataset: apt.AtpDataset, option: str, hint: str) -> None:
    with pytest.raises(TypeError, match=f"Loader has no option '{option}': .*{hint}"):
        apt.Loader(dataset, **{option: 2})


def test_attributes_of_a_dataloader(dataset: apt.AtpDataset) -> None:
    loader = apt.Loader(dataset)
    with pytest.raises(AttributeError, match=r"no 'worker_init_fn': .* knows? the ranks"):
        _ = loader.worker_init_fn
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = loader.nothing
    assert not hasattr(loader, "num_workers")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 2.0}, "batch_size: expected an int, got 2.0"),
        ({"batch_size": True}, "batch_size: expected an int, got True"),
        ({"num_threads": "2"}, "num_threads: expected an int, got '2'"),
        ({"prefetch": 1.5}, "prefetch: expected an int, got 1.5"),
        ({"sampler": 3}, "sampler: expected an iterable, got int"),
        ({"sampler": "random"}, "sampler: expected an iterable, got str"),
        ({"batch_sampler": 3}, "batch_sampler: expected an iterable, got int"),
        ({"seed": 1.5}, "seed: expected an int, got 1.5"),
        ({"shuffle": "no"}, "shuffle: expected True or False, got 'no'"),
        ({"drop_last": 2}, "drop_last: expected True or False, got 2"),
        ({"pin_memory": "false"}, "pin_memory: expected True or False, got 'false'"),
    ],
)
def test_types_of_options(dataset: apt.AtpDataset, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        apt.Loader(dataset, **options)
    assert apt.Loader(dataset, np.int64(3), num_threads=np.int32(1)).batch_size == 3


def test_samplers_of_the_other_kind(dataset: apt.AtpDataset) -> None:
    budget = apt.AtomBudgetBatchSampler(dataset, 8)
    for sampler in (budget, BatchSampler(SequentialSampler(dataset), 2, False)):
        name = type(sampler).__name__
        message = f"sampler: expected item numbers, got batches of {name}; give it as batch_sampler"
        with pytest.raises(TypeError, match=message):
            apt.Loader(dataset, sampler=sampler)  # type: ignore[arg-type]
    for items in ([[1, 2], [3]], [torch.tensor([1, 2])], [(1,)]):
        with pytest.raises(TypeError, match="got batches of list; give it as batch_sampler"):
            list(apt.Loader(dataset, 2, sampler=items))  # type: ignore[arg-type]
    single = apt.DistributedMoleculeSampler(dataset)
    message = "expected lists of item numbers, got numbers of DistributedMoleculeSampler; give it"
    with pytest.raises(TypeError, match=message):
        apt.Loader(dataset, batch_sampler=single)  # type: ignore[arg-type]
    for items in ([1, 2], torch.arange(3), np.arange(3), RandomSampler(dataset)):
        with pytest.raises(TypeError, match="batch_sampler: expected lists of item numbers"):
            list(apt.Loader(dataset, batch_sampler=items))  # type: ignore[arg-type]
    for items in (torch.arange(3), np.arange(3), range(3)):
        assert numbers(apt.Loader(dataset, 3, sampler=items)) == [[0, 1, 2]]


def test_samplers_of_other_datasets(dataset: apt.AtpDataset) -> None:
    """Their numbers mean other molecules, or none."""
    part = dataset.subset(range(2))
    for ours, other in ((dataset, part), (part, dataset)):
        message = f"the loader, with {len(ours)} molecules, got one made of a .* with {len(other)}"
        with pytest.raises(ValueError, match=message):
            apt.Loader(ours, batch_sampler=apt.AtomBudgetBatchSampler(other, 8))
        with pytest.raises(ValueError, match=message):
            apt.Loader(ours, 2, sampler=apt.DistributedMoleculeSampler(other))
    assert numbers(apt.Loader(dataset, 2, sampler=apt.DistributedMoleculeSampler(2, shuffle=False)))


def test_samplers_refuse_what_does_not_count_molecules(dataset: apt.AtpDataset) -> None:
    for sampler in (apt.DistributedMoleculeSampler, apt.BlockShuffleSampler):
        options = {} if sampler is apt.DistributedMoleculeSampler else {"block": 5, "window": 2}
        for wrong in ("a.atp", b"a", {1: 2}, {1, 2}):
            with pytest.raises(TypeError, match="expected a count, numbers of atoms, or a dataset"):
                sampler(wrong, **options)
        for wrong in (apt.Loader(dataset), DataLoader(dataset)):
            with pytest.raises(TypeError, match="give the dataset of the loader"):
                sampler(wrong, **options)
        assert len(sampler(Subset(dataset, [1, 2, 3]), **options)) == 3
    for wrong, hint in {
        Subset(dataset, [1]): r"got Subset; give dataset\.subset\(indices\)",
        DataLoader(dataset): "got DataLoader; give its dataset",
        "a.atp": r"got a path; give AtpDataset\('a\.atp'\)",
    }.items():
        with pytest.raises(TypeError, match=f"n_atoms: expected numbers of atoms .*{hint}"):
            apt.AtomBudgetBatchSampler(wrong, 8)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_atoms", "8"),
        ("max_atoms", True),
        ("max_molecules", 1.5),
        ("seed", 0.5),
        ("num_replicas", 2.0),
        ("rank", "0"),
    ],
)
def test_types_of_the_options_of_samplers(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option}: expected an? (int|number), got"):
        apt.AtomBudgetBatchSampler([1, 2], **{"max_atoms": 8, option: value})
    if option in ("seed", "num_replicas", "rank"):
        with pytest.raises(TypeError, match=f"{option}: expected an int, got"):
            apt.DistributedMoleculeSampler(3, **{option: value})
    for name in ("shuffle", "drop_last", "pad"):
        with pytest.raises(TypeError, match=f"{name}: expected True or False, got 'no'"):
            apt.AtomBudgetBatchSampler([1, 2], 8, **{name: "no"})
    for name in ("window", "lanes", "workers", "block", "batch_size"):
        with pytest.raises(TypeError, match=f"{name}: expected an int, got 1.5"):
            apt.BlockShuffleSampler(30, **{"block": 3, "window": 2, name: 1.5})


def test_loaders_show_their_options(dataset: apt.AtpDataset) -> None:
    budget = apt.AtomBudgetBatchSampler(dataset, 8, seed=3, max_molecules=2)
    single = apt.DistributedMoleculeSampler(dataset)
    own = apt.Loader(dataset, 4, shuffle=True, seed=5, drop_last=True, num_threads=1, prefetch=3)
    own.set_epoch(2)
    assert repr(own) == (
        f"Loader({dataset!r}, batch_size=4, shuffle=True, seed=5, drop_last=True, num_threads=1, "
        "prefetch=3, pin_memory=False, device=None, epoch=2)"
    )
    assert f"sampler={single!r}" in repr(apt.Loader(dataset, 4, sampler=single))
    with_budget = repr(apt.Loader(dataset, batch_sampler=budget))
    assert f"batch_sampler={budget!r}" in with_budget
    assert "batch_size" not in with_budget
    long = repr(apt.Loader(dataset, batch_sampler=[[i] for i in range(1000)]))
    assert len(long) < 400


@pytest.mark.parametrize("kind", ["budget", "single", "own"])
def test_epochs_that_others_choose(dataset: apt.AtpDataset, kind: str) -> None:
    """On the sampler of the loader, as Lightning does, also of a loader that is made again."""

    def make() -> apt.Loader:
        if kind == "budget":
            sampler = apt.AtomBudgetBatchSampler(dataset, 8)
            return apt.Loader(dataset, batch_sampler=sampler)
        if kind == "single":
            return apt.Loader(dataset, 4, sampler=apt.DistributedMoleculeSampler(dataset))
        return apt.Loader(dataset, 4, shuffle=True)

    def choose(loader: Any, epoch: int) -> None:
        inner = loader.sampler if loader.batch_sampler is None else loader.batch_sampler.sampler
        inner.set_epoch(epoch)

    whole = make()
    epochs = [numbers(whole) for _ in range(4)]
    assert len({str(epoch) for epoch in epochs}) == 4
    for epoch in (0, 2, 3):
        loader = make()
        choose(loader, epoch)
        assert numbers(loader) == epochs[epoch]
        assert loader.epoch == epoch + 1
    loader = make()
    for epoch in (0, 1, 3, 1, 2):
        choose(loader, epoch)
        assert numbers(loader) == epochs[epoch]
    loader.set_epoch(3)
    assert numbers(loader) == epochs[3]
    # A place inside of the epoch is kept, whether the epoch is chosen once more or not.
    begun = make()
    choose(begun, 2)
    batches = iter(begun)
    first = [next(batches).index.tolist() for _ in range(2)]
    for chooses in (True, False):
        resumed = make()
        resumed.load_state_dict(begun.state_dict())
        if chooses:
            choose(resumed, 2)
        assert first + numbers(resumed) == epochs[2]
    other = make()
    other.load_state_dict(begun.state_dict())
    choose(other, 3)
    assert numbers(other) == epochs[3]


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_order_that_no_rank_shares_warns_once(dataset: apt.AtpDataset, shuffle: bool) -> None:
    loader = apt.Loader(dataset, 4, shuffle=shuffle)
    given = "shuffle=True" if shuffle else "no sampler"
    with ranks(2):
        with pytest.warns(UserWarning, match=f"{given}: each of the 2 ranks gets the whole .*give"):
            list(loader)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            list(loader)
            sampler = apt.DistributedMoleculeSampler(dataset)
            assert len(list(apt.Loader(dataset, 4, sampler=sampler))) == 4
    with ranks(1), warnings.catch_warnings():
        warnings.simplefilter("error")
        list(apt.Loader(dataset, 4, shuffle=shuffle))
