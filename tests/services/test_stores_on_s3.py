"""Stores, array files, Atlas shards and feature caches from S3 servers."""

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

CACHE = Path(__file__).resolve().parents[1] / "fixtures" / "cache" / "water.h5"


def options(server: Server, **others: Any) -> dict[str, Any]:
    return {"endpoint_url": server.endpoint, "key": KEY, "secret": SECRET, **others}


def upload(server: Server, folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            key = path.relative_to(folder.parent).as_posix()
            upload_file(server.store(), f"s3://bucket/{key}", path)


def test_stores_and_array_files(server: Server, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for number in range(40):
            name = f"cast {number}"
            store.create_dataset(name)
            store.define_array(name, "sea temperature", "float32", (30,))
            store.write(name, "sea temperature", rng.normal(size=30).astype("float32"))
            if number == 20:
                store.flush()
    upload(server, tmp_path / "store")
    local = apt.AtlasStore(tmp_path / "store")
    remote = apt.AtlasStore("s3://bucket/store", storage_options=options(server))
    values = local.scan("sea temperature").values
    assert torch.equal(remote.scan("sea temperature").values, values)
    dataset = apt.AtlasDataset(remote, ["sea temperature"])
    loader = DataLoader(dataset, 8, num_workers=2, collate_fn=apt.collate_identity, timeout=120)
    assert torch.equal(torch.cat([batch["sea temperature"] for batch in loader]), values)
    base = "store/sea temperature/data.af"
    file = apt.ArrayFile(f"s3://bucket/{base}", storage_options=options(server))
    assert torch.equal(file.read("cast 7"), apt.ArrayFile(tmp_path / base).read("cast 7"))
    with pytest.raises(FileNotFoundError):
        apt.AtlasStore("s3://bucket/nothing", storage_options=options(server))


def test_shards(server: Server, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with apt.ShardWriter(tmp_path / "set", 16, 4) as writer:
        for number in range(100):
            writer.write({"x": rng.normal(size=7), "number": number})
    upload(server, tmp_path / "set")
    remote = apt.ShardDataset("s3://bucket/set/", storage_options=options(server))
    expected = apt.ShardDataset(tmp_path / "set").batch(range(100))
    loader = DataLoader(remote, 10, num_workers=2, collate_fn=apt.collate_identity, timeout=120)
    found = list(loader)
    assert torch.equal(torch.cat([batch["x"] for batch in found]), expected["x"])  # type: ignore[index]


def test_feature_caches(server: Server, tmp_path: Path) -> None:
    upload_file(server.store(), "s3://bucket/water.h5", CACHE)
    kept = tmp_path / "kept"
    for _ in range(2):
        remote = apt.TorchCache(
            "s3://bucket/water.h5", storage_options={**options(server), "cache": kept}
        )
        found, expected = remote.load_features(0), apt.TorchCache(CACHE).load_features(0)
        assert found is not None
        assert expected is not None
        assert torch.equal(found, expected)
    assert len(list(kept.iterdir())) == 1


def test_wrong_keys(rclone: Server) -> None:
    upload_file(rclone.store(), "s3://bucket/water.h5", CACHE)
    wrong = {"storage_options": options(rclone, secret="wrong")}
    for name, open_it in (
        ("store", apt.AtlasStore),
        ("set", apt.ShardDataset),
        ("a.af", apt.ArrayFile),
        ("water.h5", apt.TorchCache),
    ):
        with pytest.raises(PermissionError, match="s3://bucket"):
            open_it(f"s3://bucket/{name}", **wrong)  # type: ignore[operator]
