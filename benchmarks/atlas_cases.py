"""The stores that ``atlas.py`` measures, and how each library writes them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating[Any]]
Scale = Literal["quick", "usual", "full"]


@dataclass(frozen=True)
class Case:
    """Datasets of one shape, stored in chunks; variables are float32, but for ``doubles``."""

    name: str
    n: int
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    variables: tuple[str, ...]
    codec: str
    decimals: int
    distinct: int = 1 << 30  # datasets after which values repeat, farther apart than a block
    is_of_original: bool = False  # shape of a benchmark of atlas-python; more is measured
    doubles: tuple[str, ...] = ()  # variables of float64

    @property
    def quarter(self) -> tuple[list[int], list[int]]:
        """Start and shape of the slice: a quarter of each axis, not from its beginning."""
        counts = [max(1, extent // 4) for extent in self.shape]
        return [extent // 10 for extent in self.shape], counts

    def names(self) -> list[str]:
        """Of the datasets."""
        return [f"{self.name}_{i:06d}" for i in range(self.n)]

    def column(self, variable: str) -> Values:
        """(distinct, *shape): values with as many decimals as instruments have."""
        n = min(self.n, self.distinct)
        rng = np.random.default_rng(self.variables.index(variable))
        drawn = rng.standard_normal((n, *self.shape), dtype=np.float32)
        return np.round(drawn.astype(self.dtype(variable)), self.decimals)

    def dtype(self, variable: str) -> str:
        """As numpy and all libraries spell it."""
        return "float64" if variable in self.doubles else "float32"

    def stacked_chunks(self) -> tuple[int, ...]:
        """Of one array over all datasets: whole datasets up to about 1 MiB, else their chunks."""
        rows = max(1, (1 << 20) // (int(np.prod(self.shape)) * 4))
        return (rows, *self.shape) if rows > 1 else (1, *self.chunks)


def cases(scale: Scale) -> list[Case]:
    """All of them; a tenth of each when it should be quick."""
    tenth = 10 if scale == "quick" else 1
    hours = (168,)
    profile = functools.partial(
        Case, n=1000 // tenth, shape=(50, *hours), chunks=(50, *hours), decimals=2
    )
    four = ("temperature", "salinity", "oxygen", "chlorophyll")
    return [
        Case("sensors", 1000 // tenth, hours, hours, ("temperature", "humidity"), "zstd", 2),
        *(profile(name=f"profile-{c}", variables=four, codec=c) for c in ("zstd", "lz4", "none")),
        Case("gridded", 200 // tenth, (100, 100, 180), (50, 50, 60), ("t",), "zstd", 1, 20),
        Case("tiny", 20_000 // tenth, (25,), (25,), ("x", "y", "z"), "zstd", 2),
        *_cases_of_original(tenth, 1000 if scale == "full" else 100),
    ]


def _cases_of_original(tenth: int, n_large: int) -> list[Case]:
    """1,000 datasets each; of the large ones (7.7 MB each) 100, unless everything is measured."""
    grid, chunks, casts = (100, 100, 48), (50, 50, 24), (50, 168)
    three, two = ("t", "u", "v"), ("temperature", "salinity")
    return [
        Case("grid-48", n_large // tenth, grid, chunks, three, "zstd", 1, 20, True, ("u",)),
        Case("cast-168", 1000 // tenth, casts, casts, two, "zstd", 2, is_of_original=True),
        Case("day-24", 1000 // tenth, (24,), (24,), three, "zstd", 2, is_of_original=True),
    ]


def timed(write: Callable[[Case, Path, dict[str, Values]], None], case: Case, path: Path) -> float:
    """Seconds of writing and flushing; the values are made before."""
    columns = {variable: case.column(variable) for variable in case.variables}
    start = time.perf_counter()
    write(case, path, columns)
    return time.perf_counter() - start


def write_ours(
    case: Case,
    path: Path,
    columns: dict[str, Values],
    *,
    durable: bool = False,
    block_bytes: int | None = None,
) -> None:
    """One flush; like the original it does not wait for the disk, unless it is durable."""
    import atompack_torch as apt

    codec: Any = case.codec
    with apt.AtlasStore(path, "x", codec=codec, durable=durable, block_bytes=block_bytes) as store:
        for i, name in enumerate(case.names()):
            store.create_dataset(name)
            for variable, column in columns.items():
                shape = case.shape
                dtype = case.dtype(variable)
                store.define_array(name, variable, dtype, shape, chunk_shape=case.chunks)
                store.write(name, variable, column[i % len(column)])


def write_atlas(case: Case, path: Path, columns: dict[str, Values]) -> None:
    """One flush."""
    import atlas

    dims = [f"dim{axis}" for axis in range(len(case.shape))]
    with atlas.Atlas.create(path, codec=case.codec) as store:
        for i, name in enumerate(case.names()):
            view = store.create_dataset(name)
            for variable, column in columns.items():
                dtype = case.dtype(variable)
                view.define_array(variable, dtype, dims, case.shape, chunk_shape=case.chunks)
                view.write_array(variable, [0] * len(dims), column[i % len(column)])


def write_zarr(case: Case, path: Path, columns: dict[str, Values]) -> None:
    """One array a variable, all datasets along its first axis."""
    import zarr

    group = zarr.open_group(path, mode="w")
    for variable, column in columns.items():
        array = group.create_array(
            variable,
            shape=(case.n, *case.shape),
            chunks=case.stacked_chunks(),
            dtype=case.dtype(variable),
            dimension_names=("dataset", *(f"dim{axis}" for axis in range(len(case.shape)))),
            compressors="auto" if case.codec != "none" else None,
        )
        for first in range(0, case.n, len(column)):
            array[first : first + len(column)] = column[: case.n - first]


def write_zarr_each(case: Case, path: Path, columns: dict[str, Values]) -> None:
    """One group a dataset, one array a variable."""
    import zarr

    for i, name in enumerate(case.names()):
        group = zarr.open_group(path / name, mode="w")
        for variable, column in columns.items():
            dims = [f"dim{axis}" for axis in range(len(case.shape))]
            values = column[i % len(column)]
            group.create_array(variable, data=values, chunks=case.chunks, dimension_names=dims)


def write_netcdf(case: Case, path: Path, columns: dict[str, Values]) -> None:
    """One file a dataset."""
    import netCDF4

    path.mkdir()
    dims = tuple(f"dim{axis}" for axis in range(len(case.shape)))
    packing = {"compression": "zlib", "complevel": 1} if case.codec != "none" else {}
    for i, name in enumerate(case.names()):
        with netCDF4.Dataset(path / f"{name}.nc", "w") as file:
            for dim, extent in zip(dims, case.shape, strict=True):
                file.createDimension(dim, extent)
            for variable, column in columns.items():
                chunks = case.chunks if packing else None
                kind = case.dtype(variable)
                made = file.createVariable(variable, kind, dims, chunksizes=chunks, **packing)
                made[:] = column[i % len(column)]


DURABLE = "ours durable"
WIDE = "wide"
WRITERS: dict[str, Callable[[Case, Path, dict[str, Values]], None]] = {
    "ours": write_ours,
    DURABLE: functools.partial(write_ours, durable=True),
    WIDE: functools.partial(write_ours, block_bytes=8 << 20),
    "atlas": write_atlas,
    "zarr": write_zarr,
    "zarr-each": write_zarr_each,
    "netcdf": write_netcdf,
}
