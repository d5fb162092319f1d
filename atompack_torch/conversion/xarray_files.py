"""Conversion of NetCDF files and Zarr groups to datasets of an ATLAS store, and back."""

from __future__ import annotations

import ctypes
import errno
import importlib
import math
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from atompack_torch.conversion.sources.hdf5_child import SLICE_BYTES
from atompack_torch.conversion.sources.hdf5_files import ForeignFile
from atompack_torch.errors import AtompackError, FieldError, file_exists
from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
from atompack_torch.options import bytes_at, check_level, checked_path, is_hidden, redact_path
from atompack_torch.progress import Progress
from atompack_torch.publishing import published

if TYPE_CHECKING:
    import xarray

_Path = str | os.PathLike[str]

SUFFIXES = (".nc", ".nc4", ".cdf", ".netcdf", ".zarr")
_PENDING_BYTES = 256 << 20  # values pending until a flush

_FULL_BYTES = 1 << 20  # free space of a disk that cannot take a file


class StoreReport(NamedTuple):
    """Summary of a conversion to a store.

    Attributes:
        datasets: number of datasets.
        variables: variable → number of datasets that have it.
        bytes_read: size of the values in memory.
        bytes_written: size of the store.
        seconds: duration of the conversion.
        left_out: what the store has no place for.
    """

    datasets: int
    variables: dict[str, int]
    bytes_read: int
    bytes_written: int
    seconds: float
    left_out: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Converts the report to plain values, for JSON.

        Returns:
            Name of the attribute → value.
        """
        return self._asdict()

    def __str__(self) -> str:
        megabytes = f"{self.bytes_read / 1e6:,.1f} MB to {self.bytes_written / 1e6:,.1f} MB"
        lines = [f"wrote {self.datasets:,} datasets, {megabytes} in {self.seconds:.1f} s"]
        lines += [f"  {name}: {n:,} datasets" for name, n in self.variables.items()]
        lines += [f"  omitted: {what}" for what in self.left_out]
        return "\n".join(lines)


def datasets_at(path: _Path) -> list[Path]:
    """Lists NetCDF files and Zarr groups: the path itself, or those in the folder, by name."""
    found = Path(path)
    if _is_dataset(found):
        return [found]
    inside = found.iterdir() if found.is_dir() else ()
    return sorted(path for path in inside if not is_hidden(path.name) and _is_dataset(path))


def _is_dataset(path: Path) -> bool:
    marks = (".zgroup", "zarr.json", ".zmetadata")
    if path.is_dir():
        return path.suffix.lower() == ".zarr" or any((path / mark).is_file() for mark in marks)
    return path.suffix.lower() in SUFFIXES


def convert_datasets(
    src: _Path | Sequence[_Path],
    dst: _Path,
    *,
    mode: Literal["x", "w", "a"] = "x",
    codec: Literal["zstd", "lz4", "none"] | None = None,
    level: int = 3,
    progress: bool = True,
) -> StoreReport:
    """Writes NetCDF files and Zarr groups into an ATLAS store; needs the extra ``xarray``.

    Each becomes a dataset named after the file. Packed values are unpacked and timestamps decoded
    by xarray, in a separate process, which opens nothing but the file. Only one file at a time is
    in memory. Groups in a file or group are dropped, and listed in the report. A new store appears
    when it is complete; an existing one that is appended to is flushed periodically.

    Args:
        src: NetCDF files, Zarr groups, folders of them.
        dst: the store.
        mode: ``"x"`` rejects an existing ``dst``, ``"w"`` replaces it, ``"a"`` appends to it.
        codec: codec of blocks; None: that of the store, zstd for a new one.
        level: zstd level.
        progress: show a progress bar on stderr.

    Returns:
        Counts of what was written.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` exists.
        FieldError: two files have the same name, or names, dtypes or attributes cannot be stored.
        CorruptFileError: a file is damaged, or far smaller than the values that it declares.
        UnsupportedFormatError: a file refers to others, or has a filter that h5py does not.
    """
    check_level(codec, level)
    paths = [src] if isinstance(src, (str, os.PathLike)) else [*src]
    for path in (*paths, dst):
        checked_path(path)
    sources = [found for path in paths for found in _found(path)]
    twice = [name for name, n in Counter(path.stem for path in sources).items() if n > 1]
    if twice:
        raise FieldError(f"datasets: expected each name once, got {twice[0]!r} several times")
    start = time.monotonic()
    variables: Counter[str] = Counter()
    left_out: list[str] = []
    n_bytes = pending = 0
    with (
        staged_target(Path(dst), mode) as made,
        AtlasStore(made, "a" if mode == "a" else "x", codec, level=level) as store,
        Progress(len(sources), "files", label=Path(dst).name, enabled=progress) as bar,
    ):
        for path in sources:
            dataset, lost = _read(path)
            left_out += [f"{path}: {what}" for what in lost]
            try:
                store.from_xarray(path.stem, dataset)
            except AtompackError as error:
                raise type(error)(f"{path}: {error}") from error
            variables.update(map(str, dataset.variables))
            n_bytes += dataset.nbytes
            pending += dataset.nbytes
            if pending > _PENDING_BYTES:
                store.flush()
                pending = 0
            bar.update()
    seconds, n_written = time.monotonic() - start, bytes_at(Path(dst))
    return StoreReport(len(sources), dict(variables), n_bytes, n_written, seconds, tuple(left_out))


def _found(path: _Path) -> list[Path]:
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    found = datasets_at(path)
    if not found:
        raise FieldError(f"{path}: expected a NetCDF file, a Zarr group or a folder of them")
    return found


@contextmanager
def staged_target(path: Path, mode: str) -> Iterator[Path]:
    """Provides a path next to the target for a file or folder that replaces it at the end."""
    if mode == "a":
        yield path
        return
    if mode == "x" and path.exists():
        raise file_exists(path, "mode='w' replaces it, mode='a' adds to it")
    with published(path) as made:
        yield made


def _read(path: Path) -> tuple[xarray.Dataset, list[str]]:
    """Reads a file or group into memory; also returns what xarray omits."""
    import xarray

    with closing(ForeignFile(os.fspath(path), "xarray")) as file:
        attrs, coords, outlines, lost = file.ask("outline")
        variables = {}
        for name, (dims, own, dtype, shape, chunks) in outlines.items():
            values = _values(file, name, dtype, shape, chunks.get(dims[0], 1) if dims else 1)
            variables[name] = xarray.Variable(dims, values, own, {"preferred_chunks": chunks})
    return xarray.Dataset(variables, attrs=attrs).set_coords(coords), lost


def _values(
    file: ForeignFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], chunk: int
) -> np.ndarray[Any, Any]:
    """Reads a variable in slices of whole chunks, so that its reader needs little memory."""
    if not shape or 0 in shape:
        return np.asarray(file.ask("values", name, 0, shape[0] if shape else 0))
    row_bytes = dtype.itemsize * math.prod(shape[1:])
    step = -(-max(SLICE_BYTES // row_bytes, 1) // chunk) * chunk
    values: np.ndarray[Any, Any] = file.ask("values", name, 0, step)
    if step < shape[0]:
        values = np.concatenate([values, np.empty((shape[0] - len(values), *shape[1:]), dtype)])
    for first in range(step, shape[0], step):
        values[first : first + step] = file.ask("values", name, first, first + step)
    return values


def copy_store(
    src: _Path,
    dst: _Path,
    *,
    to: Literal["collection", "store"],
    mode: Literal["x", "w"],
    codec: Literal["zstd", "lz4", "none"],
    level: int,
) -> StoreReport:
    """Writes a copy of a store or collection; see ``AtlasStore.export``.

    Args:
        src: the store or collection.
        dst: the folder to create, or the ``data.atlas`` of a collection.
        to: kind of the copy.
        mode: ``"x"`` rejects an existing ``dst``, ``"w"`` replaces it.
        codec: codec of blocks.
        level: zstd level.

    Returns:
        Counts of what was written.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` exists.
        FieldError: a name, type or attribute that the copy cannot have.
    """
    start = time.monotonic()
    with AtlasStore(src) as store:
        store.export(dst, to, mode=mode, codec=codec, level=level)
        n = len(store)
        variables = {array: len(store.schema(array)) for array in store.arrays}
    n_read, n_written = bytes_at(Path(src)), bytes_at(Path(dst))
    return StoreReport(n, variables, n_read, n_written, time.monotonic() - start)


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
    written one after the other, strings of a variable together. Coordinates, attributes and fill
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
    place = redact_path(store.path)
    if not names:
        raise FieldError(f"{place}: datasets: expected at least one, got none")
    if len(names) == 1:
        return {names[0]: None}
    for name in names:
        if "/" in name or name.startswith((".", "__")):
            raise FieldError(f"{place}: dataset {name!r}: expected a name that a group can have")
    return {name: name for name in names}


def _prepared(store: AtlasStore, name: str) -> xarray.Dataset:
    """Opens a dataset by chunks, with the encoding of its variables."""
    for array in store.arrays_of(name):
        if store.schema(array, name).dtype == "binary":
            place = redact_path(store.path)
            raise FieldError(f"{place}: array {array!r} of {name!r}: binary is not exported")
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
