"""NetCDF files and Zarr groups to stores."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import xarray
from oracle.atlas_client import AtlasProcess
from processes.client import ScriptServer

import atompack_torch as apt
from atompack_torch import _native
from atompack_torch.cli import main
from atompack_torch.conversion import convert_datasets


def cast(number: int) -> xarray.Dataset:
    """A profile with packed values, a time and missing values."""
    rng = np.random.default_rng(number)
    temperature = rng.normal(10, 2, 20 + number).round(2)
    temperature[3] = np.nan
    time = np.array(["2024-01-01"], "M8[ns]") + np.timedelta64(number, "h")
    return xarray.Dataset(
        {
            "temperature": ("depth", temperature, {"units": "degC"}),
            "salinity": ("depth", temperature),
        },
        coords={"depth": np.arange(20.0 + number), "time": ("time", time)},
        attrs={"cast": number},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three NetCDF files, packed and chunked, and a Zarr group."""
    path = tmp_path / "casts"
    path.mkdir()
    packed = {"dtype": "i2", "scale_factor": 0.01, "_FillValue": -32768}
    for i in range(3):
        plain = {"zlib": True, "chunksizes": (8,)}
        cast(i).to_netcdf(path / f"c{i}.nc", encoding={"temperature": packed, "salinity": plain})
    cast(9).to_zarr(path / "z.zarr", consolidated=False)
    (path / "notes.txt").write_text("hello")
    return path


def test_files_become_datasets(folder: Path, tmp_path: Path, atlas_python: AtlasProcess) -> None:
    target = tmp_path / "store.atlas"
    report = convert_datasets(folder, target, progress=False)
    store = apt.AtlasStore(target)
    assert store.datasets == ["c0", "c1", "c2", "z"]
    for name, number in (("c0", 0), ("c2", 2), ("z", 9)):
        got, want = store.to_xarray(name), cast(number)
        xarray.testing.assert_allclose(got, want)
        xarray.testing.assert_allclose(atlas_python.open_xarray(target, name), want)
        assert got.attrs == {"cast": number}
        assert got["temperature"].attrs["units"] == "degC"
    assert store.schema("salinity", "c0").chunk_shape == (8,)
    assert (report.datasets, report.variables["depth"]) == (4, 4)
    assert report.bytes_written == sum(f.stat().st_size for f in target.rglob("*") if f.is_file())
    assert "wrote 4 datasets" in str(report)


def test_modes(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "store"
    first, second = folder / "c0.nc", folder / "z.zarr"
    convert_datasets(first, target, progress=False, codec="lz4")
    with pytest.raises(FileExistsError, match="exists already"):
        convert_datasets(second, target, progress=False)
    convert_datasets([second], target, mode="a", progress=False)
    assert apt.AtlasStore(target).datasets == ["c0", "z"]
    with pytest.raises(apt.FieldError, match=r"z\.zarr"):
        convert_datasets(second, target, mode="a", progress=False)
    convert_datasets(second, target, mode="w", progress=False)
    assert apt.AtlasStore(target).datasets == ["z"]


def test_what_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "store"
    bad = folder / "bad.nc"
    xarray.Dataset({"temperatur_°C": ("x", [1.0])}).to_netcdf(bad)
    with pytest.raises(apt.FieldError, match=r"bad\.nc"):
        convert_datasets(folder, target, progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["casts"]
    other = tmp_path / "other"
    other.mkdir()
    for source, message in (
        (other, "expected a NetCDF file"),
        ([folder / "c0.nc", folder / "c0.nc"], "got 'c0' several times"),
    ):
        with pytest.raises(apt.FieldError, match=message):
            convert_datasets(source, target, progress=False)
    with pytest.raises(FileNotFoundError):
        convert_datasets(folder / "c7.nc", target, progress=False)
    assert not target.exists()


def replaced_until_killed(source: Path, target: Path, can_exchange: bool) -> None:
    """Replaces the target; the process ends when something is removed."""
    if not can_exchange:
        refusal = OSError(errno.EINVAL, "this file system cannot exchange two folders")
        _native.exchange_names = Mock(side_effect=refusal)

    def remove_half(path: Any, **_: Any) -> None:
        next(file for file in Path(path).rglob("*") if file.is_file()).unlink()
        os._exit(9)

    shutil.rmtree = remove_half  # type: ignore[assignment]
    convert_datasets(source, target, mode="w", progress=False)


REPLACING = """
import sys
from pathlib import Path
from conversion.test_xarray_files import replaced_until_killed
replaced_until_killed(Path(sys.argv[1]), Path(sys.argv[2]), bool(sys.argv[3]))
"""


@pytest.mark.parametrize("can_exchange", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_a_kill_leaves_the_old_or_the_new(
    folder: Path, tmp_path: Path, scripts: ScriptServer, can_exchange: bool
) -> None:
    source, target = folder / "c0.nc", tmp_path / "out.atlas"
    convert_datasets(source, target, progress=False)
    want = apt.AtlasStore(target).to_xarray("c0").load()
    done = scripts.run(REPLACING, source, target, "1" if can_exchange else "")
    assert done.returncode == 9, done.stderr
    xarray.testing.assert_equal(apt.AtlasStore(target).to_xarray("c0").load(), want)


def test_stores_are_not_written_to_other_formats(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convert_datasets(folder / "c0.nc", tmp_path / "store", progress=False)
    assert main(["convert", str(tmp_path / "store"), str(tmp_path / "c0.nc")]) == 2
    assert "to_xarray" in capsys.readouterr().err
