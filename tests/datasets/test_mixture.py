"""MixtureDataset: shares, epochs, what a batch across datasets holds."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference.compare import assert_same_batch
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.fields import FieldSpec

NewPath = Callable[[], Path]
LENGTHS = (100, 30, 7)


def write(path: Path, source: int, n: int, **more: np.ndarray) -> Path:
    """Molecules that tell by their energy where they are from: 1000 * source + number."""
    rng = np.random.default_rng(source)
    n_atoms = rng.integers(1, 12, n)
    with apt.AtpWriter(path) as writer:
        if n:
            writer.write_arrays(
                positions=rng.normal(size=(n_atoms.sum(), 3)).astype(np.float32),
                atomic_numbers=rng.integers(1, 90, n_atoms.sum()),
                n_atoms=n_atoms,
                energy=1000.0 * source + np.arange(n),
                **more,
            )
    return path


@pytest.fixture(scope="module")
def parts(new_path: NewPath) -> list[apt.AtpDataset]:
    return [apt.AtpDataset(write(new_path(), i, n)) for i, n in enumerate(LENGTHS)]


def sources_of(mixture: apt.MixtureDataset) -> np.ndarray[Any, Any]:
    return mixture[:].source.numpy()


def assert_own(batch: apt.MoleculeBatch) -> None:
    """``source`` and ``index`` say which molecule it is."""
    assert batch.source.dtype == batch.index.dtype == torch.int64
    assert batch.level("source") == "molecule"
    assert bool(batch.mask("source").all())
    assert torch.equal(batch.energy, 1000.0 * batch.source + batch.index)


def test_every_molecule_once(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts)
    assert len(mixture) == sum(LENGTHS)
    assert mixture.counts == LENGTHS
    batch = mixture[:]
    assert_own(batch)
    assert len(set(batch.energy.tolist())) == len(mixture)
    for source, part in enumerate(parts):
        mine = batch.index[batch.source == source]
        assert mine.tolist() == list(range(len(part)))
    for epoch in ("max", sum(LENGTHS)):
        again = apt.MixtureDataset(parts, epoch=epoch)[:]  # type: ignore[arg-type]
        assert torch.equal(again.energy, batch.energy)


def test_a_batch_equals_those_of_its_parts(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts)
    batch = mixture.batch([0, 5, -1, 5, 60])
    for molecule in batch:
        own = parts[int(molecule.source)][int(molecule.index)]
        for name in ("positions", "atomic_numbers", "energy"):
            assert torch.equal(molecule[name], own[name])
    one = mixture[-1]
    assert float(one.energy) == 1000.0 * int(one.source) + int(one.index)
    assert float(one.energy) == float(batch[2].energy)
    assert len({batch[name].untyped_storage().data_ptr() for name in batch.keys()}) == 1
    for wrong in (len(mixture), -len(mixture) - 1):
        with pytest.raises(IndexError, match="out of range"):
            mixture[wrong]


def test_n_atoms_and_schema(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts, weights=[1, 2, 1], epoch="max")
    assert torch.equal(mixture.n_atoms, mixture[:].n_atoms)
    assert mixture.schema["source"] == FieldSpec(torch.int64, "molecule", ())
    assert mixture.schema.keys() == parts[0].schema.keys() | {"source"}


@pytest.mark.parametrize(
    ("weights", "epoch", "counts"),
    [
        ([0.5, 0.3, 0.2], "min", (18, 10, 7)),  # 35 = 7 / 0.2
        ([0.5, 0.3, 0.2], "max", (100, 60, 40)),
        ([0.5, 0.3, 0.2], 1000, (500, 300, 200)),
        ([5, 3, 2], 0, (0, 0, 0)),
        ([1, 1, 1], "min", (7, 7, 7)),
        ([1, 1, 1], "max", (100, 100, 100)),
        ([100, 30, 7], "min", LENGTHS),
        (None, 10, (7, 2, 1)),
    ],
)
def test_how_long_an_epoch_is(
    parts: list[apt.AtpDataset], weights: Any, epoch: Any, counts: tuple[int, ...]
) -> None:
    mixture = apt.MixtureDataset(parts, weights, epoch)
    assert mixture.counts == counts
    assert len(mixture) == sum(counts)
    assert Counter(sources_of(mixture).tolist()) == Counter(dict(enumerate(counts)))


@pytest.mark.parametrize(
    "weights",
    [[0.7, 0.3], [0.5, 0.3, 0.2], [1, 1, 1], [0.8, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1], [9, 5, 1, 1]],
)
def test_shares_hold_in_every_stretch(parts: list[apt.AtpDataset], weights: list[float]) -> None:
    sources = [*parts, *parts][: len(weights)]
    order = sources_of(apt.MixtureDataset(sources, weights, 2000))
    for source, weight in enumerate(weights):
        share = 64 * weight / sum(weights)
        before = np.concatenate([[0], np.cumsum(order == source)])
        found = before[64:] - before[:-64]
        slack = 1 if len(weights) == 2 else 1.5
        assert np.abs(found - share).max() <= slack, source


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    weights=st.lists(st.integers(1, 9), min_size=5, max_size=5),
    n_epochs=st.integers(1, 5),
    epoch=st.sampled_from(["min", "max", 17]),
)
def test_sources_go_on_from_epoch_to_epoch(
    parts: list[apt.AtpDataset], lengths: list[int], weights: list[int], n_epochs: int, epoch: Any
) -> None:
    """Nobody's molecule is drawn a second time before all others of its source were."""
    sources = [parts[0].subset(range(length)) for length in lengths]
    mixture = apt.MixtureDataset(sources, weights[: len(sources)], epoch)
    drawn: list[list[int]] = [[] for _ in sources]
    for number in range(n_epochs):
        mixture.set_epoch(number)
        batch = mixture[:]
        assert len(batch) == len(mixture)
        for source, index in zip(batch.source.tolist(), batch.index.tolist(), strict=True):
            drawn[source].append(index)
    for numbers, length, count in zip(drawn, lengths, mixture.counts, strict=True):
        assert numbers == [i % length for i in range(n_epochs * count)]


