"""DataLoader(AtpDataset(...)) without a collate_fn: every way of starting workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.client import AtompackProcess
from reference import strategies
from reference.atp_file import AtpFile
from reference.collate import ReferenceDataset
from reference.compare import assert_batch
from reference.names import reserved_names
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

import atompack_torch as apt

NewPath = Callable[[], Path]
N_MOLECULES = 40
RECIPE = strategies.Recipe(
    "f4",
    {"energy": "f8", "forces": "f4", "cell": "f8", "pbc": "f8", "name": "f8"},
    {"gap": strategies.Kind("float"), "field": strategies.Kind("tensor", "f4", ((2, 2), (1, 4)))},
    {"magmom": strategies.Kind("array", "f8")},
)


@pytest.fixture(scope="module")
def path(atompack: AtompackProcess, new_path: NewPath) -> Path:
    """Forty molecules with every kind of field."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 30, N_MOLECULES)
    molecules = [strategies.molecule(rng, RECIPE, n, present=0.8) for n in sizes]
    return atompack.write(new_path(), molecules, "zstd")


@pytest.fixture(scope="module")
def reference(path: Path) -> ReferenceDataset:
    """The reference's reading of ``path``."""
    return ReferenceDataset([AtpFile.open(path)], reserved_names())


def assert_epoch(
    loader: Iterable[Any], reference: ReferenceDataset, offset: int = 0, ordered: bool = True
) -> list[int]:
    """Check each batch of a pass by its own ``index``; returns the numbers seen."""
    seen: list[int] = []
    for batch in loader:
        assert isinstance(batch, apt.MoleculeBatch)
        numbers = batch.index.tolist()
        assert_batch(batch, reference.batch(numbers))
        seen += numbers
    assert sorted(seen) == list(range(offset, offset + len(seen)))
    assert not ordered or seen == sorted(seen)
    return seen


@pytest.mark.parametrize("shuffle", [False, True])
def test_no_workers(path: Path, reference: ReferenceDataset, shuffle: bool) -> None:
    loader = DataLoader(apt.AtpDataset(path), batch_size=16, shuffle=shuffle)
    assert len(assert_epoch(loader, reference, ordered=not shuffle)) == N_MOLECULES
    assert [len(b) for b in loader] == [16, 16, 8]
    dropping = DataLoader(apt.AtpDataset(path), batch_size=16, drop_last=True)
    assert [len(b) for b in dropping] == [16, 16]


