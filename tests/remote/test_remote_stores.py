"""ATLAS stores and array files over HTTP and S3: the same values as from local files."""

from __future__ import annotations

import errno
import functools
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from file_server import FileServer, serving
from reading import KINDS, place, same

import atompack_torch as apt
from atompack_torch.remote import client

COUNT = 60
NUMBERS = ["depth", "sea temperature"]
ARRAYS = [*NUMBERS, "label"]


def write_store(folder: Path, seed: int = 0, flushes: int = 3, **options: Any) -> Path:
    """A store whose arrays have a base and several sidecars."""
    rng = np.random.default_rng(seed)
    with apt.AtlasStore(folder, "x", block_bytes=2000, **options) as store:
        for flush in range(flushes):
            for number in range(flush, COUNT, flushes):
                name = f"cast-{number:03}"
                store.create_dataset(name)
                store.set_attr(name, "ship", f"s{seed}-{number}")
                store.define_array(name, "depth", "float32", (20,))
                store.write(name, "depth", rng.normal(size=20).astype("float32"))
                if number % 3:
                    store.define_array(name, "sea temperature", "float64", (20,), chunk_shape=(7,))
                    store.write(name, "sea temperature", rng.normal(size=20))
                store.define_array(name, "label", "string", (2,))
                store.write(name, "label", [f"é{number}", "x" * number])
            store.flush()
    return folder


def write_file(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    with apt.ArrayFile(path, "x", block_bytes=4000) as file:
        for number in range(12):
            file.define(f"a{number}", "float64", (300,), chunk_shape=(70,))
            file.write(f"a{number}", rng.normal(size=300))
            if number % 4 == 3:
                file.flush()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    write_store(made / "store")
    write_store(made / "packed", codec="lz4", metadata="msgpack.lz4")
    with apt.AtlasStore(made / "packed", "a") as store:
        store.compact()
    write_file(made / "my data.af")
    return made


def scanned(store: apt.AtlasStore, array: str) -> list[Any]:
    scan = store.scan(array, layout="list")
    return [scan.values, scan.mask.tolist(), scan.datasets]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["store", "packed"])
def test_stores_are_those_of_the_folder(
    server: FileServer, folder: Path, kind: str, name: str
) -> None:
    url, options = place(server, kind, name)
    local, remote = apt.AtlasStore(folder / name), apt.AtlasStore(url, **options)
    assert (remote.datasets, remote.arrays) == (local.datasets, local.arrays)
    for array in ARRAYS:
        assert same(scanned(remote, array), scanned(local, array))
        assert remote.schema(array) == local.schema(array)
        assert remote.stats(array) == local.stats(array)
    many = remote.scan_many(NUMBERS, [3, 1, 3], start=(2,), shape=(9,), layout="jagged")
    for array, scan in local.scan_many(NUMBERS, [3, 1, 3], (2,), (9,), "jagged").items():
        assert same([many[array].values, many[array].offsets], [scan.values, scan.offsets])
    assert remote.attrs("cast-007") == local.attrs("cast-007")
    assert same(remote.read("cast-007", "label"), local.read("cast-007", "label"))
    assert remote.select("depth", min=2) == local.select("depth", min=2)


@pytest.mark.parametrize("kind", KINDS)
def test_array_files_are_those_of_the_folder(server: FileServer, folder: Path, kind: str) -> None:
    url, options = place(server, kind, "my data.af")
    local, remote = apt.ArrayFile(folder / "my data.af"), apt.ArrayFile(url, **options)
    assert remote.names == local.names
    assert len(remote.names) == 12
    assert remote.stats() == local.stats()
    for name in local.names:
        assert same(remote.read(name), local.read(name))
        assert remote.schema(name) == local.schema(name)
    assert same(remote.read("a5", (60,), (90,)), local.read("a5", (60,), (90,)))
    copy = pickle.loads(pickle.dumps(remote))
    assert copy.path == remote.path == url
    assert same(copy.read("a9"), local.read("a9"))
    assert same(pickle.loads(pickle.dumps(local)).read("a9"), local.read("a9"))
    assert not remote.refresh()