def test_sources_go_on_in_late_epochs(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts, [1, 2, 3], np.int64(66))  # type: ignore[arg-type]
    for epoch in (1 << 57, (1 << 63) - 1):
        mixture.set_epoch(epoch)
        batch = mixture[:]
        assert_own(batch)
        for source, (count, part) in enumerate(zip(mixture.counts, parts, strict=True)):
            expected = [(epoch * count + k) % len(part) for k in range(count)]
            assert batch.index[batch.source == source].tolist() == expected


def test_parts_that_are_subsets(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset([parts[0].subset([5, 3, 3]), parts[1], parts[2].subset([6])])
    batch = mixture[:]
    assert_own(batch)
    assert batch.index[batch.source == 0].tolist() == [5, 3, 3]
    assert batch.index[batch.source == 2].tolist() == [6]
    assert torch.equal(mixture.n_atoms, batch.n_atoms)


def test_subsets_of_a_mixture(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts, [1, 1, 1], "min")
    mixture.set_epoch(2)
    train, test = mixture.split([0.6, 0.4], seed=0)
    assert (len(train), len(test)) == (13, 8)
    drawn = [*train[:].energy.tolist(), *test[:].energy.tolist()]
    assert sorted(drawn) == sorted(mixture[:].energy.tolist())
    assert torch.equal(train.n_atoms, train[:].n_atoms)
    assert train.counts == tuple(torch.bincount(train[:].source, minlength=3).tolist())
    assert f"{train.counts[0]} of AtpDataset" in repr(train)
    assert mixture.subset([]).counts == (0, 0, 0)
    mixture.set_epoch(0)
    assert drawn == [*train[:].energy.tolist(), *test[:].energy.tolist()]
    with pytest.raises(ValueError, match="set_epoch: expected the mixture itself"):
        train.set_epoch(1)
    copied = pickle.loads(pickle.dumps(train))
    assert torch.equal(copied[:].energy, train[:].energy)


@pytest.mark.parametrize("augment", [None, apt.Augment(noise=0.1)])
def test_subsets_choose_forces_in_epochs_of_their_own(
    new_path: NewPath, augment: apt.Augment | None
) -> None:
    def made(first: int = 0) -> apt.MixtureDataset:
        parts = [apt.AtpDataset(p, force_subset=forces, augment=augment) for p in paths]
        parts[0].set_epoch(first)
        return apt.MixtureDataset(parts, epoch="max")

    def chosen(batch: apt.MoleculeBatch) -> dict[tuple[int, int], bool]:
        molecules = zip(batch.source.tolist(), batch.index.tolist(), strict=True)
        return dict(zip(molecules, batch.mask("forces").tolist(), strict=True))

    paths = [new_path() for _ in range(2)]
    for path in paths:
        with apt.AtpWriter(path) as writer:
            writer.write([apt.Molecule(np.zeros((1, 3)), [1], forces=np.ones((1, 3)))] * 40)
    forces = apt.ForceSubset(0.5, resample=True)
    whole, mixture = made(first=3), made()
    train, test = mixture.split([0.6, 0.4], seed=0)
    loader = apt.Loader(train, len(train))
    seen: list[dict[tuple[int, int], bool]] = []
    for epoch in range(3):
        whole.set_epoch(epoch)
        every = chosen(whole[:])
        loader.set_epoch(epoch)
        seen.append(chosen(next(iter(loader))))
        assert seen[-1] == {molecule: every[molecule] for molecule in seen[-1]}
        mixture.set_epoch(7)
        test.set_epoch(9)
        train.close()  # opened again, as in a worker process
        assert chosen(train[:]) == seen[-1]
    assert seen[0] != seen[1] != seen[2]


@pytest.mark.parametrize(
    "method", [None, "fork", pytest.param("spawn", marks=pytest.mark.exhaustive)]
)
def test_in_a_data_loader(parts: list[apt.AtpDataset], method: str | None) -> None:
    mixture = apt.MixtureDataset(parts, [1, 1, 1], "max")
    mixture.set_epoch(1)
    expected = mixture[:]
    loader = DataLoader(
        mixture, batch_size=16, num_workers=2 if method else 0, multiprocessing_context=method
    )
    batches = list(loader)
    for batch in batches:
        assert_own(batch)
        assert len({batch[name].untyped_storage().data_ptr() for name in batch.keys()}) == 1
    assert torch.equal(torch.cat([batch.energy for batch in batches]), expected.energy)


def test_a_pickle_is_small_and_keeps_its_epoch(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts, epoch=100_000)
    mixture.set_epoch(3)
    first = mixture[:50]
    pickled = pickle.dumps(mixture)
    assert len(pickled) < 3 * 1024
    assert torch.equal(pickle.loads(pickled)[:50].energy, first.energy)


def test_fields_of_some_sources(new_path: NewPath) -> None:
    with_stress = write(new_path(), 0, 5, stress=np.ones((5, 3, 3)))
    without = write(new_path(), 1, 5)
    sets = [apt.AtpDataset(path) for path in (with_stress, without)]
    batch = apt.MixtureDataset(sets)[:]
    assert torch.equal(batch.mask("stress"), batch.source == 0)


def test_a_source_need_not_name_what_it_does_not_have(new_path: NewPath) -> None:
    with_stress = write(new_path(), 0, 5, stress=np.ones((5, 3, 3)))
    without = write(new_path(), 1, 5)
    with pytest.raises(apt.FieldError, match=f"{without.name}: no field 'stress'"):
        apt.AtpDataset(without, fields=["stress"])

    def mixture(missing: Any, *fields: list[str]) -> apt.MixtureDataset:
        paths = zip((with_stress, without), fields, strict=True)
        return apt.MixtureDataset(
            [apt.AtpDataset(path, fields=names, missing=missing) for path, names in paths]
        )

    every = mixture("nan", ["stress", "energy"], ["energy"])
    assert torch.equal(every[:].mask("stress"), every[:].source == 0)
    dropped = mixture("drop", ["energy", "stress"], ["energy"])[:]
    assert dropped.source.tolist() == [0] * 5
    assert dropped.index.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(apt.FieldError, match=f"{without.name}.*molecule 0, field 'stress'"):
        mixture("error", ["energy", "stress"], ["energy"])[:]
    with pytest.raises(ValueError, match="expected the same fields in all"):
        mixture("nan", ["stress"], ["energy"])


def test_a_dtype_does_not_depend_on_which_source_was_drawn(new_path: NewPath) -> None:
    paths = [write(new_path(), n, 5, stress=np.ones((5, 3, 3), f"f{4 + 4 * n}")) for n in (0, 1)]
    mixture = apt.MixtureDataset([apt.AtpDataset(path) for path in paths])
    assert mixture.schema["stress"].dtype == torch.float64
    for batch in (mixture.batch([0]), mixture.batch([1]), mixture.batch([]), mixture[2:4]):
        assert batch.stress.dtype == torch.float64
    assert mixture[0].stress.dtype == mixture[1].stress.dtype == torch.float64


def test_a_property_called_source(new_path: NewPath) -> None:
    path = write(new_path(), 1, 5, properties={"source": np.arange(5.0)})  # type: ignore[arg-type]
    batch = apt.MixtureDataset([apt.AtpDataset(write(new_path(), 0, 2)), apt.AtpDataset(path)])[:]
    assert sorted(batch.source.tolist()) == [0, 0, 1, 1, 1, 1, 1]
    own = batch["properties/source"][batch.source == 1]
    assert own.tolist() == [0, 1, 2, 3, 4]


def test_a_transform_sees_the_source(parts: list[apt.AtpDataset]) -> None:
    sets = [apt.AtpDataset(part._files[0], transform=_head) for part in parts]
    assert apt.MixtureDataset(sets).batch([0, 1, 2]) == [0, 1, 0]


def _head(batch: apt.MoleculeBatch) -> list[int]:
    return batch.source.tolist()


def test_growing_sources_are_not_ours(new_path: NewPath) -> None:
    path = write(new_path(), 0, 4)
    part = apt.AtpDataset(path)
    mixture = apt.MixtureDataset([part, apt.AtpDataset(write(new_path(), 1, 4))])
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.AtpDataset(path)[:])
    assert part.refresh()
    assert len(part) == 8
    assert len(mixture) == 8
    assert_own(mixture[:])


