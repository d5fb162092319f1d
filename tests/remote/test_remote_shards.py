"""Atlas shards over HTTP and S3: the same examples as from a local folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from file_server import FileServer, serving
from reading import KINDS, SECRET, place, same

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
