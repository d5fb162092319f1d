"""Atlas shards over HTTP and S3: the same examples as from a local folder."""

from __future__ import annotations

import errno
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from file_server import FileServer, serving
from reading import KINDS, SECRET, Both, place, same
from torch.utils.data import DataLoader

import atompack_torch as apt

COUNT = 260
N_SHARDS = 13


def write(root: Path, seed: int = 0, count: int = COUNT, strategy: int = 2) -> Path:
    rng = np.random.default_rng(seed)
    with apt.ShardWriter(root, 20, 4, strategy=strategy) as writer:
        for number in range(count):
            writer.write({"x": rng.normal(size=(5, 3)), "number": number, "name": f"é{number}"})
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    for strategy in (0, 1, 2, 3):
        write(made / f"set {strategy}", strategy=strategy)
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", [0, 1, 2, 3])
def test_examples_are_those_of_the_folder(
    server: FileServer, folder: Path, kind: str, strategy: int
) -> None:
    url, options = place(server, kind, f"set {strategy}")
    local, remote = apt.ShardDataset(folder / f"set {strategy}"), apt.ShardDataset(url, **options)
    assert (len(remote), remote.path, remote.root) == (COUNT, url, url)
    assert torch.equal(remote.block_sizes, local.block_sizes)
    order = torch.randperm(COUNT).view(-1, 26).tolist()
    loader = apt.Loader(remote, batch_sampler=order, num_threads=2)
    for indices, batch in zip(order, loader, strict=True):
        assert same(batch, local.batch(indices))
    assert same(remote[17], local[17])
    assert remote.schema == local.schema
    unpickled = apt.ShardDataset(url, allow_pickle=True, **options)
    assert same(unpickled.batch([5, -1]), local.batch([5, -1]))


@pytest.mark.parametrize(
    ("start", "kind"), [("fork", "http"), pytest.param("spawn", "s3", marks=pytest.mark.exhaustive)]
)
def test_workers_of_a_loader(server: FileServer, folder: Path, start: str, kind: str) -> None:
    url, options = place(server, kind, "set 2")
    local, remote = apt.ShardDataset(folder / "set 2"), apt.ShardDataset(url, **options)
    parts = [remote.subset(range(100)), remote.subset(range(100, COUNT))]
    assert same(parts[1].batch([0]), local.batch([100]))  # before the fork
    loader = DataLoader(
        Both(parts),
        batch_sampler=[[1, 50, 3], [0, 99], [7]],
        num_workers=2,
        collate_fn=list,
        multiprocessing_context=start,
        timeout=200,
    )
    for indices, (first, second) in zip([[1, 50, 3], [0, 99], [7]], loader, strict=True):
        assert same(first, local.batch(indices))
        assert same(second, local.batch([100 + i for i in indices]))


def test_requests_are_bounded(server: FileServer) -> None:
    url, options = place(server, "s3", "set 2")
    remote = apt.ShardDataset(url, **options)
    # The root with its dictionary and listing; meta.json, index.npy and data.bin of each shard.
    assert len(server.requests) <= 3 + 3 * N_SHARDS
    n_before = len(server.requests)
    remote.batch(range(0, COUNT, 4))
    once = len(server.requests) - n_before
    assert once <= 2 * N_SHARDS
    remote.batch(range(0, COUNT, 4))
    assert len(server.requests) - n_before == once
    with serving(server.folder) as other:
        apt.ShardDataset(f"{other.url}/set%202")
        assert len(other.requests) <= 2 + 3 * N_SHARDS


def test_paths_and_secrets(server: FileServer) -> None:
    server.token = SECRET
    url = f"{server.url}/set%202?sig={SECRET}"
    options = {"token": SECRET, "headers": {"X-Key": SECRET}}
    remote = apt.ShardDataset(url, storage_options=options)
    assert remote.path == url
    assert all(SECRET in path for path, _ in server.requests)
    assert SECRET.encode() in pickle.dumps(remote)
    copy = pickle.loads(pickle.dumps(remote))
    assert same(copy.batch([1, 2]), remote.batch([1, 2]))
    loader = apt.Loader(remote, 10, shuffle=True)
    next(iter(loader))
    shown = [repr(remote), repr(copy), repr(loader), repr(loader.state_dict())]
    server.fault = 403
    with pytest.raises(PermissionError, match=re.escape(f"{server.url}/set%202")) as error:
        pickle.loads(pickle.dumps(remote)).batch([1])
    shown += [str(error.value), repr(error.value)]
    assert not [text for text in shown if SECRET in text]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("status", "error"), [(404, FileNotFoundError), (403, PermissionError)])
def test_refused_and_missing(
    server: FileServer, kind: str, status: int, error: type[OSError]
) -> None:
    url, options = place(server, kind, "set 2")
    server.fault = status
    with pytest.raises(error, match=re.escape(url)):
        apt.ShardDataset(url, **options)
    server.fault = None
    url, options = place(server, kind, "none")
    with pytest.raises(FileNotFoundError, match=re.escape(url)):
        apt.ShardDataset(url, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_data_sets_are_stale_until_refresh(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "set")
    with serving(tmp_path) as server:
        url, options = place(server, kind, "set")
        storage = {"cache_bytes": 1, **options.get("storage_options", {})}
        remote = apt.ShardDataset(url, cache_blocks=0, storage_options=storage)
        held = pickle.dumps(remote)
        before = remote.batch([3])
        shutil.rmtree(tmp_path / "set")
        write(tmp_path / "set", seed=1)
        for read in (lambda: remote.batch([200]), lambda: pickle.loads(held).batch([3])):
            with pytest.raises(OSError, match=r"refresh|open it again") as error:
                read()
            assert error.value.errno == errno.ESTALE
        assert remote.refresh()
        assert not remote.refresh()
        assert same(remote.batch([3]), apt.ShardDataset(tmp_path / "set").batch([3]))
        assert not same(remote.batch([3]), before)


def test_more_digits_of_shards(tmp_path: Path) -> None:
    for count in (20, 21, 221):
        shutil.rmtree(tmp_path / "set", ignore_errors=True)
        write(tmp_path / "set", count=count, strategy=1)
        with serving(tmp_path) as server:
            remote = apt.ShardDataset(f"{server.url}/set/")
            assert [remote[i]["number"] for i in range(len(remote))] == list(range(count))  # type: ignore[index]


def test_damage_is_reported_with_the_url(tmp_path: Path) -> None:
    path = write(tmp_path / "set", strategy=1) / "03" / "data.bin"
    data = bytearray(path.read_bytes())
    data[0] ^= 0xFF
    path.write_bytes(data)
    with serving(tmp_path) as server:
        url = f"{server.url}/set"
        remote = apt.ShardDataset(f"{url}?sig={SECRET}")
        with pytest.raises(apt.CorruptFileError, match=re.escape(url)) as error:
            remote.batch([60])
        assert SECRET not in str(error.value)
