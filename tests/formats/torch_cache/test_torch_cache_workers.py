"""Caches in DataLoader workers and in the Loader, as pickles, and files that change during use."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from processes.client import ScriptServer
from reference.cache_fixture import CacheFixture
from torch.utils.data import DataLoader

import atompack_torch as apt

START_METHODS = ("fork", pytest.param("spawn", marks=pytest.mark.exhaustive))


@pytest.fixture(scope="module")
def expected(fixtures: Path) -> CacheFixture:
    return CacheFixture(fixtures.parent / "torch_cache", "v2_both_f64_three")


@pytest.fixture
def copied(expected: CacheFixture, tmp_path: Path) -> Path:
    path = tmp_path / "copy.h5"
    shutil.copyfile(expected.path, path)
    return path


def assert_epoch(batches: Iterable[Any], expected: CacheFixture) -> None:
    seen: list[int] = []
    for batch in batches:
        expected.assert_batch(batch, batch.index.tolist())
        seen += batch.index.tolist()
    assert sorted(seen) == [*range(len(expected))]


@pytest.mark.parametrize("method", START_METHODS)
def test_two_workers_after_the_parent_has_read(expected: CacheFixture, method: str) -> None:
    dataset = apt.TorchCacheDataset(expected.path)
    expected.assert_batch(dataset.batch(range(11)), range(11))  # every pool of the parent is awake
    loader = DataLoader(
        dataset,
        batch_size=3,
        shuffle=True,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    for _ in range(2):
        assert_epoch(loader, expected)
    del loader
    expected.assert_batch(dataset.batch([10]), [10])


def test_native_loader(expected: CacheFixture) -> None:
    dataset = apt.TorchCacheDataset(expected.path)
    loader = apt.Loader(dataset, 3, shuffle=True, num_threads=2)
    for _ in range(2):
        assert_epoch(loader, expected)
    budget = apt.AtomBudgetBatchSampler(dataset, 6)
    assert_epoch(apt.Loader(dataset, batch_sampler=budget, num_threads=1), expected)


def test_pickles_are_small(expected: CacheFixture) -> None:
    dataset = apt.TorchCacheDataset(expected.path, exclude=["features"])
    for _ in range(2):  # before and after the first read
        pickled = pickle.dumps(dataset)
        assert len(pickled) < 1000
        assert "features" not in pickle.loads(pickled).batch([3])
        dataset.batch([3])
    cache = pickle.loads(pickle.dumps(apt.TorchCache(expected.path)))
    assert len(pickle.dumps(cache)) < 1000
    assert cache.load_features(0) is not None


def test_a_file_that_was_replaced(copied: Path, expected: CacheFixture) -> None:
    """What is open reads on; what opens again later says so."""
    dataset = apt.TorchCacheDataset(copied)
    pickled = pickle.dumps(dataset)
    other = copied.with_name("other.h5")
    shutil.copyfile(expected.path, other)
    other.rename(copied)
    expected.assert_batch(dataset.batch(range(11)), range(11))
    with pytest.raises(OSError, match="the file was replaced"):
        pickle.loads(pickled).batch([0])
    with pytest.raises(OSError, match="the file was replaced"):
        list(DataLoader(dataset, num_workers=1, multiprocessing_context="spawn"))
    copied.unlink()
    expected.assert_batch(dataset.batch(range(11)), range(11))
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled).batch([0])


TRUNCATED = """
import os, sys
import atompack_torch as apt

path = sys.argv[1]
cache = apt.TorchCache(path)
dataset = apt.TorchCacheDataset(cache)
dataset.batch([0])
whole = os.path.getsize(path)
os.truncate(path, whole // 2)
calls = (
    lambda: dataset.batch(range(11)),
    lambda: dataset[10],
    lambda: cache.load_features(10),
    lambda: cache.load_force_derivatives(10),
    lambda: cache.batch([10]),
    lambda: list(apt.Loader(dataset, 3)),
    lambda: apt.TorchCache(path),
)
for number, call in enumerate(calls):
    try:
        call()
    except apt.CorruptFileError as error:
        assert path in str(error), error
    else:
        raise AssertionError(f"call {number} read a file that was cut")
print("refused")
"""


def test_a_file_that_was_cut_while_it_was_open(copied: Path, scripts: ScriptServer) -> None:
    """A named error, in a separate process, which SIGBUS would end."""
    done = scripts.run(TRUNCATED, copied)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