def test_a_refresh_waits_for_the_next_pass(new_path: NewPath) -> None:
    path = write(new_path(), 0, 4)
    mixture = apt.MixtureDataset([apt.AtpDataset(path), apt.AtpDataset(write(new_path(), 1, 4))])
    begun = iter(apt.Loader(mixture, 2))
    batches = [next(begun)]
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.AtpDataset(path)[:])
    expected = mixture[:]
    assert mixture.refresh()
    assert_same_batch(apt.collate([*batches, *begun]), expected)


def test_loaders_in_the_middle_of_each_other(parts: list[apt.AtpDataset]) -> None:
    mixture = apt.MixtureDataset(parts, [1, 2, 3], "max")

    def loader() -> DataLoader[apt.Molecule]:
        return DataLoader(mixture, 16, sampler=apt.DistributedMoleculeSampler(mixture))

    one = loader()
    first, second = (apt.collate(list(one)) for _ in range(2))
    one, other = loader(), loader()
    list(one)
    begun = iter(one)
    batches = [next(begun), next(begun)]
    assert_same_batch(apt.collate(list(other)), first)
    assert_same_batch(apt.collate([*batches, *begun]), second)


def test_weights_of_other_kinds(parts: list[apt.AtpDataset]) -> None:
    shares = dict(enumerate([1.0, 1.0, 2.0]))
    mixture = apt.MixtureDataset(parts, shares.values(), epoch=40)  # type: ignore[arg-type]
    assert mixture.counts == (10, 10, 20)
    for array in (np.array([1, 1, 2], np.float32), torch.tensor([1.0, 1.0, 2.0])):
        given: Any = array
        assert apt.MixtureDataset(parts, given, epoch=40).counts == mixture.counts


