"""``AtpDataset`` from S3 servers: files, folders of shards, workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.uploading import upload_file
from s3_servers import KEY, SECRET, Server
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.listing import list_names

COUNT = 600


def write(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    with apt.AtpWriter(path, codec="zstd") as writer:
        writer.write_arrays(
            positions=rng.normal(size=(COUNT, 9, 3)),
            atomic_numbers=rng.integers(1, 80, (COUNT, 9)),
            energy=rng.normal(size=COUNT),
        )
    return path


def options(server: Server, **others: Any) -> dict[str, Any]:
    return {"endpoint_url": server.endpoint, "key": KEY, "secret": SECRET, **others}


@pytest.fixture
def local(server: Server, tmp_path: Path) -> apt.AtpDataset:
    for i, name in enumerate(["a b.atp", "sub/c+d.atp", "e=%.atp"]):
        path = tmp_path / "shards" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        upload_file(server.store(), f"s3://bucket/set/{name}", write(path, i))
    upload_file(server.store(), "s3://bucket/set/readme.txt", Path(__file__))
    return apt.AtpDataset(tmp_path / "shards")


def test_a_folder_of_shards(server: Server, local: apt.AtpDataset) -> None:
    remote = apt.AtpDataset("s3://bucket/set", storage_options=options(server))
    assert len(remote) == 3 * COUNT
    assert torch.equal(remote.n_atoms, local.n_atoms)
    loader = apt.Loader(remote, 32, shuffle=True, seed=3, num_threads=2)
    expected = apt.Loader(local, 32, shuffle=True, seed=3)
    for batch, wanted in zip(loader, expected, strict=True):
        assert torch.equal(batch["positions"], wanted["positions"])
        assert torch.equal(batch["energy"], wanted["energy"])


def test_workers(server: Server, local: apt.AtpDataset) -> None:
    remote = apt.AtpDataset("s3://bucket/set/", storage_options=options(server))
    loader = DataLoader(remote, 50, num_workers=2, collate_fn=apt.collate_identity, timeout=120)
    energies = torch.cat([batch["energy"] for batch in loader])
    assert torch.equal(energies, local[:]["energy"])


def test_wrong_keys_and_missing_objects(rclone: Server, tmp_path: Path) -> None:
    upload_file(rclone.store(), "s3://bucket/one.atp", write(tmp_path / "one.atp", 0))
    with pytest.raises(PermissionError):
        apt.AtpDataset("s3://bucket/one.atp", storage_options=options(rclone, secret="wrong"))
    with pytest.raises(FileNotFoundError):
        apt.AtpDataset("s3://bucket/none.atp", storage_options=options(rclone))
    with pytest.raises(FileNotFoundError, match=r"no \.atp file in this folder"):
        apt.AtpDataset("s3://bucket/nothing/", storage_options=options(rclone))


def test_opening_by_content(server: Server, local: apt.AtpDataset) -> None:
    given = {"storage_options": options(server)}
    remote = apt.open("s3://bucket/set", **given)
    assert torch.equal(remote[:]["energy"], local[:]["energy"])
    one = apt.open("s3://bucket/set/sub/c+d.atp", **given)
    assert len(one) == COUNT
    assert apt.info("s3://bucket/set/", **given)["n_molecules"] == 3 * COUNT
    assert apt.verify("s3://bucket/set", **given).ok
    with pytest.raises(apt.UnsupportedFormatError, match="got a text file"):
        apt.open("s3://bucket/set/readme.txt", **given)
    for url in ("s3://bucket/set/nothing", "s3://bucket/nothing/"):
        with pytest.raises(FileNotFoundError, match=url):
            apt.open(url, **given)


def test_entries_of_a_folder(server: Server, local: apt.AtpDataset) -> None:
    remote = RemoteFiles.checked(options(server))
    expected = ["a b.atp", "e=%.atp", "readme.txt", "sub"]
    assert list_names(remote, "s3://bucket/set") == expected
    assert "set" in list_names(remote, "s3://bucket")
