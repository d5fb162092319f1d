"""What all readers of URLs promise: hidden secrets, named errors, noticed changes, workers."""

from __future__ import annotations

import errno
import pickle
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from file_server import FileServer, serving
from molecule_files import write
from reading import KINDS, SECRET, Both, place, same
from test_remote_shards import write as write_shards
from test_remote_stores import scanned, write_file, write_store
from torch.utils.data import DataLoader

import atompack_torch as apt

CACHE = Path(__file__).resolve().parents[1] / "fixtures" / "cache" / "water.h5"


class Reader(NamedTuple):
    """A class that opens URLs, and how it is used."""

    place: str
    write: Callable[[Path, int], object]  # of a seed
    open: Callable[..., Any]
    read: Callable[[Any], Any]
    dataset: Callable[..., Any] | None = None  # of the same values, for a DataLoader
    refuses: tuple[Callable[[Any], object], ...] = ()


def features(cache: apt.TorchCache) -> list[Any]:
    found = [cache.load_features(entry) for entry in range(len(cache))]
    cache.close()  # the local copy goes
    return found


READERS = {
    "atp": Reader(
        "a.atp",
        lambda path, seed: write(path, 300, seed),
        apt.AtpDataset,
        lambda dataset: dataset[:],
        apt.AtpDataset,
        (lambda data: data.column("none"), lambda data: data.filter("none > 0")),
    ),
    "shards": Reader(
        "set 2",
        write_shards,
        partial(apt.ShardDataset, cache_blocks=0),
        lambda dataset: dataset.batch(range(len(dataset))),
        apt.ShardDataset,
    ),
    "store": Reader(
        "store",
        write_store,
        apt.AtlasStore,
        lambda store: scanned(store, "depth"),
        lambda place, **options: apt.AtlasDataset(apt.AtlasStore(place, **options), ["depth"]),
        (lambda store: store.scan("none"), lambda store: store.read("none", "depth")),
    ),
    "array file": Reader(
        "my data.af",
        write_file,
        apt.ArrayFile,
        lambda file: [file.read(name) for name in file.names],
    ),
    "cache": Reader(
        "cache.h5",
        lambda path, seed: shutil.copy(CACHE, path),
        apt.TorchCache,
        features,
        apt.TorchCacheDataset,
        (lambda cache: cache.load_features(-100), lambda cache: cache.load_features(100)),
    ),
}
EACH = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
DATASETS = [name for name, reader in READERS.items() if reader.dataset is not None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    for reader in READERS.values():
        reader.write(made / reader.place, 0)
    return made


@EACH
def test_secrets_stand_only_in_pickles(server: FileServer, tmp_path: Path, reader: Reader) -> None:
    server.token = SECRET
    url = f"{place(server, 'http', reader.place)[0]}?sig={SECRET}"
    options = {"token": SECRET, "headers": {"X-Key": SECRET}, "cache": tmp_path / "kept"}
    opened = reader.open(url, storage_options=options)
    assert opened.path == url
    expected = reader.read(opened)
    assert all(SECRET in path for path, _ in server.requests)
    copy = pickle.loads(pickle.dumps(opened))
    assert copy.path == url
    assert same(reader.read(copy), expected)
    assert SECRET.encode() in pickle.dumps(opened)
    shown = [repr(opened), str(opened), repr(copy), *map(str, (tmp_path / "kept").rglob("*"))]
    assert len(shown) > 3
    if reader.dataset in (apt.AtpDataset, apt.TorchCacheDataset):
        with pytest.raises(apt.FieldError) as wrong:
            reader.dataset(url, storage_options=options, fields=["none"])
        shown += [str(wrong.value), repr(wrong.value)]
    if reader.dataset is not None:
        loader = apt.Loader(reader.dataset(url, storage_options=options), 2, shuffle=True)
        next(iter(loader))
        shown += [repr(loader), repr(loader.state_dict())]
    for refused in reader.refuses:
        with pytest.raises((apt.FieldError, IndexError)) as wrong:
            refused(opened)
        shown += [str(wrong.value), repr(wrong.value)]
    server.fault = 403
    with pytest.raises(PermissionError, match=re.escape(url.rpartition("/")[0])) as denied:
        reader.open(url, storage_options=options)
    shown += [str(denied.value), repr(denied.value)]
    assert not [text for text in shown if SECRET in text]


@EACH
@pytest.mark.parametrize("kind", KINDS)
def test_refused_and_missing(server: FileServer, reader: Reader, kind: str) -> None:
    for name, status, error in (
        (reader.place, 404, FileNotFoundError),
        (reader.place, 403, PermissionError),
        (f"none/{reader.place}", None, FileNotFoundError),
    ):
        url, options = place(server, kind, name)
        server.fault = status
        with pytest.raises(error, match=re.escape(url.rpartition("/")[0])):
            reader.open(url, **options)


@EACH
@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_stale_until_refresh(tmp_path: Path, kind: str, reader: Reader) -> None:
    path = tmp_path / "served" / reader.place
    path.parent.mkdir()
    reader.write(path, 0)
    with serving(path.parent) as server:
        url, options = place(server, kind, reader.place)
        storage = {**options.get("storage_options", {}), "cache_bytes": 1}
        opened = reader.open(url, storage_options=storage)
        assert not opened.refresh()
        if reader is READERS["cache"]:
            opened.close()
        held = pickle.dumps(opened)
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        reader.write(path, 1)
        for stale in (opened, pickle.loads(held)):
            with pytest.raises(OSError, match=r"refresh|open it again") as error:
                reader.read(stale)
            assert error.value.errno == errno.ESTALE
        assert opened.refresh()
        assert not opened.refresh()
        assert same(reader.read(opened), reader.read(reader.open(path)))


@pytest.mark.parametrize(
    ("start", "name"),
    [
        *(("fork", name) for name in DATASETS),
        *(("spawn", name) for name in ("atp", "cache")),
        *(pytest.param("spawn", n, marks=pytest.mark.exhaustive) for n in ("shards", "store")),
    ],
)
def test_workers(server: FileServer, folder: Path, start: str, name: str) -> None:
    """The files and connections of the parent are of no use to them."""
    reader = READERS[name]
    assert reader.dataset is not None
    local = reader.dataset(folder / reader.place)
    remote = reader.dataset(place(server, "http", reader.place)[0])
    assert same(remote.batch([0]), local.batch([0]))
    n, n_before = len(local) // 2, len(server.requests)
    order = [[1, 0], [n - 1]]
    loader = DataLoader(
        Both([remote.subset(range(n)), remote.subset(range(n, 2 * n))]),
        batch_sampler=order,
        num_workers=2,
        collate_fn=list,
        multiprocessing_context=start,
        timeout=200,
    )
    for indices, (first, second) in zip(order, loader, strict=True):
        assert same(first, local.batch(indices))
        assert same(second, local.batch([n + i for i in indices]))
    if name == "cache":  # of which they read the parent's copy
        assert len(server.requests) == n_before
