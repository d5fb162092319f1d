"""All readers from S3 servers that others have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reading import same
from reference.uploading import upload_file
from s3_servers import KEY, SECRET, Server
from test_every_reader import EACH, READERS, Reader
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.listing import list_names


def options(server: Server, **others: Any) -> dict[str, Any]:
    given = {"endpoint_url": server.endpoint, "key": KEY, "secret": SECRET, **others}
    return {"storage_options": given}


def upload(server: Server, path: Path) -> None:
    """A file, or all below a folder."""
    for file in path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.stem}*"):
        if file.is_file():
            key = file.relative_to(path.parent).as_posix()
            upload_file(server.store(), f"s3://bucket/{key}", file)


@EACH
def test_values_are_those_of_local_files(server: Server, tmp_path: Path, reader: Reader) -> None:
    url, path = f"s3://bucket/{reader.place}", tmp_path / reader.place
    reader.write(path, 0)
    upload(server, path)
    expected = reader.read(reader.open(path))
    assert same(reader.read(reader.open(url, **options(server))), expected)
    assert same(reader.read(reader.open(url, **options(server, cache=tmp_path / "c"))), expected)
    if reader.dataset is not None:
        remote, local = (
            reader.dataset(url, **options(server)),
            reader.dataset(tmp_path / reader.place),
        )
        order = [[1, 0], [2]]
        loader = DataLoader(
            remote,
            batch_sampler=order,
            num_workers=2,
            collate_fn=apt.collate_identity,
            timeout=120,
        )
        for indices, batch in zip(order, loader, strict=True):
            assert same(batch, local.batch(indices))


@EACH
def test_wrong_keys_and_missing_objects(rclone: Server, tmp_path: Path, reader: Reader) -> None:
    reader.write(tmp_path / reader.place, 0)
    upload(rclone, tmp_path / reader.place)
    with pytest.raises(PermissionError, match="s3://bucket"):
        reader.open(f"s3://bucket/{reader.place}", **options(rclone, secret="wrong"))
    with pytest.raises(FileNotFoundError, match="s3://bucket"):
        reader.open(f"s3://bucket/nothing/{reader.place}", **options(rclone))


def test_a_folder_of_shards(server: Server, tmp_path: Path) -> None:
    for seed, name in enumerate(("a b.atp", "sub/c+d.atp", "e=%.atp")):
        READERS["atp"].write(tmp_path / "set" / name, seed)
    (tmp_path / "set/readme.txt").write_text("some text")
    upload(server, tmp_path / "set")
    local, given = apt.AtpDataset(tmp_path / "set"), options(server)
    remote = apt.AtpDataset("s3://bucket/set", **given)
    loaders = [apt.Loader(ds, 32, shuffle=True, seed=3, num_threads=2) for ds in (remote, local)]
    for batch, wanted in zip(*loaders, strict=True):
        assert same(batch, wanted)
    assert same(apt.open("s3://bucket/set", **given)[:], local[:])
    one = apt.open("s3://bucket/set/sub/c+d.atp", **given)
    assert same(one[:], apt.AtpDataset(tmp_path / "set/sub/c+d.atp")[:])
    assert apt.info("s3://bucket/set/", **given)["n_molecules"] == len(local)
    assert apt.verify("s3://bucket/set", **given).ok
    with pytest.raises(apt.UnsupportedFormatError, match="got a text file"):
        apt.open("s3://bucket/set/readme.txt", **given)
    for url in ("s3://bucket/set/nothing", "s3://bucket/nothing/"):
        with pytest.raises(FileNotFoundError, match=url):
            apt.open(url, **given)
    with pytest.raises(FileNotFoundError, match=r"no \.atp file in this folder"):
        apt.AtpDataset("s3://bucket/nothing/", **given)
    files = RemoteFiles.checked(given["storage_options"])
    assert list_names(files, "s3://bucket/set") == ["a b.atp", "e=%.atp", "readme.txt", "sub"]
    assert "set" in list_names(files, "s3://bucket")
