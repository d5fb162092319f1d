"""Stores of atlas-python, read here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.atlas_client import AtlasProcess
from reference.atlas_compare import assert_as_original, assert_as_planned
from reference.atlas_plans import Plan

import atompack_torch as apt

FORMATS = [(f, c) for f in ("json", "msgpack") for c in ("none", "zstd", "lz4")]


@pytest.mark.parametrize(("meta_format", "meta_compression"), FORMATS)
def test_metadata_formats(
    atlas_python: AtlasProcess, tmp_path: Path, meta_format: str, meta_compression: str
) -> None:
    plan = Plan(np.random.default_rng(5))
    path = atlas_python.create(
        tmp_path / "store",
        plan.operations(60),
        meta_format=meta_format,
        meta_compression=meta_compression,
    )
    store = apt.AtlasStore(path)
    assert_as_original(store, atlas_python.read(path))
    assert_as_planned(store, plan)


def two_types(atlas_python: AtlasProcess, path: Path) -> Path:
    """The same array as int16 in one dataset, float32 in another, strings in a third."""
    operations: list[Any] = []
    for name, dtype in (("a", "int16"), ("b", "float32"), ("c", "string")):
        values = np.array(["x", "y"], object) if dtype == "string" else np.array([1, 2], dtype)
        operations += [
            ("create_dataset", name),
            ("define_array", name, "v", dtype, [2], ["x"], None, None),
            ("write", name, "v", values, [0]),
        ]
    return atlas_python.create(path, operations)


def test_dtypes_that_differ(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    """A list keeps them, a cast joins them, else it is an error; strings join with no numbers."""
    store = apt.AtlasStore(two_types(atlas_python, tmp_path / "store"))
    kept = store.scan("v", ["b", "a"], layout="list").values
    assert [value.dtype for value in kept] == [torch.float32, torch.int16]
    for layout in ("stacked", "jagged"):
        with pytest.raises(apt.FieldError, match=r"expected int16, got float32 in row 1.*'v'"):
            store.scan("v", ["a", "b"], layout=layout)  # type: ignore[arg-type]
        joined = store.scan("v", ["a", "b"], layout=layout, dtype=torch.float64).values  # type: ignore[arg-type]
        assert isinstance(joined, torch.Tensor)
        assert joined.flatten().tolist() == [1, 2, 1, 2]
    for layout in ("stacked", "list"):
        with pytest.raises(apt.FieldError, match="expected int16, got string"):
            store.scan("v", ["a", "c"], layout=layout)  # type: ignore[arg-type]


def test_names_that_the_original_loses(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    """It finds the empty base alone; the values lie in a folder escaped twice, and are read."""
    name, values = "Temperatur in °C", np.arange(3, dtype="f4")
    operations = [
        ("create_dataset", "d"),
        ("define_array", "d", name, "float32", [3], ["x"], None, None),
        ("write", "d", name, values, [0]),
    ]
    path = atlas_python.create(tmp_path / "store", operations)
    store = apt.AtlasStore(path)
    assert store.arrays == [name]
    assert store.read("d", name).tolist() == [0, 1, 2]
    assert store.stats(name) == {}  # lost, which says nothing about the values
    assert store.select(name, min=10) == ["d"]


def test_arrays_that_no_file_can_justify(atlas_python: AtlasProcess, tmp_path: Path) -> None:
    """Parts of a huge array that was never written are read, the whole of it is refused."""
    operations = [
        ("create_dataset", "d"),
        ("define_array", "d", "v", "int32", [2**20, 2**11], ["y", "x"], [64, 64], 5),
    ]
    path = atlas_python.create(tmp_path / "store", operations)
    store = apt.AtlasStore(path)
    assert store.read("d", "v", [1000, 1000], [1, 3]).tolist() == [[5, 5, 5]]
    with pytest.raises(apt.FieldError, match=f"^{path}.*unwritten cells.*got 8589934592"):
        store.read("d", "v")
