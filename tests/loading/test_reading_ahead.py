"""Batches of files that are not in memory, which are read ahead."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import atompack_torch as apt

COUNT = 40_000  # some 40 MB: one fault may read as much as 8 MiB
BATCH = 64
WINDOW = 512  # molecules announced ahead


def is_evicted(path: Path) -> bool:
    """Tries to drop a file from memory; mincore() answers truthfully of one's own files."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapping:
            pages = np.ones(-(-len(mapping) // mmap.PAGESIZE), np.uint8)
            start = ctypes.byref(ctypes.c_char.from_buffer(mapping))
            failed = ctypes.CDLL(None).mincore(
                start, ctypes.c_size_t(len(mapping)), pages.ctypes.data_as(ctypes.c_void_p)
            )
            del start
    assert not failed
    return not (pages & 1).any()


def evict(path: Path) -> None:
    """Drops a file from memory; skips the test where its file system has no other place for it."""
    for _ in range(20):  # pages that are being written or queued are not dropped immediately
        if is_evicted(path):
            return
        time.sleep(0.1)
    pytest.skip(f"the file system of {path} keeps files in memory")


def evicted_copy(path: Path, to: Path) -> Path:
    """A copy that nobody has mapped, since mapped pages in use are not dropped."""
    shutil.copy(path, to)
    evict(to)
    return to


def write(path: Path, seed: int, count: int = COUNT) -> Path:
    rng = np.random.default_rng(seed)
    with apt.AtpWriter(path, codec="none") as writer:
        writer.write_arrays(
            positions=rng.normal(size=(count, 20, 3)),
            atomic_numbers=rng.integers(1, 80, (count, 20)),
            energy=rng.normal(size=count),
            forces=rng.normal(size=(count, 20, 3)),
        )
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("original") / "a.atp", 0)


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    return evicted_copy(original, tmp_path / "a.atp")


def order() -> list[list[int]]:
    numbers = torch.randperm(COUNT, generator=torch.Generator().manual_seed(3))
    batches: list[list[int]] = numbers.view(-1, BATCH).tolist()
    return batches


def check(
    batches: Iterator[apt.MoleculeBatch], reference: apt.AtpDataset | apt.MixtureDataset
) -> None:
    seen = 0
    for indices, batch in zip(order(), batches, strict=True):
        expected = reference.batch(indices)
        for name in ("positions", "forces", "energy", "atomic_numbers", "ptr"):
            assert torch.equal(batch[name], expected[name]), name
        seen += 1
    assert seen == COUNT // BATCH


@pytest.fixture(scope="module")
def reference(original: Path) -> apt.AtpDataset:
    return apt.AtpDataset(original)


@pytest.mark.parametrize(("access", "threads"), [("auto", 3), ("random", 1), ("sequential", 3)])
def test_loader(path: Path, reference: apt.AtpDataset, access: Any, threads: int) -> None:
    dataset = apt.AtpDataset(path, access=access)
    check(iter(apt.Loader(dataset, batch_sampler=order(), num_threads=threads)), reference)


def test_batches(path: Path, reference: apt.AtpDataset) -> None:
    check(map(apt.AtpDataset(path).batch, order()), reference)


def test_workers(path: Path, reference: apt.AtpDataset) -> None:
    workers = DataLoader(
        apt.AtpDataset(path),
        batch_sampler=order(),
        num_workers=2,
        collate_fn=apt.collate_identity,
        multiprocessing_context="fork",
    )
    check(iter(workers), reference)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    for i in range(4):
        write(folder / f"{i}.atp", i, COUNT // 4)
    return folder


def evicted_shards(shards: Path, to: Path) -> list[Path]:
    to.mkdir()
    return [evicted_copy(shard, to / shard.name) for shard in sorted(shards.iterdir())]


@pytest.mark.parametrize("kind", ["shards", "subset", "mixture"])
def test_several_files(shards: Path, tmp_path: Path, kind: str) -> None:
    parts, batches = evicted_shards(shards, tmp_path / "copies"), order()
    dataset: Any = apt.AtpDataset(tmp_path / "copies")
    reference: Any = apt.AtpDataset(shards)
    if kind == "subset":
        turned = torch.arange(COUNT - 1, -1, -1)
        dataset, batches = dataset.subset(turned), [turned[indices].tolist() for indices in batches]
    elif kind == "mixture":
        dataset, reference = (
            apt.MixtureDataset([apt.AtpDataset(part) for part in files])
            for files in (parts, sorted(shards.iterdir()))
        )
    check(iter(apt.Loader(dataset, batch_sampler=batches, num_threads=1)), reference)


class Counting:
    """Batches of indices, counting those that were drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def __iter__(self) -> Iterator[list[int]]:
        for indices in order():
            self.drawn += 1
            yield indices


def test_the_loader_looks_further_ahead_only_where_it_helps(original: Path, path: Path) -> None:
    original.read_bytes()
    resident, sampler = apt.AtpDataset(original), Counting()
    batches = iter(apt.Loader(resident, batch_sampler=sampler, num_threads=1, prefetch=3))
    for taken in range(1, 20):
        next(batches)
        assert sampler.drawn <= taken + 3
    sampler = Counting()
    batches = iter(apt.Loader(apt.AtpDataset(path), batch_sampler=sampler, num_threads=1))
    for _ in range(20):
        next(batches)
    assert 20 + WINDOW // BATCH - 1 <= sampler.drawn <= 20 + WINDOW // BATCH + 4


def test_state_counts_delivered_batches(path: Path) -> None:
    loader = apt.Loader(apt.AtpDataset(path), BATCH, shuffle=True, num_threads=1)
    batches = iter(loader)
    for _ in range(50):
        next(batches)
    state = loader.state_dict()
    assert state["batches"] == 50
    expected = next(batches)["energy"]
    resumed = apt.Loader(apt.AtpDataset(path), BATCH, shuffle=True, num_threads=1)
    resumed.load_state_dict(state)
    assert torch.equal(next(iter(resumed))["energy"], expected)


def test_damaged_index_entries_are_reported_in_their_turn(tmp_path: Path) -> None:
    path = write(tmp_path / "damaged.atp", 0, 2560)
    with path.open("r+b") as file:  # the index lies at the end: some entry with an offset outside
        file.seek(-20 * 500, os.SEEK_END)
        file.write(b"\xff" * 8)
    dataset = apt.AtpDataset(path)
    evict(path)
    loader = apt.Loader(dataset, BATCH, num_threads=1)
    batches = iter(loader)
    damaged = 2060 // BATCH
    for _ in range(damaged):
        next(batches)
    with pytest.raises(apt.CorruptFileError, match="index entry"):
        next(batches)
    assert len(list(batches)) == 2560 // BATCH - damaged - 1
