"""``apt.open`` and its relatives for URLs: recognition by content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from file_server import FileServer, serving
from molecule_files import write
from reading import same

import atompack_torch as apt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "a.atp")
    (tmp_path / "without-suffix").write_bytes((tmp_path / "a.atp").read_bytes())
    write(tmp_path / "shards/b.atp", seed=1)
    (tmp_path / "text.md").write_text("some text")
    (tmp_path / "zero").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize("name", ["none.atp", "none.xyz", "none.db", "none", "none/"])
def test_no_such_file_to_convert(server: FileServer, tmp_path: Path, name: str) -> None:
    url, target = f"{server.url}/{name}", tmp_path / "new.atp"
    with pytest.raises(FileNotFoundError, match=re.escape(url)):
        apt.convert(url, target, progress=False)
    with pytest.raises(FileNotFoundError, match=re.escape(url)):
        apt.split(url, [target, tmp_path / "other.atp"], [0.5, 0.5], progress=False)
    if name.endswith(".atp"):
        with pytest.raises(FileNotFoundError, match=re.escape(url)):
            apt.compact(url, target)
    assert not target.exists()


@pytest.mark.parametrize("name", ["a.atp", "without-suffix", "a.atp?download=1"])
def test_files_are_recognized_by_content(server: FileServer, folder: Path, name: str) -> None:
    local = apt.AtpDataset(folder / "a.atp")
    url = f"{server.url}/{name}"
    remote = apt.open(url, fields=["energy"], storage_options={"cache_bytes": 1 << 20})
    assert isinstance(remote, apt.AtpDataset)
    assert same(remote[:], apt.AtpDataset(folder / "a.atp", fields=["energy"])[:])
    assert len(server.requests) <= 6
    described, expected = apt.info(url), apt.info(folder / "a.atp")
    assert described["n_molecules"] == expected["n_molecules"] == 60
    assert described["schema"] == expected["schema"]
    assert described["labels"] == expected["labels"]
    assert [m["energy"] for m in apt.head(url, 3)] == [local[i]["energy"] for i in range(3)]  # type: ignore[index]
    verification = apt.verify(url)
    assert verification.ok
    assert verification.n_molecules == 60  # type: ignore[union-attr]
    found = apt.statistics(url)
    assert found.as_dict() == apt.statistics(folder / "a.atp").as_dict()  # type: ignore[union-attr]


def test_lists_are_recognized(server: FileServer, folder: Path) -> None:
    urls = [f"{server.url}/a.atp", f"{server.url}/shards/b.atp"]
    local = apt.AtpDataset([folder / "a.atp", folder / "shards/b.atp"])
    assert same(apt.open(urls)[:], local[:])
    assert same(apt.open([urls[0], str(folder / "shards/b.atp")])[:], local[:])
    assert apt.info(urls)["n_molecules"] == 120


def test_what_cannot_be_opened_is_an_error(server: FileServer) -> None:
    with pytest.raises(FileNotFoundError, match=re.escape(f"{server.url}/none.atp")):
        apt.open(f"{server.url}/none.atp?key=SECRET")
    with pytest.raises(FileNotFoundError, match="expected a file or a folder of a known format"):
        apt.info(f"{server.url}/shards/")  # no listing
    with pytest.raises(apt.UnsupportedFormatError, match="got a text file") as error:
        apt.open(f"{server.url}/text.md?key=SECRET")
    assert "SECRET" not in str(error.value)
    with pytest.raises(apt.UnsupportedFormatError, match="got none of them"):
        apt.open(f"{server.url}/zero")
    server.fault = 403
    with pytest.raises(PermissionError, match=re.escape(server.url)):
        apt.open(f"{server.url}/a.atp")


@pytest.mark.parametrize("opened", [apt.open, apt.AtpDataset])
def test_a_page_of_html_is_named(server: FileServer, opened: Any) -> None:
    server.page = b"<!DOCTYPE html><html>please log in</html>" * 200
    with pytest.raises(apt.AtompackError, match="got a page of HTML"):
        opened(f"{server.url}/a.atp")


def test_text_is_read_from_files(server: FileServer, folder: Path) -> None:
    (folder / "a.xyz").write_text("1\nenergy=1\nH 0 0 0\n")
    for opened in (apt.open, apt.info):
        with pytest.raises(ValueError, match="expected a local path of extended XYZ, got a URL"):
            opened(f"{server.url}/a.xyz")


def test_hidden_objects_are_no_data(server: FileServer, folder: Path) -> None:
    write(folder / "mixed/a.atp")
    for name in (".a.atp", ".trash/a.atp", "A.ATP"):
        write(folder / "mixed" / name, seed=1)
    found = apt.open("s3://bucket/mixed", storage_options=server.s3)
    assert same(found[:], apt.AtpDataset(folder / "mixed/a.atp")[:])


def test_options_reach_the_store(server: FileServer) -> None:
    server.token = "TOKEN"
    url = f"{server.url}/a.atp"
    for call in (apt.open, apt.info, apt.head, apt.verify, apt.statistics):
        with pytest.raises(PermissionError):
            call(url)
        assert call(url, storage_options={"token": "TOKEN"})
        with pytest.raises(ValueError, match="storage_options: expected"):
            call(url, storage_options={"tokens": "TOKEN"})


def test_damage_is_listed(server: FileServer, folder: Path) -> None:
    data = bytearray((folder / "a.atp").read_bytes())
    data[0] ^= 0xFF
    data[8300:8340] = bytes(40)
    (folder / "a.atp").write_bytes(data)
    url = f"{server.url}/a.atp?key=SECRET"
    found = apt.verify(url)
    assert not found.ok
    assert f"{server.url}/a.atp" in str(found.as_dict())
    assert "SECRET" not in str(found.as_dict())
    assert "SECRET" not in str(apt.info(url))


def test_two_files_that_differ_in_their_query(tmp_path: Path) -> None:
    """As from servers that find files by a query."""
    paths = {f"n={i}": write(tmp_path / f"{i}.atp", seed=i) for i in (1, 2)}
    with serving(tmp_path, by_query=paths) as server:
        urls = [f"{server.url}/download?{query}" for query in paths]
        assert same(apt.AtpDataset(urls)[:], apt.AtpDataset(list(paths.values()))[:])
        cache = tmp_path / "cache"
        for _ in range(2):
            remote = apt.AtpDataset(urls, storage_options={"cache": cache})
            assert same(remote[:], apt.AtpDataset(list(paths.values()))[:])
