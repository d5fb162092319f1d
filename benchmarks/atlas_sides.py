"""One measurement of ``atlas.py``."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from atlas_cases import WRITERS, Case, timed

Bounds = tuple[Sequence[int] | None, Sequence[int] | None]
BATCH, N_BATCHES = 64, 50
SLOW = 1.0  # seconds of a first use from which on it is repeated only once


class Ours:
    """Stacked tensors."""

    def __init__(self, case: Case, path: Path) -> None:
        import atompack_torch as apt

        self.store = apt.AtlasStore(path)
        self.variables = case.variables

    def scan(self, variable: str, bounds: Bounds) -> object:
        return self.store.scan(variable, None, *bounds)

    def single(self, number: int) -> object:
        name = self.store.datasets[number]
        return [self.store.read(name, variable) for variable in self.variables]

    def xarray(self) -> Any:
        return self.store.to_xarray(self.store.datasets)

    def xarray_of_one(self, number: int) -> Any:
        return self.store.to_xarray(self.store.datasets[number])

    def dataset(self) -> Any:
        """Its own dataset."""
        import atompack_torch as apt

        return apt.AtlasDataset(self.store, self.variables)


class Atlas:
    """atlas-python, all in one call and stacked."""

    def __init__(self, case: Case, path: Path) -> None:
        import atlas

        self.store = atlas.Atlas.open(path)
        self.names, self.variables = self.store.list_datasets(), case.variables

    def scan(self, variable: str, bounds: Bounds) -> object:
        start, shape = bounds
        return self.store.read_array_across_stacked(variable, self.names, start, shape)

    def single(self, number: int) -> object:
        view = self.store.open_dataset(self.names[number])
        return [view.read_array(variable) for variable in self.variables]

    def xarray(self) -> Any:
        return self.store.open_as_many_xarray_dataset(self.names)

    def xarray_of_one(self, number: int) -> Any:
        return self.store.open_as_xarray_dataset(self.names[number])

    def batch(self, indices: list[int]) -> dict[str, Any]:
        names = [self.names[i] for i in indices]
        return {v: self.store.read_array_across_stacked(v, names) for v in self.variables}


class AtlasAcross(Atlas):
    """All in one call, an array for each dataset."""

    def scan(self, variable: str, bounds: Bounds) -> object:
        return self.store.read_array_across(variable, self.names, *bounds)


class AtlasLoop(Atlas):
    """One dataset after the other."""

    def scan(self, variable: str, bounds: Bounds) -> object:
        views = map(self.store.open_dataset, self.names)
        return [view.read_array(variable, *bounds) for view in views]


class Zarr:
    """One stacked array a variable."""

    def __init__(self, case: Case, path: Path) -> None:
        import zarr

        self.path = path
        group = zarr.open_group(path, mode="r")
        self.arrays: dict[str, Any] = {variable: group[variable] for variable in case.variables}

    def scan(self, variable: str, bounds: Bounds) -> object:
        return self.arrays[variable][(slice(None), *box(bounds))]

    def single(self, number: int) -> object:
        return [array[number] for array in self.arrays.values()]

    def xarray(self) -> Any:
        import xarray

        return xarray.open_zarr(self.path, consolidated=False, chunks=None)

    def batch(self, indices: list[int]) -> dict[str, Any]:
        return {name: array.oindex[np.array(indices)] for name, array in self.arrays.items()}


class Files:
    """One file or group a dataset; each is opened when it is read: thousands cannot stay open."""

    suffix = ""

    def __init__(self, case: Case, path: Path) -> None:
        self.paths = [path / f"{name}{self.suffix}" for name in case.names()]
        self.variables = case.variables

    def _read(self, path: Path, variables: Sequence[str], bounds: Bounds) -> list[Any]:
        raise NotImplementedError

    def scan(self, variable: str, bounds: Bounds) -> object:
        return np.stack([self._read(path, [variable], bounds)[0] for path in self.paths])

    def single(self, number: int) -> list[Any]:
        return self._read(self.paths[number], self.variables, (None, None))

    def batch(self, indices: list[int]) -> dict[str, Any]:
        columns = map(np.stack, zip(*map(self.single, indices), strict=True))
        return dict(zip(self.variables, columns, strict=True))


class ZarrEach(Files):
    """One group a dataset."""

    def _read(self, path: Path, variables: Sequence[str], bounds: Bounds) -> list[Any]:
        import zarr

        group: Any = zarr.open_group(path, mode="r")
        return [group[variable][box(bounds) or ...] for variable in variables]

    def xarray(self) -> Any:
        return stacked_files(self.paths, "zarr", consolidated=False)

    def xarray_of_one(self, number: int) -> Any:
        import xarray

        return xarray.open_zarr(self.paths[number], consolidated=False, chunks=None)


class NetCDF(Files):
    """One file a dataset."""

    suffix = ".nc"

    def _read(self, path: Path, variables: Sequence[str], bounds: Bounds) -> list[Any]:
        import netCDF4

        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            return [file[variable][box(bounds) or ...] for variable in variables]

    def xarray(self) -> Any:
        return stacked_files(self.paths, "netcdf4")

    def xarray_of_one(self, number: int) -> Any:
        import xarray

        return xarray.open_dataset(self.paths[number], engine="netcdf4")


def stacked_files(paths: Sequence[Path], engine: str, **options: Any) -> Any:
    """The way of xarray for many files of one layout."""
    import xarray

    return xarray.open_mfdataset(
        paths,
        engine=engine,
        combine="nested",
        concat_dim="dataset",
        compat="override",
        coords="minimal",
        join="override",
        **options,
    )


def box(bounds: Bounds) -> tuple[slice, ...]:
    """Start and shape as slices."""
    start, shape = bounds
    if start is None or shape is None:
        return ()
    return tuple(slice(s, s + n) for s, n in zip(start, shape, strict=True))


SIDES: dict[str, Callable[[Case, Path], Any]] = {
    "ours": Ours,
    "atlas": Atlas,
    "atlas across": AtlasAcross,
    "atlas loop": AtlasLoop,
    "zarr": Zarr,
    "zarr-each": ZarrEach,
    "wide": Ours,
    "netcdf": NetCDF,
}


def seconds(call: Callable[[], object]) -> float:
    """Of one call; what it returned is gone before the next."""
    start = time.perf_counter()
    result = call()
    spent = time.perf_counter() - start
    del result
    return spent


def repeated(open_store: Callable[[], Any], use: Callable[[Any], object], n: int) -> list[float]:
    """Seconds of opening a store and using it, then of using it again up to ``n`` times."""
    opened: list[Any] = []

    def first() -> object:
        opened.append(open_store())
        return use(opened[0])

    spent = seconds(first)
    n = min(n, 1) if spent > SLOW else n
    return [spent] + [seconds(lambda: use(opened[0])) for _ in range(n)]


def measure_scan(measure: str, side: str, case: Case, path: Path, rounds: int) -> list[float]:
    """A quarter of one variable of all datasets, or all of it."""
    bounds: Bounds = case.quarter if measure == "quarter" else (None, None)
    variable = case.variables[0]
    return repeated(
        lambda: SIDES[side](case, path), lambda store: store.scan(variable, bounds), rounds
    )


def measure_batches(side: str, case: Case, path: Path, rounds: int) -> list[float]:
    """Seconds a batch: of the first pass, then of repeats."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Batches(Dataset[Any]):
        """What a user writes around a library: whole batches in one call."""

        def __getitems__(self, indices: list[int]) -> Any:
            batch = reader.batch(indices)
            return {name: torch.from_numpy(values) for name, values in batch.items()}

    reader = SIDES[side](case, path)
    is_ours = isinstance(reader, Ours)
    dataset = reader.dataset() if is_ours else Batches()
    collate = None if is_ours else (lambda batch: batch)
    order = torch.randperm(case.n, generator=torch.Generator().manual_seed(0)).tolist()
    chosen = order[: BATCH * N_BATCHES]
    loader = DataLoader(dataset, batch_size=BATCH, sampler=chosen, collate_fn=collate)
    passes = [seconds(lambda: [None for _ in loader]) for _ in range(rounds + 1)]
    return [spent / len(loader) for spent in passes]