@pytest.mark.parametrize(
    ("method", "parent_reads_first"),
    [
        pytest.param("fork", False, marks=pytest.mark.exhaustive),
        ("fork", True),
        ("spawn", True),
        ("forkserver", True),
    ],
)
def test_two_workers(
    path: Path, reference: ReferenceDataset, method: str, parent_reads_first: bool
) -> None:
    dataset = apt.AtpDataset(path)
    if parent_reads_first:  # on both threads, so that every pool of the parent is awake
        assert_batch(dataset.batch(range(40)), reference.batch(range(40)))
    loader = DataLoader(
        dataset,
        batch_size=8,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    for _ in range(2):
        assert len(assert_epoch(loader, reference, ordered=False)) == N_MOLECULES
    del loader
    assert_batch(dataset.batch([3, 3]), reference.batch([3, 3]))


def test_a_batch_of_one_and_batches_off(path: Path, reference: ReferenceDataset) -> None:
    loader = DataLoader(apt.AtpDataset(path), batch_size=1)
    assert len(assert_epoch(loader, reference)) == N_MOLECULES
    first = next(iter(DataLoader(apt.AtpDataset(path), batch_size=None)))
    assert isinstance(first, apt.Molecule)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_subset(path: Path, reference: ReferenceDataset, num_workers: int) -> None:
    chosen = [5, 3, 30, 3]
    subset = Subset(apt.AtpDataset(path), chosen)
    (batch,) = DataLoader(subset, batch_size=4, num_workers=num_workers)
    assert_batch(batch, reference.batch(chosen))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_concat_dataset(path: Path, reference: ReferenceDataset, num_workers: int) -> None:
    """A batch may span both parts; each molecule keeps the number it has in its own dataset."""
    dataset = apt.AtpDataset(path)
    both: Dataset[Any] = ConcatDataset([dataset, dataset.subset([1, 2])])
    loader = DataLoader(both, batch_size=21, num_workers=num_workers)
    numbers = [*range(N_MOLECULES), 1, 2]
    batches = list(loader)
    assert [len(b) for b in batches] == [21, 21]
    for batch, at in zip(batches, (0, 21), strict=True):
        want = reference.batch(numbers[at : at + 21])
        assert batch.index.tolist() == numbers[at : at + 21]
        for key in ("positions", "atomic_numbers", "ptr", "batch", "n_atoms", "energy", "forces"):
            assert torch.equal(batch[key].nan_to_num(7.0), want.values[key].nan_to_num(7.0)), key
            if key in want.masks:
                assert torch.equal(batch.mask(key), want.masks[key]), key


@pytest.mark.parametrize("num_workers", [0, 2])
def test_pin_memory_is_accepted(path: Path, reference: ReferenceDataset, num_workers: int) -> None:
    loader = DataLoader(
        apt.AtpDataset(path), batch_size=16, num_workers=num_workers, pin_memory=True
    )
    for batch in loader:
        assert_batch(batch, reference.batch(batch.index.tolist()))
        if torch.cuda.is_available():
            assert batch.positions.is_pinned()


def storages(batch: apt.MoleculeBatch) -> set[int]:
    """Addresses of the storages behind every tensor of a batch."""
    tensors: list[torch.Tensor] = []
    for key in batch.keys():
        value = batch[key]
        tensors += [v for v in (value if isinstance(value, list) else [value]) if _is_tensor(v)]
    return {t.untyped_storage().data_ptr() for t in tensors if t.numel()}


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def test_one_storage_a_batch(path: Path) -> None:
    batch = apt.AtpDataset(path).batch(range(20))
    assert len(storages(batch)) == 1
    for key in batch.keys():
        if isinstance(batch[key], torch.Tensor):
            assert batch[key].data_ptr() % 64 == 0 or batch[key].numel() == 0, key


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.exhaustive)])
def test_arena_of_a_worker_is_shared_memory(path: Path, method: str) -> None:
    """All tensors arrive as views of one shared storage: one descriptor a batch."""
    loader = DataLoader(
        apt.AtpDataset(path), batch_size=20, num_workers=1, multiprocessing_context=method
    )
    for batch in loader:
        assert batch.positions.is_shared()
        assert len(storages(batch)) == 1


def test_batches_outlive_their_workers(path: Path, reference: ReferenceDataset) -> None:
    """Memory is taken back with the last tensor, not with the batch or the worker."""
    kept = list(DataLoader(apt.AtpDataset(path), batch_size=2, num_workers=2))
    forces = [batch.forces for batch in kept]
    for batch in kept:
        assert_batch(batch, reference.batch(batch.index.tolist()))
    numbers = [batch.index.tolist() for batch in kept]
    del kept, batch
    for tensor, index in zip(forces, numbers, strict=True):
        want = reference.batch(index).values["forces"]
        assert torch.equal(tensor.nan_to_num(7.0), want.nan_to_num(7.0))


def test_errors_of_workers_keep_their_class(path: Path) -> None:
    dataset = apt.AtpDataset(path, fields=["energy"], missing="error")
    with pytest.raises(apt.FieldError, match="energy"):
        list(DataLoader(dataset, batch_size=N_MOLECULES, num_workers=1))


def test_workers_leave_no_thread_pool_behind(path: Path) -> None:
    """A worker reads with one thread, as torch tells it."""
    dataset = apt.AtpDataset(path, transform=_with_thread_count)
    loader = DataLoader(dataset, batch_size=20, num_workers=1, multiprocessing_context="fork")
    assert [int(batch["threads"][0]) for batch in loader] == [1, 1]


def _with_thread_count(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch["threads"] = torch.full((len(batch),), torch.get_num_threads())
    return batch
