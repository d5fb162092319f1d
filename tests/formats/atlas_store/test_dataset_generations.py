"""A dataset shows one flush of its store until it is refreshed itself: names, length, values."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import atompack_torch as apt

NAMES = ["a", "b", "c"]


def write(store: apt.AtlasStore, number: float, names: list[str] = NAMES) -> None:
    """Gives the arrays x and y of these datasets this value."""
    for name in names:
        for array in "xy":
            store.write(name, array, [number] * 4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Datasets a, b and c, all values 1."""
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for name in NAMES:
            store.create_dataset(name)
            for array in "xy":
                store.define_array(name, array, "float32", (4,))
        write(store, 1)
    return tmp_path / "store"


def shown(dataset: Any) -> tuple[list[str], set[float]]:
    """Names and values by every way of reading; the same by all of them."""
    batch = dataset.batch(range(len(dataset)))
    assert bool(batch["x_mask"].all())
    found = batch["name"], {*batch["x"].flatten().tolist(), *batch["y"].flatten().tolist()}
    items = [dataset[i] for i in range(len(dataset))]
    assert [item["name"] for item in items] == found[0]
    assert {float(v) for item in items for a in "xy" for v in item[a]} == found[1]
    for loader in (
        DataLoader(dataset, batch_size=2),
        apt.Loader(dataset, batch_size=2),
        apt.Loader(dataset, batch_size=2, num_threads=2),
    ):
        batches = list(loader)
        assert [name for batch in batches for name in batch["name"]] == found[0]
        assert {v for batch in batches for v in batch["x"].flatten().tolist()} == found[1]
    return found


def test_of_a_store_with_pending_changes(path: Path) -> None:
    """What is pending is not shown: neither its names nor its length."""
    with apt.AtlasStore(path, "a") as store:
        before = apt.AtlasDataset(store, ["x", "y"])
        store.delete_dataset("a")
        store.create_dataset("d")
        write(store, 2, ["b", "c"])
        made_after = apt.AtlasDataset(store, ["x", "y"])
        for dataset in (before, made_after):
            assert shown(dataset) == (NAMES, {1})
            assert not dataset.refresh()
            assert shown(dataset.subset([2, 0])) == (["c", "a"], {1})
        store.flush()
        for dataset in (before, made_after):
            assert shown(dataset) == (NAMES, {1})
            assert len(dataset) == 3
        for dataset in (before, made_after):
            assert dataset.refresh()
            assert not dataset.refresh()
            assert dataset.batch([0, 1])["name"] == ["b", "c"]
            assert dataset.batch([2])["name"] == ["d"]
            assert not dataset.batch([2])["x_mask"][0]
            assert dataset.batch([0, 1])["y"].tolist() == [[2] * 4] * 2
        store.delete_dataset("d")
        store.flush()
        assert before.refresh()
        assert shown(before) == (["b", "c"], {2})


def test_of_a_store_that_is_refreshed(path: Path) -> None:
    """A refresh of the store is none of the dataset."""
    store = apt.AtlasStore(path)
    dataset = apt.AtlasDataset(store, ["x", "y"])
    assert shown(dataset) == (NAMES, {1})
    with apt.AtlasStore(path, "a") as writer:
        write(writer, 2)
        writer.delete_dataset("a")
    assert shown(dataset) == (NAMES, {1})
    assert store.refresh()
    assert shown(dataset) == (NAMES, {1})
    assert shown(apt.AtlasDataset(store, ["x", "y"])) == (["b", "c"], {2})
    assert dataset.refresh()
    assert shown(dataset) == (["b", "c"], {2})
    assert dataset.store is store


def test_that_was_not_read_before_the_flush(path: Path) -> None:
    """Values of the older flush are not there any more: an error, and no mix."""
    store = apt.AtlasStore(path)
    dataset = apt.AtlasDataset(store, ["x", "y"])
    with apt.AtlasStore(path, "a") as writer:
        write(writer, 2)
    store.refresh()
    for read in (lambda: dataset.batch([0]), lambda: dataset[0], lambda: dataset.block_sizes):
        with pytest.raises(apt.FieldError, match="written to since it was opened: open it again"):
            read()
    assert dataset.refresh()
    assert shown(dataset) == (NAMES, {2})


def test_pickles_are_of_the_same_flush(path: Path) -> None:
    """Also of a store that is open for writing, or was refreshed."""
    with apt.AtlasStore(path, "a") as store:
        dataset = apt.AtlasDataset(store, ["x", "y"])
        store.delete_dataset("b")
        copied = pickle.loads(pickle.dumps(dataset))
        assert shown(copied) == (NAMES, {1})
        assert copied.store.datasets == NAMES
        workers = DataLoader(dataset, batch_size=2, num_workers=2)
        assert [name for batch in workers for name in batch["name"]] == NAMES
        store.flush()
        late = pickle.loads(pickle.dumps(dataset))
        with pytest.raises(apt.FieldError, match="written to since it was opened: open it again"):
            late.batch([0])
        assert late.refresh()
        assert late.batch([0, 1])["name"] == ["a", "c"]
        assert shown(copied) == (NAMES, {1})


def test_a_refresh_that_is_refused_changes_nothing(path: Path) -> None:
    dataset = apt.AtlasDataset(path, ["x", "y"])
    assert shown(dataset) == (NAMES, {1})
    last = dataset.subset([2])
    with apt.AtlasStore(path, "a") as writer:
        writer.delete_dataset("b")
    with pytest.raises(IndexError, match="subset: expected at least 3 datasets, got 2"):
        last.refresh()
    assert shown(last) == (["c"], {1})
    with apt.AtlasStore(path, "a") as writer:
        for name in ("a", "c"):
            writer.delete_array(name, "x")
    with pytest.raises(apt.FieldError, match="no dataset has an array 'x'"):
        dataset.refresh()
    assert shown(dataset) == (NAMES, {1})
    assert isinstance(last.batch([0])["x"], torch.Tensor)
