"""Handles of feature caches: closing, opening again, pickles."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import atompack_torch as apt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Features of three molecules."""
    with apt.AtpWriter(tmp_path / "m.atp") as writer:
        positions = np.random.default_rng(1).normal(size=(3, 4, 3))
        writer.write_arrays(positions=positions, atomic_numbers=np.ones((3, 4), np.uint8))
    descriptor = apt.ChebyshevDescriptor(["H"], 2, 4.0, 2, 3.0)
    dataset = apt.AtpDataset(tmp_path / "m.atp")
    apt.build_cache(dataset, descriptor, tmp_path / "c.h5", progress=False).close()
    return tmp_path / "c.h5"


def mappings_of(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


def test_close_unmaps_and_the_next_use_opens_again(path: Path) -> None:
    with apt.TorchCache(path) as cache:
        before = cache.load_features(1)
        batch = cache.batch([0, 2], fields=["features"])
        assert mappings_of(path) > 0
    assert mappings_of(path) == 0
    assert torch.equal(batch.features, cache.batch([0, 2], fields=["features"]).features)
    after = cache.load_features(1)
    assert before is not None
    assert after is not None
    assert torch.equal(before, after)
    cache.close()
    cache.close()
    assert (len(cache), cache.path) == (3, path)


def test_another_file_is_not_taken_for_the_closed_one(path: Path) -> None:
    cache = apt.TorchCache(path)
    cache.close()
    copy = path.with_name("copy.h5")
    copy.write_bytes(path.read_bytes())
    copy.replace(path)
    with pytest.raises(OSError, match=str(path)):
        cache.load_features(0)


def test_a_closed_handle_can_be_pickled(path: Path) -> None:
    cache = apt.TorchCache(path)
    cache.close()
    again = pickle.loads(pickle.dumps(cache))
    assert again.path == path
    assert torch.equal(again.load_features(0), cache.load_features(0))


def test_a_dataset_outlives_the_handle(path: Path) -> None:
    cache = apt.TorchCache(path)
    dataset = apt.TorchCacheDataset(cache)
    cache.close()
    assert dataset.batch([0, 1]).features.shape[0] == 8


def test_refresh(path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(path, tmp_path / "copy.h5"))
    cache = apt.TorchCache(copy)
    assert not cache.refresh()
    n = len(cache)
    dataset = apt.TorchCacheDataset(path).subset([0])
    copy.unlink()
    apt.build_cache(dataset, cache.descriptor, copy, progress=False)  # type: ignore[arg-type]
    assert cache.refresh()
    assert (n > 1, len(cache)) == (True, 1)
