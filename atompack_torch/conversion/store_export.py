"""Conversion of ATLAS stores to NetCDF files and Zarr groups."""

from __future__ import annotations

import ctypes
import errno
import importlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from atompack_torch.conversion.xarray_files import SUFFIXES, StoreReport, staged_target
from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
from atompack_torch.options import bytes_at, checked_path
from atompack_torch.progress import Progress

if TYPE_CHECKING:
    import xarray

_Path = str | os.PathLike[str]

_FULL_BYTES = 1 << 20  # free space of a disk that cannot take a file


def export_datasets(
    src: _Path,
    dst: _Path,
    *,
    datasets: Sequence[str] | None = None,
    mode: Literal["x", "w"] = "x",
    progress: bool = True,
) -> StoreReport:
    """Writes an ATLAS store to one NetCDF file or Zarr group; needs the extra ``xarray``.

    A single dataset becomes the root, several become groups of their names. Chunks are read and
    written one after the other, strings of a variable at once. Coordinates, attributes and fill
    values are those of ``AtlasStore.to_xarray``; timestamps are nanoseconds since 1970. The target
    appears when it is complete.

    Args:
        src: the store.
        dst: the file (``.nc``, ``.nc4``, ``.cdf``, ``.netcdf``) or folder (``.zarr``) to create.
        datasets: names of the datasets; None: all.
        mode: ``"x"`` rejects an existing ``dst``, ``"w"`` replaces it.
        progress: show a progress bar on stderr.

    Returns:
        Counts of what was written.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` exists.
        FieldError: no such dataset, no datasets, one whose name cannot be that of a group, or an
            array of binary values.
        ValueError: another suffix or mode.
    """
    target = Path(checked_path(dst))
    if target.suffix not in SUFFIXES:
        raise ValueError(f"{dst}: expected a suffix of {', '.join(SUFFIXES)}")
    if mode not in ("x", "w"):
        raise ValueError(f"mode: expected x or w, got {mode!r}")
    start = time.monotonic()
    variables: Counter[str] = Counter()
    n_bytes = 0
    with AtlasStore(src) as store:
        names = store.datasets if datasets is None else list(datasets)
        groups = _groups(store, names)
        with (
            staged_target(target, mode) as made,
            Progress(len(names), "datasets", label=target.name, enabled=progress) as bar,
        ):
            for name, group in groups.items():
                dataset = _prepared(store, name)
                _write(dataset, made, group, is_zarr=target.suffix == ".zarr")
                variables.update(map(str, dataset.variables))
                n_bytes += dataset.nbytes
                bar.update()
    seconds = time.monotonic() - start
    return StoreReport(len(names), dict(variables), n_bytes, bytes_at(target), seconds)


def _groups(store: AtlasStore, names: Sequence[str]) -> dict[str, str | None]:
    """Returns the group of each dataset; None: the root."""
    if not names:
        raise FieldError(f"{store.path}: datasets: expected at least one, got none")
    if len(names) == 1:
        return {names[0]: None}
    for name in names:
        if "/" in name or name.startswith((".", "__")):
            raise FieldError(
                f"{store.path}: dataset {name!r}: expected a name that a group can have"
            )
    return {name: name for name in names}


def _prepared(store: AtlasStore, name: str) -> xarray.Dataset:
    """Opens a dataset by chunks, with the encoding of its variables."""
    for array in store.arrays_of(name):
        if store.schema(array, name).dtype == "binary":
            raise FieldError(f"{store.path}: array {array!r} of {name!r}: binary is not exported")
    dataset = store.to_xarray(name, chunks={})
    for variable in dataset.variables.values():
        chunks = variable.encoding.pop("preferred_chunks", {})
        if variable.dtype == object:
            variable.load()
        elif variable.dtype.kind == "M":
            units = "nanoseconds since 1970-01-01"
            variable.encoding |= {"units": units, "calendar": "proleptic_gregorian"}
            variable.encoding["dtype"] = "int64"
        if chunks and 0 not in variable.shape and variable.dtype != object:
            sizes = zip(variable.dims, variable.shape, strict=True)
            variable.encoding["chunksizes"] = tuple(min(chunks[dim], n) for dim, n in sizes)
            variable.encoding |= {"zlib": True, "complevel": 1}  # Zarr ignores both
    return dataset


def _write(dataset: xarray.Dataset, path: Path, group: str | None, *, is_zarr: bool) -> None:
    if is_zarr:
        options: dict[str, Any] = {"group": group, "consolidated": False}
        dataset.to_zarr(path, mode="a", **options)
        return
    try:
        _write_netcdf(dataset, path, group)
    except (OSError, RuntimeError) as error:  # libnetcdf has one number for all that HDF5 reports
        if "HDF error" not in str(error) and not isinstance(error, PermissionError):
            raise
        is_full = shutil.disk_usage(path.parent).free < _FULL_BYTES
        code = errno.ENOSPC if is_full else errno.EIO
        raise OSError(code, os.strerror(code), os.fspath(path)) from error


def _write_netcdf(dataset: xarray.Dataset, path: Path, group: str | None) -> None:
    import netCDF4

    backends: Any = importlib.import_module("xarray.backends")
    common: Any = importlib.import_module("xarray.backends.common")
    file = netCDF4.Dataset(path, "a" if path.exists() else "w")
    try:
        writer = common.ArrayWriter()
        target = backends.NetCDF4DataStore(file, group=group, mode="a")
        dataset.dump_to_store(target, writer=writer)
        writer.sync()
        file.sync()
        file.close()
    except RuntimeError:
        # The library crashes when it closes a file again that it could not write: this one is kept.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(file))
        raise
