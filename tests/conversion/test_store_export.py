"""Stores to NetCDF files and Zarr groups."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import netCDF4
import numpy as np
import pytest
import xarray
import zarr
from processes.client import ScriptServer

import atompack_torch as apt
from atompack_torch import _native
from atompack_torch.cli import main
from atompack_torch.conversion import convert_datasets, export_datasets


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two datasets in chunks, with times, strings and missing values."""
    path = tmp_path / "casts.atlas"
    with apt.AtlasStore(path, "x") as made:
        for i, name in enumerate(("one", "two")):
            made.create_dataset(name)
            made.set_attr(name, "cast", i)
            made.set_attr(name, "t.units", "degC")
            values = np.random.default_rng(i).normal(size=(7, 5)).astype(np.float32)
            made.define_array(name, "t", "float32", (7, 5), ["z", "x"], (3, 2), np.nan)
            made.write(name, "t", values[:6])
            made.define_array(name, "n", "int16", (7,), ["z"], (4,))
            made.write(name, "n", np.arange(7, dtype=np.int16))
            made.define_array(name, "when", "timestamp_ns", (3,), ["when"])
            made.write(name, "when", np.array(["2024-01-01T00:00:00.000000001"] * 3, "M8[ns]"))
            made.define_array(name, "ship", "string", (2,), ["ship"])
            made.write(name, "ship", ["a", "\u00e4b"])
    return path


@pytest.mark.parametrize("suffix", ["nc", "zarr"])
def test_groups_equal_datasets(store: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"out.{suffix}"
    assert main(["convert", str(store), str(target), "--quiet"]) == 0
    engine = {"nc": "netcdf4", "zarr": "zarr"}[suffix]
    options = {} if suffix == "nc" else {"consolidated": False}
    read = apt.AtlasStore(store)
    for name in ("one", "two"):
        with xarray.open_dataset(target, engine=engine, group=name, **options) as got:
            xarray.testing.assert_identical(got.load(), read.to_xarray(name).load())
    if suffix == "nc":
        with netCDF4.Dataset(target) as file:
            assert file["one"]["t"].chunking() == [3, 2]
    else:
        assert zarr.open_group(target, mode="r")["one/t"].chunks == (3, 2)
    with pytest.raises(FileExistsError):
        export_datasets(store, target, progress=False)
    assert export_datasets(store, target, mode="w", progress=False).datasets == 2


def test_one_dataset_comes_back(store: Path, tmp_path: Path) -> None:
    target, back = tmp_path / "two.nc", tmp_path / "back.atlas"
    export_datasets(store, target, datasets=["two"], progress=False)
    convert_datasets(target, back, progress=False)
    want, got = (apt.AtlasStore(path).to_xarray("two").load() for path in (store, back))
    xarray.testing.assert_equal(got, want)


def replaced_until_killed(store: Path, target: Path, can_exchange: bool) -> None:
    """Replaces the target; the process ends when something is removed."""
    if not can_exchange:
        refusal = OSError(errno.EINVAL, "this file system cannot exchange two folders")
        _native.exchange_names = Mock(side_effect=refusal)

    def remove_half(path: Any, **_: Any) -> None:
        next(file for file in Path(path).rglob("*") if file.is_file()).unlink()
        os._exit(9)

    shutil.rmtree = remove_half  # type: ignore[assignment]
    if target.suffix == ".zarr":
        export_datasets(store, target, mode="w", progress=False)
    else:
        convert_datasets(store.with_name("two.nc"), target, mode="w", progress=False)


REPLACING = """
import sys
from pathlib import Path
from conversion.test_store_export import replaced_until_killed
replaced_until_killed(Path(sys.argv[1]), Path(sys.argv[2]), bool(sys.argv[3]))
"""


@pytest.mark.parametrize(
    ("suffix", "can_exchange"),
    [
        ("zarr", True),
        ("atlas", False),
        pytest.param("zarr", False, marks=pytest.mark.exhaustive),
        pytest.param("atlas", True, marks=pytest.mark.exhaustive),
    ],
)
def test_a_kill_leaves_the_old_or_the_new(
    store: Path, tmp_path: Path, scripts: ScriptServer, suffix: str, can_exchange: bool
) -> None:
    target = tmp_path / f"out.{suffix}"
    export_datasets(store, store.with_name("two.nc"), datasets=["two"], progress=False)
    if suffix == "zarr":
        export_datasets(store, target, progress=False)
    else:
        convert_datasets(store.with_name("two.nc"), target, progress=False)
    done = scripts.run(REPLACING, store, target, "1" if can_exchange else "")
    assert done.returncode == 9, done.stderr
    if suffix == "zarr":
        got = xarray.open_dataset(target, engine="zarr", group="two", consolidated=False).load()
    else:
        got = apt.AtlasStore(target).to_xarray("two").load()
    want = apt.AtlasStore(store).to_xarray("two").load()
    xarray.testing.assert_equal(got, want)


def test_failures_leave_nothing(store: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    with apt.AtlasStore(store, "a") as made:
        made.define_array("two", "raw", "binary", (1,))
        made.write("two", "raw", [b"x"])
    for target in ("out.nc", "out.zarr"):
        with pytest.raises(apt.FieldError, match="'raw' of 'two': binary"):
            export_datasets(store, tmp_path / target, progress=False)
    with pytest.raises(ValueError, match="suffix"):
        export_datasets(store, tmp_path / "out.txt", progress=False)
    with pytest.raises(apt.FieldError, match="none"):
        export_datasets(store, tmp_path / "out.nc", datasets=[], progress=False)
    assert sorted(tmp_path.iterdir()) == before
