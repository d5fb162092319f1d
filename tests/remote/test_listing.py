"""Folders of Azure and Google, read and listed by their own interfaces."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from molecule_files import write
from reading import same
from stand_ins import Azure, Google, StandIn, running

import atompack_torch as apt
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.listing import ObjectEntry, list_files, list_names

NAMES = ["set/a b.atp", "set/sub/c+d%.atp", "set/\u00e9.atp", "set/readme.txt", "settle.atp"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i, name in enumerate(NAMES):
        if name.endswith(".atp"):
            write(tmp_path / name, seed=i)
        else:
            (tmp_path / name).write_text("not data")
    return tmp_path


def objects_of(folder: Path, bucket: str) -> dict[str, bytes]:
    return {f"{bucket}/{name}": (folder / name).read_bytes() for name in NAMES}


@pytest.fixture
def azure(folder: Path) -> Iterator[StandIn]:
    with running(Azure(objects_of(folder, "container"))) as made:
        yield made


@pytest.fixture
def google(folder: Path) -> Iterator[StandIn]:
    with running(Google(objects_of(folder, "bucket"))) as made:
        yield made


def signed(service: StandIn) -> dict[str, Any]:
    return {"endpoint_url": service.url, "token": Azure.signature}


def bearing(service: StandIn) -> dict[str, Any]:
    return {"endpoint_url": service.url, "token": service.token}


@pytest.mark.parametrize("options", [signed, bearing])
def test_folders_of_azure(
    azure: StandIn, folder: Path, options: Callable[[StandIn], dict[str, Any]]
) -> None:
    local = apt.AtpDataset(folder / "set")
    for url in ("az://container/set", "az://container/set/"):
        remote = apt.AtpDataset(url, storage_options=options(azure))
        assert same(remote[:], local[:])
    remote = apt.open("az://container/set", storage_options=options(azure))
    assert same(remote[:], local[:])
    listings = [asked for asked in azure.asked if asked.query.get("comp") == "list"]
    assert len(listings) > 4
    assert {asked.path for asked in listings} == {"/container"}
    assert any("marker" in asked.query for asked in listings)
    has_header = ["authorization" in asked.headers for asked in azure.asked]
    assert all(has_header) if options is bearing else not any(has_header)


def test_secrets_of_azure_are_not_shown(azure: StandIn, tmp_path: Path) -> None:
    options = signed(azure)
    remote = apt.AtpDataset("az://container/settle.atp", storage_options=options)
    shown = [repr(remote), repr(remote._remote), str(remote.path)]
    damaged = bytearray(azure.objects["container/settle.atp"])
    damaged[8192:] = bytes(len(damaged) - 8192)
    azure.objects["container/bad.atp"] = bytes(damaged)
    with pytest.raises(apt.AtompackError, match=r"^az://container/bad\.atp: ") as error:
        apt.AtpDataset("az://container/bad.atp", storage_options=options).batch([0])
    shown.append(str(error.value))
    azure.objects["container/settle.atp"] += b"more"
    remote.close()
    with pytest.raises(OSError, match="az://container/settle") as stale:
        remote.batch([0])
    shown.append(str(stale.value))
    with pytest.raises(PermissionError) as refused:
        apt.AtpDataset("az://container/set", storage_options={**options, "token": "sig=WRONGSIG"})
    shown.append(str(refused.value))
    assert not [text for text in shown if "SIG" in text or "sig" in text]


def test_folders_of_google(google: StandIn, folder: Path) -> None:
    local = apt.AtpDataset(folder / "set")
    for url in ("gs://bucket/set", "gs://bucket/set/"):
        remote = apt.AtpDataset(url, storage_options=bearing(google))
        assert same(remote[:], local[:])
    with pytest.raises(PermissionError) as error:
        apt.AtpDataset("gs://bucket/set", storage_options={**bearing(google), "token": "WRONG"})
    assert "WRONG" not in str(error.value)
    copy = pickle.loads(pickle.dumps(remote))
    assert torch.equal(copy.n_atoms, local.n_atoms)


def test_entries_of_a_folder(azure: StandIn, google: StandIn) -> None:
    files = {
        "az://container": RemoteFiles.checked(signed(azure)),
        "gs://bucket": RemoteFiles.checked(bearing(google)),
    }
    for root, remote in files.items():
        found = [entry.url for entry in list_files(remote, f"{root}/set")]
        assert sorted(found) == sorted(f"{root}/{name}" for name in NAMES if "set/" in name)
        expected = ["a b.atp", "readme.txt", "sub", "\u00e9.atp"]
        assert list_names(remote, f"{root}/set/") == expected
        assert list_names(remote, root) == ["set", "settle.atp"]
        assert list_names(remote, f"{root}/nothing") == []
        with pytest.raises(FileNotFoundError, match=f"{root}/nothing"):
            remote.files_in(f"{root}/nothing", ".atp")


def test_folders_of_http_servers_have_no_listing() -> None:
    remote = RemoteFiles()
    with pytest.raises(OSError, match="name the files in a list") as error:
        list(list_files(remote, "https://u:SECRET@h/folder?SECRET"))
    assert error.value.errno == errno.EOPNOTSUPP
    assert "SECRET" not in str(error.value)


def test_names_with_nul_are_refused() -> None:
    with pytest.raises(apt.CorruptFileError, match=r"s3://b/ac: a listing: .*without NUL"):
        ObjectEntry("s3://b/a\0c", 1, "")
