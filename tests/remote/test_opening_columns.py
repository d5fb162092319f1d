"""``apt.open`` and its relatives for URLs of shards, stores and array files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
from file_server import serving
from stand_ins import Azure, Bytes, Hub, running

import atompack_torch as apt

COMMIT = "4" * 40
KINDS = ("http", "memory", "azure", "hub")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("columns")
    rng = np.random.default_rng(0)
    with apt.ShardWriter(made / "shards", 20, 5) as writer:
        for i in range(50):
            writer.write({"x": rng.normal(size=4), "label": i})
    with apt.AtlasStore(made / "store", "x") as store:
        for d in range(6):
            store.create_dataset(f"d{d}")
            store.define_array(f"d{d}", "a", "float64", (3,))
            store.write(f"d{d}", "a", rng.normal(size=3))
    with apt.ArrayFile(made / "file.af", "x") as file:
        file.define("v", "float32", (100,))
        file.write("v", np.arange(100, dtype=np.float32))
    return made


@pytest.fixture(params=KINDS)
def root(
    request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, dict[str, Any]]]:
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    if request.param == "http":
        with serving(folder) as server:
            yield server.url, {}
    elif request.param == "memory":
        system = fsspec.filesystem("memory")
        system.store.clear()
        for name, data in files.items():
            system.pipe(f"/{name}", data)
        yield "memory://", {}
        system.store.clear()
    elif request.param == "azure":
        objects = {f"container/{name}": data for name, data in files.items()}
        with running(Azure(objects, page=50)) as service:
            options = {"endpoint_url": service.url, "token": Azure.signature}
            yield "az://container", options
    else:
        store = Bytes({f"{COMMIT}/{name}": data for name, data in files.items()})
        with running(store):
            hub = Hub(commits={"main": COMMIT}, trees={COMMIT: files}, store=store, page=50)
            with running(hub):
                monkeypatch.setenv("HF_ENDPOINT", hub.url)
                yield "hf://datasets/owner/name", {"token": hub.token}


def at(root: str, name: str) -> str:
    return f"{root}{'' if root.endswith('/') else '/'}{name}"


def plain(value: Any) -> Any:
    """Without paths, and with arrays as lists."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in ("path", "files", "file_bytes")}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", ["shards", "store", "file.af"])
def test_inspection_is_that_of_the_local_path(
    root: tuple[str, dict[str, Any]], folder: Path, name: str
) -> None:
    url, options = at(root[0], name), {"storage_options": root[1] or None}
    local = folder / name
    found, expected = apt.info(url, **options), apt.info(local)
    assert plain(found) == plain(expected)
    is_known = not root[0].startswith("http") or name == "file.af"
    sizes = str(found).count(str(expected.get("file_bytes", "None")))
    assert sizes or not is_known or name == "shards"
    assert plain(apt.head(url, 3, **options)) == plain(apt.head(local, 3))
    assert plain(apt.verify(url, **options).as_dict()) == plain(apt.verify(local).as_dict())
    if name != "shards":
        assert plain(apt.statistics(url, **options)) == plain(apt.statistics(local))


def test_shards_are_opened(root: tuple[str, dict[str, Any]], folder: Path) -> None:
    remote = apt.open(at(root[0], "shards"), storage_options=root[1] or None)
    local = apt.ShardDataset(folder / "shards")
    assert isinstance(remote, apt.ShardDataset)
    assert len(remote) == 50
    numbers = [0, 49, 7, 23]
    assert torch.equal(remote.batch(numbers)["x"], local.batch(numbers)["x"])  # type: ignore[index]


def test_stores_are_opened(root: tuple[str, dict[str, Any]], folder: Path) -> None:
    url, options = at(root[0], "store"), {"storage_options": root[1] or None}
    remote = apt.open(url, arrays=["a"], **options)
    assert isinstance(remote, apt.AtlasDataset)
    local = apt.AtlasDataset(folder / "store", ["a"])
    assert torch.equal(remote.batch([4, 1])["a"], local.batch([4, 1])["a"])
    with pytest.raises(TypeError, match="arrays: expected names of arrays of the store \\('a'\\)"):
        apt.open(url, **options)


def test_what_is_not_there_is_an_error(root: tuple[str, dict[str, Any]]) -> None:
    url = at(root[0], "nothing")
    for call in (apt.open, apt.info, apt.head, apt.verify, apt.statistics):
        with pytest.raises(FileNotFoundError, match=re.escape(url)):
            call(url, storage_options=root[1] or None)
