"""Handles of single datasets: what they show is what the store shows."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import atompack_torch as apt
from atompack_torch.formats.atlas_store.stored_dataset import StoredDataset


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        for number, name in enumerate(("b", "a")):
            store.create_dataset(name)
            store.define_array(name, "t", "float32", (4,), chunk_shape=(2,))
            store.write(name, "t", torch.arange(4.0) + number)
            store.set_attr(name, "number", number)
        store.define_array("a", "label", "string", ())
        store.write("a", "label", "warm")
    return tmp_path / "store"


def test_a_store_is_a_collection_of_names(path: Path) -> None:
    store = apt.AtlasStore(path)
    assert len(store) == 2
    assert list(store) == store.datasets == ["b", "a"]
    assert "a" in store
    assert "c" not in store
    assert 0 not in store
    assert None not in store


def test_a_dataset_shows_what_the_store_shows(path: Path) -> None:
    store = apt.AtlasStore(path)
    found = store["a"]
    assert isinstance(found, StoredDataset)
    assert found.name == "a"
    assert found.store is store
    assert found.arrays == list(found) == store.arrays_of("a")
    assert len(found) == 2
    assert "t" in found
    assert "c" not in found
    assert found.attrs == store.attrs("a") == {"number": 1}
    assert found.schema("t") == store.schema("t", "a")
    assert found.schema("t").chunk_shape == (2,)
    assert found.stats("t") == store.stats("t")["a"]
    assert store["b"].stats("label") is None
    values: Any = found["t"]
    assert torch.equal(values, torch.arange(4.0) + 1)
    part: Any = found.read("t", (1,), (2,))
    assert torch.equal(part, torch.tensor([2.0, 3.0]))
    assert found["label"] == store.read("a", "label")
    assert repr(found) == "StoredDataset('a', arrays=['t', 'label'])"
    assert pickle.loads(pickle.dumps(found)).attrs == found.attrs


@pytest.mark.parametrize("name", ["c", "", "t"])
def test_a_dataset_that_does_not_exist(path: Path, name: str) -> None:
    with pytest.raises(apt.FieldError, match="dataset"):
        apt.AtlasStore(path)[name]


@pytest.mark.parametrize("name", [0, -1, None, ["a"], slice(None)])
def test_names_are_strings(path: Path, name: Any) -> None:
    store = apt.AtlasStore(path)
    with pytest.raises(TypeError):
        store[name]
    with pytest.raises(TypeError):
        store.read(name, "t")
    with pytest.raises(TypeError):
        store.read(name, "t", (0,), (1,))


def test_a_dataset_is_changed_through_its_handle(path: Path) -> None:
    with apt.AtlasStore(path, "a") as store:
        changed = store["b"]
        changed.define_array("p", "int64", (2,), ("level",))
        changed.write("p", [1, 2])
        changed.write("t", torch.tensor([9.0]), start=(3,))
        changed.set_attr("number", 7)
        store["a"].delete_array("label")
        assert changed.arrays == ["t", "p"]  # before they are flushed
        assert changed.attrs == {"number": 7}
    store = apt.AtlasStore(path)
    values: Any = store["b"]["p"]
    assert values.tolist() == [1, 2]
    assert store["b"].schema("p").dimension_names == ("level",)
    values = store["b"]["t"]
    assert values.tolist() == [0, 1, 2, 9]
    assert store["b"].attrs == {"number": 7}
    assert store["a"].arrays == ["t"]


def test_a_dataset_that_was_deleted(path: Path) -> None:
    with apt.AtlasStore(path, "a") as store:
        deleted = store["b"]
        store.delete_dataset("b")
        assert "b" not in store
        with pytest.raises(apt.FieldError, match="b"):
            deleted.arrays  # noqa: B018
        with pytest.raises(apt.FieldError, match="b"):
            deleted.read("t")