def test_what_is_refused(parts: list[apt.AtpDataset], new_path: NewPath) -> None:
    for wrong in (parts[0], dict(enumerate(parts)), set(parts), iter(parts)):
        name = type(wrong).__name__
        with pytest.raises(TypeError, match=f"^datasets: expected a list of datasets, got {name}$"):
            apt.MixtureDataset(wrong)  # type: ignore[arg-type]
    for weights, got in (
        ({0: 1.0}, "a list of numbers, got dict"),
        (0.5, "a list of numbers, got float"),
        ([1.0, "a", 2.0], "numbers, got 'a'"),
    ):
        with pytest.raises(TypeError, match=f"^weights: expected {got}$"):
            apt.MixtureDataset(parts, weights)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="datasets: expected at least one, got none"):
        apt.MixtureDataset([])
    for others in ([parts[0], [1, 2]], [apt.MixtureDataset(parts)], [range(3)]):
        with pytest.raises(TypeError, match="datasets: expected datasets of molecules of one kind"):
            apt.MixtureDataset(others)  # type: ignore[arg-type]
    for call in (apt.ResidentDataset, lambda path: apt.MixtureDataset([path])):
        with pytest.raises(TypeError, match=r"got str: open it first: apt\.open\('a\.atp'\)"):
            call("a.atp")  # type: ignore[arg-type]
    path = parts[1]._files[0]
    for options in ({"missing": "drop"}, {"fields": ["energy"]}, {"dtype": torch.float64}):
        (name,) = options
        with pytest.raises(ValueError, match=f"expected the same {name} in all: .* in number 1"):
            apt.MixtureDataset([parts[0], apt.AtpDataset(path, **options)])  # type: ignore[arg-type]
    for weights in ([1, 0, 1], [1, -1, 1], [1, float("nan"), 1], [1, float("inf"), 1]):
        with pytest.raises(ValueError, match="weights: expected positive numbers"):
            apt.MixtureDataset(parts, weights)
    with pytest.raises(ValueError, match="weights: expected 3, one per source, got 2"):
        apt.MixtureDataset(parts, [1, 1])
    with pytest.raises(ValueError, match="weights: expected shares of at least 1 in 1000000"):
        apt.MixtureDataset(parts, [1, 1e-8, 1])
    for epoch in ("all", -1, 1.5, True):
        with pytest.raises(ValueError, match="epoch: expected 'min', 'max' or a number"):
            apt.MixtureDataset(parts, epoch=epoch)  # type: ignore[arg-type]
    for epoch, message in (
        (-1, "at least 0, got -1"),
        (1 << 63, f"below 2\\*\\*63, got {1 << 63}"),
    ):
        with pytest.raises(ValueError, match=f"epoch: expected {message}"):
            apt.MixtureDataset(parts).set_epoch(epoch)
    empty = apt.AtpDataset(write(new_path(), 0, 0))
    with pytest.raises(ValueError, match="datasets: expected molecules, got none in number 1"):
        apt.MixtureDataset([parts[0], empty], [1, 1])
    assert len(apt.MixtureDataset([empty, parts[0], empty])) == 100
    assert len(apt.MixtureDataset([empty])) == 0
