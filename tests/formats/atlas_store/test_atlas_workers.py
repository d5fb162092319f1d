"""AtlasDataset in DataLoader workers and in the Loader, as pickles, and next to writers."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.atlas_client import AtlasProcess
from reference.compare import assert_same
from torch.utils.data import ConcatDataset, DataLoader

import atompack_torch as apt

START_METHODS = ("fork", pytest.param("spawn", marks=pytest.mark.exhaustive))
N_DATASETS = 90


@pytest.fixture(scope="module")
def path(atlas_python: AtlasProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Array x in all datasets, y in two of three, s a string."""
    rng, operations = np.random.default_rng(0), []
    for i in range(N_DATASETS):
        name = f"d{i}"
        operations.append(("create_dataset", name))
        for array in ("x", "y") if i % 3 else ("x",):
            values = rng.normal(size=(4, 25)).astype("f4")
            operations += [
                ("define_array", name, array, "float32", [4, 25], ["a", "b"], [2, 10], None),
                ("write", name, array, values, [0, 0]),
            ]
        operations += [
            ("define_array", name, "s", "string", [1], ["a"], None, None),
            ("write", name, "s", np.array([name], object), [0]),
        ]
    return atlas_python.create(tmp_path_factory.mktemp("stores") / "store", operations)


@pytest.fixture
def dataset(path: Path) -> apt.AtlasDataset:
    return apt.AtlasDataset(path, ["x", "y", "s"])


def number_of(name: str) -> int:
    return int(name[1:])


def assert_epoch(batches: Iterable[Any], dataset: apt.AtlasDataset) -> None:
    """Every dataset once, its values as the store reads them one by one."""
    seen = []
    for batch in batches:
        assert_batch(batch, dataset)
        seen += batch["name"]
    assert sorted(map(number_of, seen)) == [*range(N_DATASETS)]


def assert_batch(batch: Any, dataset: apt.AtlasDataset) -> None:
    for row, name in enumerate(batch["name"]):
        single = dataset[number_of(name)]
        assert_same(batch["x"][row], single["x"], "x")
        assert bool(batch["y_mask"][row]) == (single["y"] is not None)
        if single["y"] is not None:
            assert_same(batch["y"][row], single["y"], "y")
        else:
            assert bool(batch["y"][row].isnan().all())
        assert batch["s"][row] == [name]


@pytest.mark.parametrize("method", START_METHODS)
def test_two_workers_after_the_parent_has_read(dataset: apt.AtlasDataset, method: str) -> None:
    assert_epoch([dataset.batch(range(N_DATASETS))], dataset)  # every pool is awake
    loader = DataLoader(
        dataset,
        batch_size=16,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    for _ in range(2):
        assert_epoch(loader, dataset)
    del loader
    assert_epoch([dataset[:]], dataset)


def test_tensors_of_a_worker_arrive_in_one_piece(dataset: apt.AtlasDataset) -> None:
    """All tensors of a batch cross the process boundary as one."""
    for batch in DataLoader(dataset, batch_size=30, num_workers=1):
        tensors = [v for v in batch.values() if isinstance(v, torch.Tensor)]
        assert len(tensors) == 5
        assert len({t.untyped_storage().data_ptr() for t in tensors}) == 1


def test_native_loader(dataset: apt.AtlasDataset) -> None:
    loader = apt.Loader(dataset, 16, shuffle=True, num_threads=2)
    for _ in range(2):
        assert_epoch(loader, dataset)
    state = None
    seen: list[str] = []
    for number, batch in enumerate(loader):
        seen += batch["name"]
        if number == 2:
            state = loader.state_dict()
            break
    resumed = apt.Loader(dataset, 16, shuffle=True)
    assert state is not None
    resumed.load_state_dict(state)
    seen += [name for batch in resumed for name in batch["name"]]
    assert sorted(map(number_of, seen)) == [*range(N_DATASETS)]


def test_concat(dataset: apt.AtlasDataset) -> None:
    """A batch that spans two datasets is collated by torch from single items."""
    both: Any = ConcatDataset([dataset.subset([1, 2]), dataset.subset([4])])
    batches = list(DataLoader(both, batch_size=2))
    names = [name for batch in batches for name in batch["name"]]
    assert names == ["d1", "d2", "d4"]


def test_pickles_are_small(path: Path, dataset: apt.AtlasDataset) -> None:
    for _ in range(2):  # before and after the first read
        pickled = pickle.dumps(dataset)
        assert len(pickled) < 1000 + len(str(path))
        assert_batch(pickle.loads(pickled).batch([3, 1]), dataset)
        dataset.batch([3])


def test_errors_in_workers_keep_their_class(dataset: apt.AtlasDataset) -> None:
    ragged = apt.AtlasDataset(dataset.store, ["x"], layout="stacked", dtype=torch.int8)
    with pytest.raises(apt.FieldError, match="cannot be cast to int8"):
        list(DataLoader(ragged, batch_size=4, num_workers=1))
    with pytest.raises(apt.FieldError, match="cannot be cast to int8"):
        list(apt.Loader(ragged, 4))
