"""AtlasStore: every store of atlas-python in the fixtures, dataset by dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.atlas_fixture import FIXTURES, AtlasFixture
from reference.compare import assert_same

import atompack_torch as apt
from atompack_torch.formats.atlas_store.array_schema import ArrayStatistics

STATISTICS = ("min", "max", "null_count", "row_count")


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


@pytest.fixture(scope="module", params=FIXTURES)
def expected(folder: Path, request: pytest.FixtureRequest) -> AtlasFixture:
    return AtlasFixture(folder, request.param)


@pytest.fixture
def store(expected: AtlasFixture) -> apt.AtlasStore:
    return apt.AtlasStore(expected.path)


def same(got: Any, want: Any) -> bool:
    """Equal in type too; NaN equals NaN."""
    return type(got) is type(want) and (got == want or (got != got and want != want))


def test_the_list_of_fixtures_is_complete(folder: Path) -> None:
    stores = {path.name for path in folder.iterdir() if path.is_dir()}
    assert stores == {*FIXTURES, "reject"}
    assert len(FIXTURES) >= 18


def test_store(expected: AtlasFixture, store: apt.AtlasStore) -> None:
    for check in (check_names, check_values, check_schemas, check_attributes, check_statistics):
        check(expected, store)


def check_names(expected: AtlasFixture, store: apt.AtlasStore) -> None:
    assert store.datasets == expected.datasets
    assert len(store) == len(expected.datasets)
    assert store.arrays == sorted(expected.arrays)
    assert [store.arrays_of(d) for d in store.datasets] == [
        expected.arrays_of(d) for d in expected.datasets
    ]
    assert store.path == expected.path
    assert repr(store) == f"AtlasStore({str(store.path)!r}, {len(store)} datasets)"


def check_values(expected: AtlasFixture, store: apt.AtlasStore) -> None:
    for dataset, array in expected.all_arrays():
        what = f"{array} of {dataset:.30}"
        assert_same(store.read(dataset, array), expected.value(dataset, array), what)


def check_schemas(expected: AtlasFixture, store: apt.AtlasStore) -> None:
    for array in store.arrays:
        schemas = store.schema(array)
        assert list(schemas) == [d for d in store.datasets if array in expected.arrays_of(d)]
        for dataset, schema in schemas.items():
            want = expected.facts(dataset, array)
            assert schema == store.schema(array, dataset) or schema.fill_value != schema.fill_value
            assert schema.dtype == want["dtype"]
            assert schema.shape == tuple(want["shape"])
            assert schema.chunk_shape == tuple(want["chunk_shape"])
            assert schema.dimension_names == tuple(want["dimension_names"])
            fill = want["fill"]
            is_float = isinstance(fill, int) and schema.dtype.startswith("float")
            assert same(schema.fill_value, float(fill) if is_float else fill)


def check_attributes(expected: AtlasFixture, store: apt.AtlasStore) -> None:
    for dataset in store.datasets:
        attributes, want = store.attrs(dataset), expected.attributes(dataset)
        assert list(attributes) == list(want)
        for key, value in attributes.items():
            if isinstance(value, np.datetime64):
                assert value.dtype == np.dtype("M8[ns]")
                value = int(value.view("i8"))
            assert same(value, want[key]), key


def check_statistics(expected: AtlasFixture, store: apt.AtlasStore) -> None:
    for array in store.arrays:
        found = store.stats(array)
        for dataset in store.datasets:
            if array not in expected.arrays_of(dataset):
                assert dataset not in found
                continue
            facts = expected.facts(dataset, array)
            assert (dataset in found) == (facts["stats"] is not None), f"{array} of {dataset}"
            if facts["stats"] is not None:
                assert_statistics(found[dataset], facts)


def assert_statistics(got: ArrayStatistics, facts: dict[str, Any]) -> None:
    """The original leaves min and max out where there are none."""
    for name, value in zip(STATISTICS, got, strict=True):
        want = facts["stats"].get(name)
        if isinstance(want, list):
            want = bytes(want)
        if isinstance(want, dict):
            want = float(want["float"])
        assert same(value, want), name


def test_moments_and_types_of_attributes(folder: Path) -> None:
    for name in ("attrs_json", "attrs_msgpack"):
        attributes = apt.AtlasStore(folder / name).attrs("typed")
        kinds = {key: type(attributes[key]) for key in ("b1", "i", "f", "whole", "s", "ts0")}
        assert kinds == {
            "b1": bool,
            "i": int,
            "f": float,
            "whole": float,
            "s": str,
            "ts0": np.datetime64,
        }
        assert attributes["ts3"] == np.datetime64(1_700_000_000_123_456_789, "ns")
        assert isinstance(attributes["looks_like_time"], np.datetime64)
        assert isinstance(attributes["nearly_time"], str)


def test_dtypes_of_tensors(folder: Path) -> None:
    store = apt.AtlasStore(folder / "dtypes_none")
    for array in store.arrays:
        if array != "string":
            want = torch.int64 if array == "timestamp_ns" else getattr(torch, array)
            assert store.read("rank2", array).dtype == want
    assert isinstance(store.read("rank0", "string"), str)
    assert [len(row) for row in store.read("rank2", "string")] == [9] * 5


def test_names_that_are_not_there(folder: Path) -> None:
    path = folder / "gridded_zstd_json"
    store = apt.AtlasStore(path)
    for call in (
        lambda: store.attrs("x"),
        lambda: store.arrays_of("x"),
        lambda: store.read("x", "lat"),
        lambda: store.schema("lat", "x"),
        lambda: store.scan("lat", ["grid_000", "x"]),
    ):
        with pytest.raises(apt.FieldError, match=f"^{path}: no dataset 'x'$"):
            call()
    for call in (
        lambda: store.read("grid_000", "x"),
        lambda: store.schema("x"),
        lambda: store.scan("x"),
        lambda: store.stats("x"),
        lambda: store.select("x"),
        lambda: apt.AtlasDataset(store, ["lat", "x"]),
    ):
        with pytest.raises(apt.FieldError, match=f"^{path}: no dataset has an array 'x'$"):
            call()
    with pytest.raises(apt.FieldError, match="'grid_001' has no array 'elevation'"):
        store.read("grid_001", "elevation")
    with pytest.raises(apt.FieldError, match=r"grid_001.*elevation"):
        store.schema("elevation", "grid_001")


def test_a_folder_without_metadata_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected one of atlas\.json, .*mode='x'"):
        apt.AtlasStore(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        apt.AtlasStore(tmp_path / "nowhere")
    file = tmp_path / "file"
    file.write_text("{}")
    with pytest.raises(OSError, match="file"):
        apt.AtlasStore(file)
