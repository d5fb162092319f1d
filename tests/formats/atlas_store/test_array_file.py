"""Single array files: those of stores, and files of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.atlas_client import AtlasProcess
from reference.atlas_fixture import AtlasFixture
from reference.compare import assert_same
from reference.fixture_files import fixtures_root

import atompack_torch as apt

STORES = ("gridded_zstd_json", "overlay_none", "deleted_none", "layers12_none", "compacted_lz4")


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


@pytest.mark.parametrize("name", STORES)
def test_files_of_stores(folder: Path, name: str) -> None:
    """The arrays of a file are the datasets that have its variable."""
    expected = AtlasFixture(folder, name)
    for variable in expected.arrays:
        file = apt.ArrayFile(expected.path / variable / "data.af")
        having = {d for d in expected.datasets if variable in expected.arrays_of(d)}
        assert set(file.names) == having
        statistics = file.stats()
        for dataset in having:
            facts = expected.facts(dataset, variable)
            assert_same(file.read(dataset), expected.value(dataset, variable), dataset)
            assert file.schema(dataset).shape == tuple(facts["shape"])
            assert (dataset in statistics) == (facts["stats"] is not None)


def write_all(path: Path, codec: Any = "zstd", mode: Any = "x") -> dict[str, torch.Tensor]:
    """Arrays of several dtypes in chunks."""
    values = {
        "a": torch.arange(60, dtype=torch.float32).reshape(5, 12),
        "b": torch.tensor([1, -2, 3], dtype=torch.int8),
        "scalar": torch.tensor(7.5, dtype=torch.float64),
    }
    with apt.ArrayFile(path, mode, codec) as file:
        for name, value in values.items():
            dtype = str(value.dtype).removeprefix("torch.")
            chunks = (2, 5) if value.ndim == 2 else None
            file.define(name, dtype, value.shape, chunk_shape=chunks)
            file.write(name, value)
            assert_same(file.read(name), value, name)  # what is pending
    return values


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
def test_there_and_back(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "own.af"
    values = write_all(path, codec)
    with apt.ArrayFile(path, "a") as file:
        file.write("a", np.full((2, 3), -1), start=[1, 4])
        file.define("text", "string", (2,), fill_value="n/a")
        file.write("text", ["x", "Zürich"])
        file.delete("b")
    values["a"][1:3, 4:7] = -1
    for _ in range(2):
        file = apt.ArrayFile(path)
        assert file.names == ["a", "scalar", "text"]
        assert_same(file.read("a"), values["a"], "a")
        assert file.read("text") == ["x", "Zürich"]
        assert file.schema("a").chunk_shape == (2, 5)
        assert file.stats()["a"].min == -1
        with apt.ArrayFile(path, "a") as writer:
            writer.compact()
    assert [p.name for p in tmp_path.iterdir() if p.suffix == ".af"] == ["own.af"]


def test_a_handle_sees_the_layers_of_its_time(tmp_path: Path) -> None:
    path = tmp_path / "own.af"
    values = write_all(path)
    old = apt.ArrayFile(path)
    with apt.ArrayFile(path, "a") as file:
        file.write("b", [9, 9, 9])
    assert_same(old.read("b"), values["b"], "b")
    assert apt.ArrayFile(path).read("b").tolist() == [9, 9, 9]


def test_the_original_reads_it_as_a_variable(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    """A file laid under a store whose metadata knows its arrays."""
    store = atlas_python.create(
        tmp_path / "store",
        [("create_dataset", "d"), ("define_array", "d", "v", "float32", [4], ["x"], None, None)],
    )
    for layer in (store / "v").iterdir():
        layer.unlink()
    with apt.ArrayFile(store / "v" / "data.af", "x") as file:
        file.define("d", "float32", (4,), ["x"])
        file.write("d", [1.0, 2.0, 3.0, 4.0])
    found = atlas_python.read(store)["d"]["arrays"]["v"]
    assert found["values"].tolist() == [1, 2, 3, 4]
    assert found["stats"]["max"] == 4


def test_modes_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "own.af"
    with pytest.raises(FileNotFoundError):
        apt.ArrayFile(path)
    write_all(path)
    with pytest.raises(FileExistsError):
        apt.ArrayFile(path, "x")
    with apt.ArrayFile(path, "a"), pytest.raises(apt.WriterLockedError, match="own"):
        apt.ArrayFile(path, "a")
    file = apt.ArrayFile(path)
    for call in (lambda: file.read("nothing"), lambda: file.schema("nothing")):
        with pytest.raises(apt.FieldError, match="nothing"):
            call()
    with pytest.raises(ValueError, match='mode "a" or "x"'):
        file.write("a", [1])
    with pytest.raises(ValueError, match="mode: expected one of"):
        apt.ArrayFile(path, "w")  # type: ignore[arg-type]


def test_codecs_of_blocks(folder: Path, tmp_path: Path) -> None:
    """Those that a file states, as of the last flush."""
    for name, codec in (("gridded_zstd_json", "zstd"), ("overlay_none", "none")):
        store = apt.AtlasStore(AtlasFixture(folder, name).path)
        for array in store.arrays:
            statistics = store.stats(array)
            for dataset, schema in store.schema(array).items():
                found = statistics.get(dataset)
                is_stored = found is not None and found.null_count < found.row_count
                expected = [(codec,)] if is_stored else [(codec,), ()]  # fill values may be stored
                assert schema.codecs in expected, (array, dataset)
    path = tmp_path / "mixed.af"
    values = np.arange(8.0)
    with apt.ArrayFile(path, "x", "lz4") as file:
        file.define("a", "float64", (8,), chunk_shape=(4,))
        file.define("unwritten", "float64", (8,))
        file.write("a", values)
        assert file.schema("a").codecs == ()
        file.flush()
        assert file.schema("a").codecs == ("lz4",)
    with apt.ArrayFile(path, "a", "zstd") as file:
        file.write("a", -values[:4])
    read = apt.ArrayFile(path)
    assert sorted(read.schema("a").codecs) == ["lz4", "zstd"]
    assert read.schema("unwritten").codecs == ()
    with apt.ArrayFile(path, "a", "none") as file:
        file.write("a", values)
    assert apt.ArrayFile(path).schema("a").codecs == ("none",)


def test_numbers_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "a.af"
    with apt.ArrayFile(path, "x") as file:
        assert file.num_layers == 1
        file.define("t", "float64", (3,))
        file.flush()
        assert file.num_layers == 2
        file.write("t", np.ones(3))
    reader = apt.ArrayFile(path)
    assert reader.num_layers == 3
    with apt.ArrayFile(path, "a") as file:
        file.compact()
        assert file.num_layers == 1
    assert reader.num_layers == 3  # as it was opened


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.complex64, object(), "bool"])
def test_dtypes_that_are_not_stored(tmp_path: Path, dtype: Any) -> None:
    with (
        apt.ArrayFile(tmp_path / "a.af", "x") as file,
        apt.AtlasStore(tmp_path / "s", "x") as store,
    ):
        store.create_dataset("d")
        with pytest.raises(ValueError, match=r"dtype: expected one of int8.* got "):
            file.define("t", dtype, (3,))
        with pytest.raises(ValueError, match=r"dtype: expected one of int8.* got "):
            store.define_array("d", "t", dtype, (3,))


@pytest.mark.parametrize("mode", ["x", "a"])
def test_a_writer_keeps_no_blocks(tmp_path: Path, mode: Any) -> None:
    with pytest.raises(ValueError, match="cache_bytes: expected mode='r'"):
        apt.ArrayFile(tmp_path / "a.af", mode, cache_bytes=1 << 20)
    assert not (tmp_path / "a.af").exists()


ATTRIBUTES = {
    "units": "celsius",
    "é": "a text of more than sixteen bytes",
    "n": -3,
    "f": -0.5,
}


def test_attributes_stay(tmp_path: Path, atlas_python: AtlasProcess) -> None:
    """Through flushes of values, deletions and compaction, next to those of other arrays."""
    store = atlas_python.create(
        tmp_path / "store",
        [("create_dataset", "d"), ("define_array", "d", "v", "float64", [2], ["x"], None, None)],
    )
    path = store / "v" / "data.af"
    with apt.ArrayFile(path, "a") as file:
        file.write("d", [0.5, 1.5])
        file.define("other", "int8", (1,))
        for key, value in ATTRIBUTES.items():
            file.set_attr("d", key, value)
        assert file.attrs("d") == ATTRIBUTES
        file.set_attr("other", "n", True)
        file.flush()
        with pytest.raises(apt.FieldError, match="attribute 'at': expected a bool, a number"):
            file.set_attr("d", "at", np.datetime64(0, "ns"))
        with pytest.raises(apt.FieldError, match="no such array"):
            file.set_attr("none", "n", 1)
        with pytest.raises(TypeError, match="attribute: expected bool, int"):
            file.set_attr("d", "list", [1])
        statistics = file.stats()
        file.set_attr("d", "n", 2**40)
        file.flush()
        assert file.stats() == statistics
        with pytest.raises(apt.FieldError, match="slice of axis 0"):
            file.write("d", [1.0, 2.0, 3.0])
    with apt.ArrayFile(path, "a") as file:
        file.set_attr("other", "later", "z")
        with pytest.raises(apt.FieldError):
            file.write("other", [1, 2])
        assert file.attrs("other") == {"n": True, "later": "z"}
    with apt.ArrayFile(path, "a") as file:
        file.write("d", [2.5], start=[1])
        file.delete("other")
        file.flush()
        file.define("other", "int8", (1,))
        assert file.attrs("other") == {}
    assert atlas_python.read(store)["d"]["arrays"]["v"]["values"].tolist() == [0.5, 2.5]
    for _ in range(2):
        file = apt.ArrayFile(path)
        assert file.attrs("d") == ATTRIBUTES | {"n": 2**40}
        assert file.attrs("other") == {}
        assert file.num_layers == len(list(path.parent.glob("*.af")))
        with apt.ArrayFile(path, "a") as writer:
            writer.compact()
            assert writer.num_layers == 1
    assert atlas_python.read(store)["d"]["arrays"]["v"]["values"].tolist() == [0.5, 2.5]
    opened = apt.AtlasStore(store)
    assert opened.array_attrs("d", "v") == ATTRIBUTES | {"n": 2**40}
    for kind in ("collection", "store"):
        opened.export(tmp_path / f"as_{kind}", kind)
        copy = apt.AtlasStore(tmp_path / f"as_{kind}")
        assert copy.array_attrs("d", "v") == ATTRIBUTES | {"n": 2**40}


@pytest.mark.parametrize("release", ["0.12.0", "0.14.0"])
def test_attributes_of_newer_files(release: str) -> None:
    """Footer 5: the newest layer has lost a key of the older one, and numbers it anew."""
    path = fixtures_root() / "atlas_today" / f"{release}_attrs_layers" / "t" / "data.af"
    found = apt.ArrayFile(path).attrs("jan")
    assert found == {"units": "celsius", "n": 5, "z": 6.5}