def measure_single(side: str, case: Case, path: Path, rounds: int) -> list[float]:
    """Seconds for all variables of one random dataset: of the first pass, then of repeats."""
    reader = SIDES[side](case, path)
    order = np.random.default_rng(0).permutation(case.n)[:50].tolist()

    def read_all() -> None:
        for number in order:
            reader.single(number)

    passes = [seconds(read_all) for _ in range(rounds + 1)]
    return [spent / len(order) for spent in passes]


def measure_xarray(measure: str, side: str, case: Case, path: Path, rounds: int) -> list[float]:
    """A quarter of one variable of all datasets as one of xarray, or of each in a loop."""
    importlib.import_module("xarray")
    importlib.import_module("dask.array")  # which xarray imports for its first dataset
    name = case.variables[0]
    chosen = {f"dim{i}": one for i, one in enumerate(box(case.quarter))}

    def read(found: Any) -> Any:
        return found[name].isel(chosen).to_numpy()

    def read_each(store: Any) -> Any:
        return np.stack([read(store.xarray_of_one(number)) for number in range(case.n)])

    if measure == "xarray loop":
        return repeated(lambda: SIDES[side](case, path), read_each, rounds)
    return repeated(lambda: SIDES[side](case, path).xarray(), read, rounds)


MODULES = {"netcdf": "netCDF4", "ours": "atompack_torch", "wide": "atompack_torch"}
MODULES["zarr-each"] = "zarr"


def measured(side: str, case: Case, path: Path, measure: str, rounds: int) -> list[float]:
    """Seconds of one measurement, in a process of its own."""
    library = side.split()[0]
    sys.path.remove(str(Path(__file__).resolve().parent))  # has an atlas.py that is not a library
    module = importlib.import_module(MODULES.get(library, library))  # not measured
    if library in ("ours", "wide"):
        module.AtlasStore  # noqa: B018  # imported when it is first used
    if measure == "write":
        return [timed(WRITERS[side], case, path)]
    if measure == "open":
        return [seconds(lambda: SIDES[side](case, path))]
    if measure == "batches":
        return measure_batches(side, case, path, rounds)
    if measure == "single":
        return measure_single(side, case, path, rounds)
    of_all = measure_xarray if measure.startswith("xarray") else measure_scan
    return of_all(measure, side, case, path, rounds)
