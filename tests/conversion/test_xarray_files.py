"""NetCDF files and Zarr groups to stores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray
from oracle.atlas_client import AtlasProcess

import atompack_torch as apt
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


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_arrays_without_values(tmp_path: Path, suffix: str) -> None:
    shapes = {"a": ("x", "y"), "b": ("y", "x"), "c": ("x",)}
    sizes = {"x": 3, "y": 0}
    want = xarray.Dataset(
        {name: (dims, np.zeros([sizes[dim] for dim in dims])) for name, dims in shapes.items()}
    )
    source = tmp_path / f"s{suffix}"
    want.to_zarr(source) if suffix == ".zarr" else want.to_netcdf(source)
    convert_datasets(source, tmp_path / "store", progress=False)
    xarray.testing.assert_identical(apt.AtlasStore(tmp_path / "store").to_xarray("s"), want)


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
