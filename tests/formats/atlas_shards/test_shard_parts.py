"""Parts of a dataset of shards: subsets and splits of it, and the blocks of each rank."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.shards import assert_same
from torch.utils.data import DataLoader

import atompack_torch as apt

_TIMEOUT = 200  # seconds: a worker that hangs fails the test
_N, _BLOCK = 64, 7  # in shards of 30: blocks of 7, 7, 7, 7, 2, then the same, then 4


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parts") / "set"
    with apt.ShardWriter(root, shard_size=30, block_size=_BLOCK, strategy=1) as writer:
        for i in range(_N):
            writer.write({"n": i, "x": np.full(3, i)})
    return root


@pytest.mark.parametrize("allow_pickle", [False, True])
def test_subset(root: Path, allow_pickle: bool) -> None:
    members = [5, 63, 0, 5, 31]
    dataset = apt.ShardDataset(root, allow_pickle=allow_pickle)
    part = dataset.subset(members)
    assert len(part) == 5
    assert len(dataset) == _N
    assert [part[i]["n"] for i in range(5)] == members
    assert part[-1]["n"] == 31
    assert part.batch(range(5))["n"].tolist() == members
    assert part.subset([1, -1])[0]["n"] == 63
    assert repr(part).startswith("ShardDataset(5 examples in ")
    with pytest.raises(IndexError, match="example 5 is out of range for a dataset of 5"):
        part[5]
    with pytest.raises(IndexError, match="example 64 is out of range for a dataset of 64"):
        dataset.subset([_N])
    assert_same(pickle.loads(pickle.dumps(part))[1], dataset[63])


def test_loaders_of_a_subset(root: Path) -> None:
    part = apt.ShardDataset(root).subset(range(10, 20))
    batches = list(DataLoader(part, batch_size=4, num_workers=2, timeout=_TIMEOUT))
    assert [batch["n"].tolist() for batch in batches] == [
        [10, 11, 12, 13],
        [14, 15, 16, 17],
        [18, 19],
    ]
    assert [batch["n"].tolist() for batch in apt.Loader(part, 4)] == [
        batch["n"].tolist() for batch in batches
    ]


def test_numbers_of_molecules_are_those_of_the_whole_set(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "set", 10, 2, 0) as writer:
        for n in (1, 2, 3):
            writer.write({"positions": np.zeros((n, 3)), "atomic_numbers": np.ones(n, np.int64)})
    batch = apt.ShardDataset(tmp_path / "set").subset([2, 1]).batch([0, 1])
    assert batch.n_atoms.tolist() == [3, 2]
    assert batch.index.tolist() == [2, 1]


def test_block_sizes_of_a_subset(root: Path) -> None:
    dataset = apt.ShardDataset(root)
    assert dataset.subset(range(5, 16)).block_sizes.tolist() == [2, 7, 2]
    assert dataset.subset([0, 8, 1]).block_sizes.tolist() == [1, 1, 1]
    assert dataset.subset([]).block_sizes.tolist() == []
    assert dataset.subset(range(_N)).block_sizes.tolist() == dataset.block_sizes.tolist()


@pytest.mark.parametrize("allow_pickle", [False, True])
def test_loader(root: Path, allow_pickle: bool) -> None:
    dataset = apt.ShardDataset(root, allow_pickle=allow_pickle)
    loader = apt.Loader(dataset, batch_size=10, shuffle=True, seed=2, num_threads=2)
    first, second = ([n for batch in loader for n in batch["n"].tolist()] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(_N))
    assert first != second
    state: dict[str, Any] = {}
    for k, batch in enumerate(loader):
        if k == 3:
            state = loader.state_dict()
        if k == 4:
            wanted = batch["n"].tolist()
    again = apt.Loader(dataset, batch_size=10, shuffle=True, seed=2)
    again.load_state_dict(state)
    assert next(iter(again))["n"].tolist() == wanted


def test_a_loader_names_what_stops_it(root: Path, tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "set", 10, 2, 0) as writer:
        for example in ({"a": 1}, {"b": 1}):
            writer.write(example)
    for allow_pickle in (False, True):
        loader = apt.Loader(apt.ShardDataset(tmp_path / "set", allow_pickle=allow_pickle), 2)
        with pytest.raises(KeyError, match="a"):
            list(loader)
