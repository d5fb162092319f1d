"""Reads of single arrays: from blocks that are decoded already, and those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.atlas_client import AtlasProcess

import atompack_torch as apt


def written(path: Path, codec: Any, **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Five datasets with a small array, a scalar, an array in chunks, strings and one unwritten."""
    rng = np.random.default_rng(0)
    values: dict[str, np.ndarray[Any, Any]] = {}
    with apt.AtlasStore(path, "x", codec=codec, **options) as store:
        for name in "abcde":
            store.create_dataset(name)
            made = {
                "small": rng.standard_normal(7),
                "scalar": rng.integers(0, 99, (), np.int16),
                "grid": rng.standard_normal((70, 50)).astype("float32"),
            }
            for array, of in made.items():
                chunks = (20, 20) if array == "grid" else None
                store.define_array(name, array, of.dtype, of.shape, chunk_shape=chunks)
                store.write(name, array, of)
                values[f"{name}/{array}"] = of
            store.define_array(name, "text", "string", (2,))
            store.write(name, "text", [name, "é"])
            store.define_array(name, "unwritten", "float64", (3,), fill_value=1.5)
    return values


@pytest.mark.parametrize("codec", ["zstd", "lz4", "none"])
def test_every_read_equals_what_was_written(tmp_path: Path, codec: str) -> None:
    """The first read decodes, the second finds the block; results are not shared."""
    values = written(tmp_path / "store", codec)
    store = apt.AtlasStore(tmp_path / "store")
    for _ in range(3):
        for place, expected in values.items():
            dataset, array = place.split("/")
            got = store.read(dataset, array)
            assert isinstance(got, torch.Tensor)
            assert got.numpy().dtype == expected.dtype
            assert got.shape == expected.shape
            assert np.array_equal(got.numpy(), expected)
            got += 1  # memory of its own
        assert store.read("b", "text") == ["b", "é"]
        unwritten = store.read("c", "unwritten")
        assert isinstance(unwritten, torch.Tensor)
        assert unwritten.tolist() == [1.5] * 3
        part = store.read("d", "grid", [10, 5], [40, 30])
        assert np.array_equal(np.asarray(part), values["d/grid"][10:50, 5:35])


def test_wrong_names_are_errors_after_reads_too(tmp_path: Path) -> None:
    written(tmp_path / "store", "zstd")
    store = apt.AtlasStore(tmp_path / "store")
    for _ in range(2):
        with pytest.raises(apt.FieldError, match="no dataset 'z'"):
            store.read("z", "small")
        with pytest.raises(apt.FieldError, match="no dataset has an array 'large'"):
            store.read("a", "large")
        store.read("a", "small")
    store.close()
    assert store.read("a", "scalar") is not None  # opens it again


def test_small_blocks_are_those_of_the_original_too(
    atlas_python: AtlasProcess, tmp_path: Path
) -> None:
    values = written(tmp_path / "store", None)
    found = atlas_python.read(tmp_path / "store")
    for place, expected in values.items():
        name, array = place.split("/")
        assert np.array_equal(found[name]["arrays"][array]["values"], expected)
