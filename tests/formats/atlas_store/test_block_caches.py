"""``cache_bytes=`` of stores and array files, and caches that several handles share."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt

N = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of 40 datasets in four blocks, and an array file of two."""
    with apt.AtlasStore(tmp_path / "store", "x", block_bytes=10_000) as store:
        for i in range(N):
            store.create_dataset(f"d{i}")
            store.define_array(f"d{i}", "x", "int32", (250,))
            store.write(f"d{i}", "x", np.arange(i, i + 250, dtype="int32"))
    with apt.ArrayFile(tmp_path / "two.af", "x", block_bytes=1000) as file:
        for i in range(2):
            file.define(f"a{i}", "int32", (250,))
            file.write(f"a{i}", np.arange(i, i + 250, dtype="int32"))
    return tmp_path / "store"


def expected() -> torch.Tensor:
    """Values of all datasets."""
    return torch.arange(N)[:, None].int() + torch.arange(250).int()


def test_two_handles_of_a_store_share_blocks(path: Path) -> None:
    cache = apt.BlockCache(1 << 20)
    first = apt.AtlasStore(path, cache_bytes=cache)
    second = apt.AtlasStore(path, cache_bytes=cache)
    assert torch.equal(torch.as_tensor(first.scan("x").values), expected())
    assert (cache.hits, cache.misses) == (0, 4)
    assert cache.used_bytes == N * 1000
    assert torch.equal(torch.as_tensor(second.scan("x").values), expected())
    assert (cache.hits, cache.misses) == (4, 4)
    assert np.array_equal(np.asarray(second.read("d7", "x")), expected()[7])
    assert (cache.hits, cache.misses) == (5, 4)
    cache.clear()
    assert cache.used_bytes == 0
    first.scan("x", ["d0"])
    assert (cache.hits, cache.misses) == (5, 5)


def test_files_that_replace_others_share_nothing(path: Path) -> None:
    cache = apt.BlockCache(1 << 20)
    before = apt.AtlasStore(path, cache_bytes=cache)
    before.scan("x")
    with apt.AtlasStore(path, "a") as store:
        for i in range(N):
            store.write(f"d{i}", "x", np.full(250, -i, "int32"))
    after = apt.AtlasStore(path, cache_bytes=cache)
    values = torch.as_tensor(after.scan("x").values)
    assert torch.equal(values, (-torch.arange(N).int())[:, None].expand(N, 250))
    assert torch.equal(torch.as_tensor(before.scan("x").values), expected())


@pytest.mark.parametrize("cache_bytes", [None, 0, 1, 20_000, 1 << 20])
def test_any_size_reads_the_same(path: Path, cache_bytes: int | None) -> None:
    store = apt.AtlasStore(path, cache_bytes=cache_bytes)
    dataset = apt.AtlasDataset(path, ["x"], cache_bytes=cache_bytes)
    file = apt.ArrayFile(path.parent / "two.af", cache_bytes=cache_bytes)
    for _ in range(2):
        assert torch.equal(torch.as_tensor(store.scan("x").values), expected())
        assert torch.equal(torch.as_tensor(dataset.batch([3, 1])["x"]), expected()[[3, 1]])
        assert np.array_equal(np.asarray(store.read("d9", "x")), expected()[9])
        assert np.array_equal(np.asarray(file.read("a1")), expected()[1])


def test_none_are_kept_without_memory_for_them(path: Path) -> None:
    cache = apt.BlockCache(0)
    store = apt.AtlasStore(path, cache_bytes=cache)
    file = apt.ArrayFile(path.parent / "two.af", cache_bytes=cache)
    for _ in range(2):
        store.scan("x")
        file.read("a0")
    assert (cache.hits, cache.misses, cache.used_bytes) == (0, 10, 0)


def test_array_files_use_it(path: Path) -> None:
    cache = apt.BlockCache(1 << 20)
    file = apt.ArrayFile(path.parent / "two.af", cache_bytes=cache)
    other = apt.ArrayFile(path.parent / "two.af", cache_bytes=cache)
    for handle in (file, other, pickle.loads(pickle.dumps(file))):
        assert np.array_equal(np.asarray(handle.read("a0")), expected()[0])
    assert (cache.hits, cache.misses) == (1, 1)  # the pickle has one of its own


def test_pickles_hold_the_size_and_keep_sharing(path: Path) -> None:
    cache = apt.BlockCache(12345)
    stores = [apt.AtlasStore(path, cache_bytes=cache) for _ in range(2)]
    stores[0].scan("x")
    copies = pickle.loads(pickle.dumps((*stores, cache)))
    assert copies[2].max_bytes == 12345
    assert (copies[2].hits, copies[2].misses) == (0, 0)
    for store in copies[:2]:
        assert torch.equal(torch.as_tensor(store.scan("x", ["d5"]).values)[0], expected()[5])
    assert (copies[2].hits, copies[2].misses) == (1, 1)


def test_threads_read_with_one_cache(path: Path) -> None:
    cache = apt.BlockCache(25_000)  # two of four blocks

    def reads_right(seed: int) -> bool:
        store = apt.AtlasStore(path, cache_bytes=cache)
        order = np.random.default_rng(seed).permutation(N).tolist()
        read = (np.asarray(store.read(f"d{i}", "x")) for i in order)
        return all(np.array_equal(got, expected()[i]) for got, i in zip(read, order, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(reads_right, range(8)))
    assert cache.hits + cache.misses == 8 * N
    assert cache.used_bytes <= 25_000


def test_a_fork_begins_with_an_empty_one(path: Path) -> None:
    cache = apt.BlockCache(1 << 20)
    store = apt.AtlasStore(path, cache_bytes=cache)
    store.scan("x")
    child = os.fork()
    if child == 0:
        is_empty = (cache.hits, cache.misses, cache.used_bytes) == (0, 0, 0)
        is_right = torch.equal(torch.as_tensor(store.scan("x").values), expected())
        os._exit(0 if is_empty and is_right and cache.misses == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert cache.misses == 4


@pytest.mark.parametrize(
    ("given", "error"), [(-1, ValueError), ("1", TypeError), (True, TypeError)]
)
def test_wrong_sizes_are_refused(path: Path, given: Any, error: type[Exception]) -> None:
    for call in (
        lambda: apt.AtlasStore(path, cache_bytes=given),
        lambda: apt.AtlasDataset(path, ["x"], cache_bytes=given),
        lambda: apt.ArrayFile(path.parent / "two.af", cache_bytes=given),
    ):
        with pytest.raises(error, match="cache_bytes: expected"):
            call()
    with pytest.raises(error, match="max_bytes: expected"):
        apt.BlockCache(given)
