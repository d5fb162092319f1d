"""Scans over many datasets against the slow and obvious way, on the stores of atlas-python."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.atlas_fixture import FIXTURES, AtlasFixture
from reference.column_scan import assert_scan, scan
from reference.compare import assert_same

import atompack_torch as apt
from atompack_torch.formats.atlas_store.columns import LAYOUTS

THREADS = (None, 1, 2)


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


@pytest.fixture(scope="module", params=[name for name in FIXTURES if name != "empty_store"])
def expected(folder: Path, request: pytest.FixtureRequest) -> AtlasFixture:
    return AtlasFixture(folder, request.param)


def alike(expected: AtlasFixture, array: str, layout: str) -> list[str]:
    """Datasets that this layout can join to the first that has the array, and those without it."""
    first = next(d for d in expected.datasets if array in expected.arrays_of(d))
    return [
        dataset
        for dataset in expected.datasets
        if array not in expected.arrays_of(dataset)
        or fits(expected.facts(dataset, array), expected.facts(first, array), layout)
    ]


def fits(facts: dict[str, Any], first: dict[str, Any], layout: str) -> bool:
    if layout == "list":
        return len(facts["shape"]) == len(first["shape"])
    if facts["dtype"] != first["dtype"] or len(facts["shape"]) != len(first["shape"]):
        return False
    skipped = 1 if layout == "jagged" else 0
    return bool(facts["shape"][skipped:] == first["shape"][skipped:])


def can_be(layout: str, expected: AtlasFixture, array: str) -> bool:
    ranks = [len(expected.facts(d, array)["shape"]) for d in having(expected, array)]
    return layout != "jagged" or min(ranks) > 0


def having(expected: AtlasFixture, array: str) -> list[str]:
    return [d for d in expected.datasets if array in expected.arrays_of(d)]


def test_whole_columns(expected: AtlasFixture) -> None:
    store = apt.AtlasStore(expected.path)
    for layout, array in product(LAYOUTS, store.arrays):
        if not can_be(layout, expected, array):
            continue
        names = alike(expected, array, layout)
        column = expected.column(array, names)
        for num_threads in THREADS:
            got = store.scan(array, names, layout=layout, num_threads=num_threads)
            assert_scan(got, scan(column, layout=layout), array)
        assert list(got.datasets) == names


def test_random_slices_and_orders(expected: AtlasFixture) -> None:
    """Slices may begin and end outside; datasets come in any order and more than once."""
    store, rng = apt.AtlasStore(expected.path), np.random.default_rng(7)
    for layout, array in product(LAYOUTS, store.arrays):
        if not can_be(layout, expected, array):
            continue
        names = alike(expected, array, layout)
        extents = np.array([0])
        shapes = [expected.facts(d, array)["shape"] for d in names if d in having(expected, array)]
        extents = np.max(np.array(shapes), axis=0) if shapes[0] else np.array([], int)
        for _ in range(2):
            asked = [names[i] for i in rng.integers(0, len(names), rng.integers(1, 12))]
            if not any(d in having(expected, array) for d in asked):
                asked.append(having(expected, array)[0])
            start = [int(rng.integers(0, e + 2)) for e in extents]
            shape = [int(rng.integers(0, e + 2)) for e in extents]
            for bounds in ((start, shape), (start, None), (None, shape)):
                got = store.scan(array, asked, *bounds, layout=layout)
                want = scan(expected.column(array, asked), *bounds, layout=layout)
                assert_scan(got, want, f"{array} {bounds}")


def test_reads_of_one_dataset(expected: AtlasFixture) -> None:
    store, rng = apt.AtlasStore(expected.path), np.random.default_rng(8)
    pairs = list(expected.all_arrays())
    for i in rng.permutation(len(pairs))[:60]:
        dataset, array = pairs[i]
        extents = expected.facts(dataset, array)["shape"]
        start = [int(rng.integers(0, e + 1)) for e in extents]
        shape = [int(rng.integers(0, e + 1)) for e in extents]
        want = scan([expected.value(dataset, array)], start, shape, "list").values[0]
        got = store.read(dataset, array, start, shape)
        assert_same(got, want, f"{array} of {dataset}")


def numeric(folder: Path) -> AtlasFixture:
    return AtlasFixture(folder, "dtypes_none")


INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("stored", [*INTEGERS, "float32", "float64", "timestamp_ns"])
def test_casts(folder: Path, stored: str) -> None:
    """To floats from everything, to integers from those that fit; else a named error."""
    expected = numeric(folder)
    store = apt.AtlasStore(expected.path)
    column = [expected.value("rank2", stored)]
    number = torch.int64 if stored == "timestamp_ns" else getattr(torch, stored)
    for name in (*INTEGERS, *FLOATS):
        dtype = getattr(torch, name)
        if holds(dtype, number):
            got = store.scan(stored, ["rank2"], dtype=dtype)
            assert_scan(got, scan(column, dtype=dtype), name)
            part = store.scan(stored, ["rank2"], [1, 3], [3, 4], "jagged", dtype)
            assert_scan(part, scan(column, [1, 3], [3, 4], "jagged", dtype), name)
        else:
            with pytest.raises(apt.FieldError, match=f"cannot be cast to {name}.*{stored}"):
                store.scan(stored, ["rank2"], dtype=dtype)


def holds(wide: torch.dtype, narrow: torch.dtype) -> bool:
    if wide.is_floating_point or wide == narrow:
        return True
    if narrow.is_floating_point:
        return False
    outer, inner = torch.iinfo(wide), torch.iinfo(narrow)
    return outer.min <= inner.min and inner.max <= outer.max


def test_a_cast_joins_what_differs_in_dtype(tmp_path: Path, folder: Path) -> None:
    """Types of one array may differ among datasets; a list keeps them, a cast joins them."""
    store = apt.AtlasStore(folder / "dtypes_none")
    with pytest.raises(apt.FieldError, match="cannot be cast to bool"):
        store.scan("int8", ["rank1"], dtype=torch.bool)
    with pytest.raises(ValueError, match="complex64"):
        store.scan("int8", ["rank1"], dtype=torch.complex64)


def test_missing_rows(folder: Path) -> None:
    """NaN, or 0 for integers, and masked; None in a list; no rows in a jagged column."""
    store = apt.AtlasStore(folder / "gridded_zstd_json")
    elevation = store.scan("elevation", ["grid_001", "grid_000"])
    assert elevation.mask.tolist() == [False, True]
    assert elevation.values[0].count_nonzero() == 0
    jagged = store.scan("elevation", ["grid_000", "grid_001", "grid_002"], layout="jagged")
    assert jagged.offsets is not None
    assert jagged.offsets.tolist() == [0, 5, 5, 12]
    assert store.scan("elevation", ["grid_001"], layout="list").values == [None]
    alone = store.scan("elevation", ["grid_001"])
    assert isinstance(alone.values, torch.Tensor)
    assert (alone.values.dtype, alone.mask.tolist()) == (torch.int16, [False])
    profiles = AtlasFixture(folder, "profile_zstd_json_lz4")
    salinity = apt.AtlasStore(profiles.path).scan("salinity", ["cast-0", "cast-1"])
    assert isinstance(salinity.values, torch.Tensor)
    assert bool(salinity.values[0].isnan().all())


def test_no_datasets(folder: Path) -> None:
    store = apt.AtlasStore(folder / "gridded_zstd_json")
    for layout in LAYOUTS:
        nothing = store.scan("lat", [], layout=layout)
        assert (len(nothing.values), nothing.mask.tolist()) == (0, [])
    assert store.scan_many([]) == {}


def test_several_arrays_share_one_memory(folder: Path) -> None:
    expected = AtlasFixture(folder, "profile_zstd_json_lz4")
    store = apt.AtlasStore(expected.path)
    arrays = ["depth", "quality", "salinity", "label"]
    scans = store.scan_many(arrays, layout="jagged")
    assert list(scans) == arrays
    storages = set()
    for array, got in scans.items():
        assert_scan(got, scan(expected.column(array), layout="jagged"), array)
        tensors = [got.mask, got.offsets, got.values]
        storages |= {t.untyped_storage().data_ptr() for t in tensors if isinstance(t, torch.Tensor)}
    assert len(storages) == 1


def test_nested(folder: Path) -> None:
    expected = AtlasFixture(folder, "profile_zstd_json_lz4")
    store = apt.AtlasStore(expected.path)
    depth = store.scan("depth", layout="jagged")
    assert isinstance(depth.values, torch.Tensor)
    nested = depth.nested()
    assert nested.layout == torch.jagged
    assert nested.values().data_ptr() == depth.values.data_ptr()
    for row, want in zip(nested.unbind(), expected.column("depth"), strict=True):
        assert torch.equal(row, want)
    for column in (store.scan("depth", layout="list"), store.scan("label", layout="jagged")):
        with pytest.raises(ValueError, match='with layout="jagged"'):
            column.nested()


def test_what_a_layout_cannot_join(folder: Path) -> None:
    path = folder / "profile_zstd_json_lz4"
    store = apt.AtlasStore(path)
    with pytest.raises(apt.FieldError, match=r"stacked column: expected \(\d+,\), got \(\d+,\)"):
        store.scan("depth")
    grids = apt.AtlasStore(folder / "gridded_zstd_json")
    with pytest.raises(apt.FieldError, match="shapes in a stacked column"):
        grids.scan("temperature")
    assert grids.scan("temperature", shape=[5, 7, 6]).mask.all()  # the part that all have
    sensors = apt.AtlasStore(folder / "sensors_lz4_json_zst")
    with pytest.raises(apt.FieldError, match=r"at least one axis, got \(\).*value"):
        sensors.scan("value", layout="jagged")


def test_wrong_arguments(folder: Path) -> None:
    store = apt.AtlasStore(folder / "gridded_zstd_json")
    for start, shape in (([0], None), (None, [1, 1, 1]), ([0, 0], [1]), ([], [])):
        with pytest.raises(apt.FieldError, match=r"elevation.*axes.*expected 2, got \d"):
            store.scan("elevation", ["grid_000"], start, shape)
    for start, shape in (([-1], None), (None, [-1])):
        with pytest.raises(ValueError, match="expected numbers from 0, got"):
            store.read("grid_000", "lat", start, shape)
    with pytest.raises(ValueError, match="layout: expected one of stacked, jagged, list, got 'x'"):
        store.scan("lat", layout="x")  # type: ignore[arg-type]


def test_huge_bounds_are_clamped(folder: Path) -> None:
    store = apt.AtlasStore(folder / "gridded_zstd_json")
    most = 2**64 - 1
    everything = store.read("grid_000", "lat")
    assert torch.equal(store.read("grid_000", "lat", [1], [most]), everything[1:])
    assert store.read("grid_000", "lat", [most], [most]).shape == (0,)


def test_numbers_of_threads_are_checked(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", "float64", (3,))
        store.flush()
    with pytest.raises(ValueError, match="num_threads: expected a positive number or None"):
        apt.AtlasStore(tmp_path / "s").scan("v", num_threads=0)
