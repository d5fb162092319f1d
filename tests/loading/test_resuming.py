"""States: what is refused by name, and what a different batch size resumes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

import atompack_torch as apt
from atompack_torch.trainers._data_module import DataHooks
from atompack_torch.trainers._samplers import once_each

SIZES = np.random.default_rng(0).integers(2, 9, 40)
Make = Callable[..., Any]


@pytest.fixture
def write(new_path: Callable[[], Path]) -> Callable[..., apt.AtpDataset]:
    def write(sizes: Any = SIZES, first: int = 0, step: int = 1) -> apt.AtpDataset:
        """Molecules that differ in their energy alone if their sizes are equal."""
        path = new_path()
        with apt.AtpWriter(path) as writer:
            for k, n in enumerate(sizes):
                energy = float(first + step * k)
                writer.write(apt.Molecule(np.zeros((n, 3)), [6] * int(n), energy=energy))
        return apt.AtpDataset(path)

    return write


def own(dataset: Any, n: int = 4, **options: Any) -> apt.Loader:
    return apt.Loader(dataset, n, **options)


def shuffled(dataset: Any, n: int = 4) -> apt.Loader:
    return own(dataset, n, shuffle=True)


def items(dataset: Any, n: int = 4) -> apt.Loader:
    return apt.Loader(dataset, n, sampler=apt.DistributedMoleculeSampler(dataset))


def budget(dataset: Any, n: int = 20) -> apt.Loader:
    return apt.Loader(dataset, batch_sampler=apt.AtomBudgetBatchSampler(dataset, max_atoms=n))


def sizes(dataset: Any, n: int = 4) -> apt.Loader:
    return apt.Loader(dataset, batch_sampler=apt.EqualSizeBatchSampler(dataset, n))


def generated(dataset: Any, n: int = 4) -> apt.Loader:
    generator = torch.Generator().manual_seed(n)
    return apt.Loader(dataset, n, sampler=RandomSampler(dataset, generator=generator))


def counted(dataset: Any, n: int = 4) -> apt.Loader:
    return apt.Loader(dataset, batch_sampler=once_each(dataset, batch_size=n))


def index(batches: Any) -> list[int]:
    return [k for batch in batches for k in batch.index.tolist()]


every_order = pytest.mark.parametrize(
    "make", [own, shuffled, items, budget, sizes, generated, counted]
)


@pytest.mark.parametrize("make", [own, shuffled, items, generated, counted])
@pytest.mark.parametrize(("before", "after"), [(4, 5), (4, 2), (5, 40)])
def test_another_batch_size_resumes_exactly(
    write: Make, make: Make, before: int, after: int
) -> None:
    dataset = write()
    whole = index(make(dataset, before))
    first, second, third = make(dataset, before), make(dataset, after), make(dataset, 3)
    seen = index(itertools.islice(first, 3))
    second.load_state_dict(first.state_dict())
    seen += index(itertools.islice(second, 1))
    if second.epoch == 0:
        third.load_state_dict(second.state_dict())
        seen += index(third)
    assert seen == whole
    assert Counter(index(third)) == Counter(range(40))


@pytest.mark.parametrize(("n", "n_ranks"), [(40, 1), (40, 2), (40, 3), (37, 4), (33, 4), (4, 4)])
@pytest.mark.parametrize(("shuffle", "drop_last"), [(False, False), (True, False), (True, True)])
def test_ranks_with_another_batch_size(
    write: Make, n: int, n_ranks: int, shuffle: bool, drop_last: bool
) -> None:
    """Equally many batches on all ranks, each within its limit, of each molecule once."""
    dataset = write(SIZES[:n])
    state, seen = None, []
    for size, of, n_steps in [
        (4, n_ranks, 2),
        (2, n_ranks, 2),
        (3, max(n_ranks - 1, 1), 1),
        (5, 2, n),
    ]:
        samplers = []
        for rank in range(of):
            sampler = once_each(dataset, batch_size=size, shuffle=shuffle, drop_last=drop_last)
            sampler.num_replicas, sampler.rank = of, rank
            if state is not None:
                sampler.load_state_dict(state)
            samplers.append(sampler)
        lengths = [len(sampler) for sampler in samplers]
        shares = [list(itertools.islice(sampler, n_steps)) for sampler in samplers]
        assert len({len(share) for share in shares}) == 1
        if state is None:
            assert {min(length, n_steps) for length in lengths} == {len(shares[0])}
        batches = [batch for step in zip(*shares, strict=True) for batch in step]
        assert all(0 < len(batch) <= size for batch in batches)
        seen += [number for batch in batches for number in batch]
        state = samplers[0].state_dict(consumed=len(shares[0]))
    order = [
        number for batch in once_each(dataset, batch_size=n, shuffle=shuffle) for number in batch
    ]
    assert seen == order if not drop_last else seen == order[: len(seen)]
    assert len(seen) > n - 10 if drop_last else sorted(seen) == [*range(n)]


@pytest.mark.parametrize(("n", "size", "n_ranks"), [(3, 4, 4), (9, 1, 2)])
def test_too_few_molecules_for_the_ranks(write: Make, n: int, size: int, n_ranks: int) -> None:
    sampler = once_each(write(SIZES[:n]), batch_size=size)
    sampler.num_replicas, sampler.rank = n_ranks, 0
    with pytest.raises(ValueError, match=f"the last {n} molecules .* use drop_last=True"):
        list(sampler)


def test_a_data_module_counts_the_batches_of_another_size(write: Make) -> None:
    """Lightning ends an epoch at the length of its loader, even when it is resumed again."""
    dataset = write()
    state, seen, n_seen = {}, [], 0
    for size, n_batches, length in [(2, 15, 20), (5, 1, 17), (5, 9, 17)]:
        data = DataHooks(dataset, batch_size=size)
        data.load_state_dict(state)
        data.setup("fit")
        loader = data.train_dataloader()
        assert len(loader) == length
        loader.load_state_dict(state["loader"] if state else loader.state_dict())
        batches = list(itertools.islice(loader, n_batches))
        seen, n_seen = seen + index(batches), n_seen + len(batches)
        state = data.state_dict()
    assert n_seen == 17
    assert seen == index(counted(dataset, 40))
    data = DataHooks(dataset, max_atoms=20)
    data.setup("fit")
    with pytest.raises(ValueError, match="expected the order of AtomBudgetBatchSampler"):
        data.train_dataloader().load_state_dict(state["loader"])


@every_order
def test_other_data_is_refused_by_name(write: Make, make: Make) -> None:
    dataset = write()
    loader = make(dataset)
    next(iter(loader))
    state = loader.state_dict()
    grown = write([*SIZES, 5, 5, 5])
    with pytest.raises(ValueError, match=r"^state: .*expected 43 molecules, got 40.*has grown"):
        make(grown).load_state_dict(state)
    make(grown.subset(range(40))).load_state_dict(state)
    make(write()).load_state_dict(state)  # equal data elsewhere
    for other in (write(first=39, step=-1), dataset.subset(range(39, -1, -1)), write(step=2)):
        with pytest.raises(ValueError, match="of this dataset in this order, got others"):
            make(other).load_state_dict(state)
    with pytest.raises(ValueError, match="earlier release"):
        make(dataset).load_state_dict({"epoch": 0, "batches": 3, "seed": 0})


@pytest.mark.parametrize("sampler", [apt.DistributedMoleculeSampler, apt.EqualSizeBatchSampler])
def test_a_sampler_alone_sees_the_order_of_the_data(write: Make, sampler: Any) -> None:
    options = (4,) if sampler is apt.EqualSizeBatchSampler else ()
    state = sampler(write(), *options).state_dict()
    sampler(write(), *options).load_state_dict(state)
    for other in (write(first=39, step=-1), write(SIZES[::-1])):
        with pytest.raises(ValueError, match="in this order, got others"):
            sampler(other, *options).load_state_dict(state)


def test_other_orders_are_refused_with_every_difference(write: Make) -> None:
    dataset = write()
    makers = [own, shuffled, items, budget, sizes, generated, counted]
    for make, other in itertools.permutations(makers, 2):
        with pytest.raises(ValueError, match=r"state: expected the order of .*, got that of"):
            other(dataset).load_state_dict(make(dataset).state_dict())
    state = apt.Loader(dataset, 4, shuffle=True, seed=3).state_dict()
    with pytest.raises(ValueError, match=r"seed 4, got 3; expected 39 molecules, got 40; .*others"):
        own(write(SIZES[1:]), shuffle=True, seed=4).load_state_dict(state)
    for key in ("epoch", "batches", "consumed"):
        with pytest.raises(ValueError, match=f"state: {key}: expected at least 0, got -1"):
            own(dataset, shuffle=True, seed=3).load_state_dict({**state, key: -1})
    with pytest.raises(ValueError, match="state: expected the entry 'epoch'"):
        budget(dataset).load_state_dict({**budget(dataset).state_dict(), "sampler": {"version": 1}})
    with pytest.raises(ValueError, match="expected max_atoms=30, got 20"):
        budget(dataset, 30).load_state_dict(budget(dataset).state_dict())
    lists = [apt.Loader(dataset, batch_sampler=[[0, 1], [2]]), own(dataset, sampler=[3, 4])]
    for loader in lists:
        loader.load_state_dict(loader.state_dict())
    with pytest.raises(ValueError, match="expected the order of a list with digest"):
        own(dataset, sampler=[4, 3]).load_state_dict(lists[1].state_dict())


@pytest.mark.parametrize("in_batches", [False, True])
def test_a_global_generator_cannot_be_resumed(write: Make, in_batches: bool) -> None:
    dataset = write()

    def loader(generator: torch.Generator | None = None) -> apt.Loader:
        sampler = RandomSampler(dataset, generator=generator)
        if in_batches:
            return apt.Loader(dataset, batch_sampler=BatchSampler(sampler, 4, False))
        return apt.Loader(dataset, 4, sampler=sampler)

    ours = loader()
    ours.state_dict()  # between passes, nothing is lost
    next(iter(ours))
    with pytest.raises(ValueError, match=r"give it generator=torch.Generator\(\), or use shuffle"):
        ours.state_dict()
    first, second = loader(torch.Generator().manual_seed(1)), loader(torch.Generator())
    seen = index(itertools.islice(first, 3))
    second.load_state_dict(first.state_dict())
    assert sorted(seen + index(second)) == list(range(40))
    with pytest.raises(ValueError, match="give it generator"):
        loader().load_state_dict(first.state_dict())


def mixture(write: Make) -> apt.MixtureDataset:
    parts = [write(SIZES), write(np.arange(2, 22))]
    return apt.MixtureDataset(parts, weights=[1, 1], epoch=20)


def drawn(batches: Any) -> list[list[tuple[int, int]]]:
    return [[*zip(b.source.tolist(), b.index.tolist(), strict=True)] for b in batches]


@pytest.mark.parametrize(
    ("kind", "n_workers"),
    [("budget", None), ("budget", 2), ("equal", None), ("equal", 0), ("items", 2), ("own", None)],
)
def test_a_mixture_follows_the_epochs(write: Make, kind: str, n_workers: int | None) -> None:
    """All molecules in the long run, never over the budget, from one set of workers too."""
    dataset = mixture(write)
    options: dict[str, Any] = {"batch_size": 4}
    if kind == "budget":
        options = {"batch_sampler": apt.AtomBudgetBatchSampler(dataset, max_atoms=25)}
    elif kind == "equal":
        options = {"batch_sampler": apt.EqualSizeBatchSampler(dataset, 4)}
    elif kind == "items":
        options |= {"sampler": apt.DistributedMoleculeSampler(dataset)}
    loader: Any = apt.Loader(dataset, **options)
    if n_workers is not None:
        options["persistent_workers"] = n_workers > 0
        loader = DataLoader(dataset, num_workers=n_workers, **options)
    seen: list[tuple[int, int]] = []
    for epoch in range(4):
        expected = len(loader)
        batches = list(loader)
        assert len(batches) == expected
        if kind == "budget":
            assert max(int(batch.n_atoms.sum()) for batch in batches) <= 25
        if kind == "equal":
            assert all(len(set(batch.n_atoms.tolist())) == 1 for batch in batches)
        found = [each for batch in drawn(batches) for each in batch]
        fresh = apt.MixtureDataset(dataset.sources, weights=[1, 1], epoch=20)
        fresh.set_epoch(epoch)
        assert sorted(found) == sorted(drawn([fresh[:]])[0])
        seen += found
    assert Counter(seen) == {(0, k): 1 for k in range(40)} | {(1, k): 2 for k in range(20)}


def test_a_data_module_takes_a_mixture_and_parts_of_one(write: Make) -> None:
    whole = mixture(write)
    parts = whole.split([0.8, 0.2], seed=0)
    expected = []
    for epoch in range(2):
        whole.set_epoch(epoch)
        expected.append(sorted(drawn([whole[:]])[0]))
    for train, per_epoch in ((mixture(write), expected), (parts[0], [drawn([parts[0][:]])[0]] * 2)):
        data = DataHooks(train, parts[1], batch_size=4)
        strategy = SimpleNamespace(root_device=torch.device("cpu"))
        data.trainer = trainer = SimpleNamespace(overfit_batches=0, strategy=strategy)
        data.setup("fit")
        for epoch in range(2):
            trainer.current_epoch = epoch
            found = drawn(data.train_dataloader())
            assert sorted(each for batch in found for each in batch) == sorted(per_epoch[epoch])
    assert expected[0] != expected[1]


def test_a_plan_of_old_draws_is_never_used(write: Make) -> None:
    dataset = mixture(write)
    sampler = apt.AtomBudgetBatchSampler(dataset.n_atoms, max_atoms=25)
    loader = apt.Loader(dataset, batch_sampler=sampler)
    list(loader)
    with pytest.raises(ValueError, match="one made of this dataset, whose molecules change"):
        list(loader)
    alike = apt.AtomBudgetBatchSampler(20, 5, costs=np.ones(20))
    loader = apt.Loader(dataset, batch_sampler=alike)
    assert [len(list(loader)) for _ in range(2)] == [4, 4]
    costly = apt.AtomBudgetBatchSampler(mixture(write), 25, costs=np.arange(20))
    list(costly)
    with pytest.raises(ValueError, match="costs: expected none for a dataset"):
        list(costly)


def test_a_mixture_at_an_epoch_of_the_user(write: Make) -> None:
    chosen = mixture(write)
    chosen.set_epoch(1)
    loader = budget(chosen, 25)
    expected = {*drawn([chosen[:]])[0]}
    for _ in range(2):
        assert {each for batch in drawn(loader) for each in batch} == expected
    first = iter(loader)
    next(first)
    state = loader.state_dict()
    chosen.set_epoch(0)
    with pytest.raises(ValueError, match="the dataset at epoch 0, got that at epoch 1"):
        loader.load_state_dict(state)


def test_a_resumed_mixture_has_the_draws_of_its_epoch(write: Make) -> None:
    dataset = mixture(write)
    loader = budget(dataset, 25)
    list(loader)
    whole = drawn(budget_after(dataset, 1))
    seen = drawn(itertools.islice(loader, 2))
    other = budget(apt.MixtureDataset(dataset.sources, weights=[1, 1], epoch=20), 25)
    other.load_state_dict(loader.state_dict())
    assert seen + drawn(other) == whole


def budget_after(dataset: apt.MixtureDataset, epoch: int) -> apt.Loader:
    loader = budget(apt.MixtureDataset(dataset.sources, weights=[1, 1], epoch=20), 25)
    loader.set_epoch(epoch)
    return loader