def test_batches_of_a_loader(server: FileServer, folder: Path) -> None:
    local = apt.AtlasDataset(folder / "store", ARRAYS, layout="list")
    remote = apt.AtlasDataset(f"{server.url}/store", ARRAYS, layout="list")
    order = torch.randperm(COUNT).view(-1, 6).tolist()
    loader = apt.Loader(remote, batch_sampler=order, num_threads=2)
    for indices, batch in zip(order, loader, strict=True):
        assert same(batch, local.batch(indices))
    assert same(remote[7], local[7])
    assert remote.schema == local.schema
    assert torch.equal(remote.block_sizes, local.block_sizes)
    assert not remote.refresh()
    assert same(remote.batch([7]), local.batch([7]))


def test_requests_are_bounded(server: FileServer, folder: Path) -> None:
    store = apt.AtlasStore(f"{server.url}/packed")
    assert len(server.requests) <= 8 + 2 + 5 * len(ARRAYS) + 8
    n_before = len(server.requests)
    store.scan("depth", layout="list")
    once = len(server.requests) - n_before
    assert once <= 1 + 8  # its file, which is small, and that the store is the same
    store.scan("depth", layout="list")
    assert len(server.requests) - n_before == once
    with serving(folder) as other:
        apt.AtlasStore("s3://bucket/packed", storage_options=other.s3).scan("depth", layout="list")
        assert len(other.requests) <= 6 + len(ARRAYS) + 3


def test_array_files_are_not_written_to_http(server: FileServer) -> None:
    with pytest.raises(OSError, match="cannot be written to"):
        apt.ArrayFile(f"{server.url}/new.af", "x")


def test_answers_that_break_off(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.n_cuts = 2
    store = apt.AtlasStore(f"{server.url}/store")  # tried again
    assert server.n_cuts == 0
    patient = client.RemoteStore
    monkeypatch.setattr(client, "RemoteStore", functools.partial(patient, max_attempts=2))
    server.n_cuts = 1000
    with pytest.raises(OSError, match=re.escape(server.url)) as error:
        apt.AtlasStore(f"{server.url}/store")
    assert error.value.errno == errno.EIO
    server.n_cuts = 0
    assert len(store.scan("depth", layout="list").values) == COUNT


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_flush_is_seen_after_refresh(tmp_path: Path, kind: str) -> None:
    write_store(tmp_path / "store")
    with serving(tmp_path) as server:
        url, options = place(server, kind, "store")
        store = apt.AtlasStore(url, **options)
        before = scanned(store, "depth")
        with apt.AtlasStore(tmp_path / "store", "a") as writer:
            writer.write("cast-001", "depth", np.zeros(20, np.float32))
        assert same(scanned(store, "depth"), before)
        assert store.refresh()
        assert not store.read("cast-001", "depth").any()  # type: ignore[union-attr]
        with apt.AtlasStore(tmp_path / "store", "a") as writer:
            writer.compact()
        store.refresh()
        assert not store.read("cast-001", "depth").any()  # type: ignore[union-attr]


def test_shorter_objects_are_stale(server: FileServer) -> None:
    store = apt.AtlasStore(f"{server.url}/store", storage_options={"cache_bytes": 1})
    server.fault = 416
    with pytest.raises(OSError, match=re.escape(server.url)) as error:
        store.scan("depth")
    assert error.value.errno == errno.ESTALE


def test_the_block_cache_serves_the_next_handle(
    server: FileServer, folder: Path, tmp_path: Path
) -> None:
    options = {"storage_options": {"cache": tmp_path / "cache"}}
    first = apt.AtlasStore(f"{server.url}/packed", **options)  # type: ignore[arg-type]
    expected = scanned(apt.AtlasStore(folder / "packed"), "depth")
    assert same(scanned(first, "depth"), expected)
    second = apt.AtlasStore(f"{server.url}/packed", **options)  # type: ignore[arg-type]
    assert same(scanned(second, "depth"), expected)
    names = [str(path) for path in (tmp_path / "cache").rglob("*")]
    assert names
    assert not [name for name in names if "packed" in name or "127.0.0.1" in name]


def test_names_that_are_escaped_in_urls(tmp_path: Path, folder: Path) -> None:
    shutil.copytree(folder / "store", tmp_path / "100%25 store")
    with serving(tmp_path) as server:
        store = apt.AtlasStore(f"{server.url}/100%2525%20store/")
        assert len(store.scan("sea temperature", layout="list").values) == COUNT
