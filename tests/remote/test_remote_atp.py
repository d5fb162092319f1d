"""``AtpDataset`` over HTTP: the same batches as from a local file."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import re
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from file_server import FileServer, serving
from reading import same
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.remote import client
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.local_copies import local_copy

COUNT = 3000
BATCH = 50


def write(path: Path, codec: Any = "none", count: int = COUNT, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    with apt.AtpWriter(path, codec=codec) as writer:
        writer.write_arrays(
            positions=rng.normal(size=(count, 12, 3)),
            atomic_numbers=rng.integers(1, 80, (count, 12)),
            energy=rng.normal(size=count),
            forces=rng.normal(size=(count, 12, 3)),
            properties={"charge": rng.integers(-2, 3, count)},
        )
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    for codec in ("none", "lz4", "zstd"):
        write(made / f"{codec}.atp", codec)
    write(made / "with space+%.atp", count=10)
    return made


def next_batch(dataset: apt.AtpDataset) -> apt.MoleculeBatch:
    return next(iter(apt.Loader(dataset, BATCH, shuffle=True, num_threads=2)))


def order() -> list[list[int]]:
    numbers = torch.randperm(COUNT, generator=torch.Generator().manual_seed(7))
    batches: list[list[int]] = numbers.view(-1, BATCH).tolist()
    return batches


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_batches_are_those_of_the_file(server: FileServer, folder: Path, codec: str) -> None:
    local = apt.AtpDataset(folder / f"{codec}.atp")
    remote = apt.AtpDataset(f"{server.url}/{codec}.atp")
    assert len(remote) == COUNT
    assert torch.equal(remote.n_atoms, local.n_atoms)
    assert remote.schema == local.schema
    loader = apt.Loader(remote, batch_sampler=order(), num_threads=2)
    for indices, batch in zip(order(), loader, strict=True):
        assert same(batch, local.batch(indices))
    assert same(remote.batch([5, -1, 5]), local.batch([5, -1, 5]))
    assert remote[17]["energy"] == local[17]["energy"]
    assert len(pickle.dumps(remote)) < 1500


def test_records_of_a_batch_are_requested_together(server: FileServer, folder: Path) -> None:
    remote = apt.AtpDataset(f"{server.url}/none.atp")
    numbers = list(range(0, COUNT, 100))
    remote.batch(numbers)
    n_before = len(server.requests)
    remote.batch(numbers)  # all of it is in memory
    assert len(server.requests) == n_before
    assert n_before <= 3 + len(numbers) + 2  # opening twice, the index, a run for each record


def test_workers_read_a_mixture(server: FileServer, folder: Path) -> None:
    local = apt.MixtureDataset([apt.AtpDataset(folder / "zstd.atp")])
    remote = apt.MixtureDataset([apt.AtpDataset(f"{server.url}/zstd.atp")])
    remote.batch([0])  # the parent's connections are of no use to a fork
    loader = DataLoader(
        remote,
        batch_sampler=order()[:12],
        num_workers=2,
        collate_fn=apt.collate_identity,
        multiprocessing_context="fork",
        timeout=200,
    )
    for indices, batch in zip(order(), loader, strict=False):
        assert same(batch, local.batch(indices))


def test_names_are_encoded(server: FileServer, folder: Path) -> None:
    remote = apt.AtpDataset(f"{server.url}/with%20space%2B%25.atp")
    assert same(remote.batch([3]), apt.AtpDataset(folder / "with space+%.atp").batch([3]))


def test_lists_of_files(server: FileServer, folder: Path) -> None:
    names = ["none.atp", "zstd.atp"]
    remote = apt.AtpDataset([f"{server.url}/{name}" for name in names])
    local = apt.AtpDataset([folder / name for name in names])
    numbers = [0, COUNT, 2 * COUNT - 1, 77, COUNT + 5]
    assert same(remote.batch(numbers), local.batch(numbers))
    mixed = apt.AtpDataset([f"{server.url}/none.atp", folder / "zstd.atp"])
    assert same(mixed.batch(numbers), local.batch(numbers))


def test_a_folder_that_cannot_be_listed(server: FileServer) -> None:
    with pytest.raises(OSError, match="cannot be listed: name the files in a list") as error:
        apt.AtpDataset(f"{server.url}/folder/")
    assert error.value.errno == errno.EOPNOTSUPP


def test_the_block_cache_serves_the_next_process(
    server: FileServer, folder: Path, tmp_path: Path
) -> None:
    local = apt.AtpDataset(folder / "none.atp")
    url, cache = f"{server.url}/none.atp", tmp_path / "cache"
    first = apt.AtpDataset(url, storage_options={"cache": cache})
    for indices in order():
        assert same(first.batch(indices), local.batch(indices))
    n_before = len(server.requests)
    second = apt.AtpDataset(url, storage_options={"cache": cache})
    for indices in order():
        assert same(second.batch(indices), local.batch(indices))
    assert len(server.requests) - n_before <= 3  # opening, to find out the version
    names = [str(path) for path in cache.rglob("*")]
    assert names
    assert not [name for name in names if "none" in name or "127.0.0.1" in name]


@pytest.mark.parametrize("etag", [{}, {"ETag": 'W/"1"'}])
def test_a_date_alone_is_no_version_for_the_next_opening(
    tmp_path: Path, etag: dict[str, str]
) -> None:
    cache = tmp_path / "cache"
    with serving(tmp_path) as server:
        server.headers = {**etag, "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        url, remote = f"{server.url}/a.atp", RemoteFiles.checked({"cache": cache})
        for seed in (0, 1):
            (tmp_path / "a.atp").unlink(missing_ok=True)
            path = write(tmp_path / "a.atp", seed=seed)
            assert same(
                apt.AtpDataset(url, storage_options={"cache": cache})[:], apt.AtpDataset(path)[:]
            )
            copied = local_copy(remote, url)
            assert Path(copied.path).read_bytes() == path.read_bytes()


def test_memory_is_bounded(server: FileServer) -> None:
    limit = 1 << 20
    remote = apt.AtpDataset(f"{server.url}/none.atp", storage_options={"cache_bytes": limit})
    for _ in range(2):
        for _ in apt.Loader(remote, BATCH, shuffle=True, num_threads=2):
            assert remote._remote.stats()["http"]["held_bytes"] <= 2 * limit


@pytest.mark.parametrize("read", [next_batch, apt.AtpDataset.statistics])
def test_ctrl_c_ends_the_waits_of_all_threads(
    server: FileServer, read: Callable[[apt.AtpDataset], object]
) -> None:
    remote = apt.AtpDataset(f"{server.url}/none.atp")
    server.stalls = True
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            read(remote)
        gc.collect()  # the pass, which its traceback refers to
        assert time.monotonic() - start < 10
    finally:
        server.stalls = False
    assert read(remote)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="storage_options"):
        apt.AtpDataset("s3://b/a.atp", storage_options={"keys": "x"})
    with pytest.raises(ValueError, match="cache_bytes"):
        apt.AtpDataset("s3://b/a.atp", storage_options={"cache_bytes": 0})
    with pytest.raises(TypeError, match="cache_bytes"):
        apt.AtpDataset("s3://b/a.atp", storage_options={"cache_bytes": "1 GB"})


def test_damage_is_reported_with_the_url(tmp_path: Path) -> None:
    path = write(tmp_path / "a.atp", count=100)
    data = bytearray(path.read_bytes())
    data[8192] ^= 0xFF
    path.write_bytes(data)
    with serving(tmp_path) as server:
        url = f"{server.url}/a.atp"
        with pytest.raises(apt.CorruptFileError, match=re.escape(url)):
            apt.AtpDataset(url).batch([0])
        path.write_bytes(data[:5000])
        with pytest.raises(apt.CorruptFileError, match=re.escape(url)):
            apt.AtpDataset(url)
        path.write_bytes(b"")
        with pytest.raises(apt.CorruptFileError, match=re.escape(url)):
            apt.AtpDataset(url)


def test_data_sets_leave_nothing_behind(server: FileServer, tmp_path: Path) -> None:
    """Neither threads nor descriptors, whose other ends are in this process too."""
    url = f"{server.url}/with space+%.atp"

    def use() -> tuple[int, ...]:
        for options in ({}, {"storage_options": {"cache": tmp_path / "blocks"}}):
            apt.AtpDataset(url, **options)[:]
        apt.info(url)
        gc.collect()
        return tuple(len([*Path(f"/proc/self/{kind}").iterdir()]) for kind in ("task", "fd"))

    before = use()
    for _ in range(6):
        after = use()
    assert all(now < then + 6 for now, then in zip(after, before, strict=True))


def test_connections_leave_descriptors_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {(100, 100): 24, (40, 100): 20, (1, 1): 1, (resource.RLIM_INFINITY,) * 2: 24}
    for limit, expected in limits.items():
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: limit)
        assert client._connections() == expected
