"""One measurement of ``atlas.py`` in a separate process; prints seconds as JSON.

python benchmarks/atlas_sides.py SIDE CASE PATH MEASURE ROUNDS SCALE
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from atlas_cases import WRITERS, Case, Scale, cases, timed

Bounds = tuple[Sequence[int] | None, Sequence[int] | None]
BATCH, N_BATCHES = 64, 50


class Side(Protocol):
    """A store opened by one library."""

    def scan(self, variable: str, bounds: Bounds) -> object:
        """The same slice of all datasets."""

    def batch(self, indices: list[int]) -> dict[str, Any]:
        """All variables of some datasets, stacked."""

    def xarray(self) -> Any:
        """All datasets as one of xarray, along a new dimension."""


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


class ZarrEach:
    """One group a dataset; like files, each is opened when it is read."""

    def __init__(self, case: Case, path: Path) -> None:
        self.paths = [path / name for name in case.names()]
        self.variables = case.variables

    def scan(self, variable: str, bounds: Bounds) -> object:
        return np.stack([self._read(path, [variable], bounds)[0] for path in self.paths])

    def _read(self, path: Path, variables: Sequence[str], bounds: Bounds) -> list[Any]:
        import zarr

        group: Any = zarr.open_group(path, mode="r")
        return [group[variable][box(bounds) or ...] for variable in variables]

    def single(self, number: int) -> object:
        return self._read(self.paths[number], self.variables, (None, None))

    def xarray(self) -> Any:
        return stacked_files(self.paths, "zarr", consolidated=False)

    def xarray_of_one(self, number: int) -> Any:
        import xarray

        return xarray.open_zarr(self.paths[number], consolidated=False, chunks=None)


class NetCDF:
    """One file a dataset; each is opened when it is read, as thousands cannot stay open."""

    def __init__(self, case: Case, path: Path) -> None:
        self.paths = [path / f"{name}.nc" for name in case.names()]
        self.variables = case.variables

    def scan(self, variable: str, bounds: Bounds) -> object:
        return np.stack([self._read(path, [variable], bounds)[0] for path in self.paths])

    def _read(self, path: Path, variables: Sequence[str], bounds: Bounds) -> list[Any]:
        import netCDF4

        with netCDF4.Dataset(path) as file:
            file.set_auto_mask(False)
            return [file[variable][box(bounds) or ...] for variable in variables]

    def single(self, number: int) -> object:
        return self._read(self.paths[number], self.variables, (None, None))

    def xarray(self) -> Any:
        return stacked_files(self.paths, "netcdf4")

    def xarray_of_one(self, number: int) -> Any:
        import xarray

        return xarray.open_dataset(self.paths[number], engine="netcdf4")

    def batch(self, indices: list[int]) -> dict[str, Any]:
        rows = [self._read(self.paths[i], self.variables, (None, None)) for i in indices]
        columns = map(np.stack, zip(*rows, strict=True))
        return dict(zip(self.variables, columns, strict=True))


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


def measure_scan(side: str, case: Case, path: Path, bounds: Bounds, rounds: int) -> list[float]:
    """The first with opening the store, then repeats with the same handle."""
    opened: list[Side] = []

    def first() -> object:
        opened.append(SIDES[side](case, path))
        return opened[0].scan(case.variables[0], bounds)

    times = [seconds(first)]
    return times + [
        seconds(lambda: opened[0].scan(case.variables[0], bounds)) for _ in range(rounds)
    ]


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


def quarter_by_name(case: Case) -> dict[str, slice]:
    """The slice by dimension."""
    return {f"dim{i}": one for i, one in enumerate(box(case.quarter))}


def measure_xarray(side: str, case: Case, path: Path, rounds: int) -> list[float]:
    """A quarter of one variable of all datasets: the first with opening all, then repeats."""
    chosen = quarter_by_name(case)
    opened: list[Any] = []

    def first() -> object:
        opened.append(SIDES[side](case, path).xarray())
        return again()

    def again() -> object:
        return opened[0][case.variables[0]].isel(chosen).to_numpy()

    return [seconds(first)] + [seconds(again) for _ in range(rounds)]


def measure_xarray_loop(side: str, case: Case, path: Path, rounds: int) -> list[float]:
    """The same quarter, of one xarray dataset after the other."""
    chosen = quarter_by_name(case)
    opened: list[Any] = []

    def first() -> object:
        opened.append(SIDES[side](case, path))
        return again()

    def again() -> object:
        name, each = case.variables[0], map(opened[0].xarray_of_one, range(case.n))
        return np.stack([one[name].isel(chosen).to_numpy() for one in each])

    return [seconds(first)] + [seconds(again) for _ in range(rounds)]


MODULES = {"netcdf": "netCDF4", "ours": "atompack_torch", "wide": "atompack_torch"}
MODULES["zarr-each"] = "zarr"


def main() -> None:
    side, name, path, measure, rounds, scale = sys.argv[1:]
    (case,) = (c for c in cases(cast("Scale", scale)) if c.name == name)
    library = side.split()[0]
    sys.path.remove(str(Path(__file__).resolve().parent))  # has an atlas.py that is not a library
    module = importlib.import_module(MODULES.get(library, library))  # not measured
    if library in ("ours", "wide"):
        module.AtlasStore  # noqa: B018  # imported when it is first used
    if measure == "write":
        times = [timed(WRITERS[side], case, Path(path))]
    elif measure == "open":
        times = [seconds(lambda: SIDES[side](case, Path(path)))]
    elif measure == "batches":
        times = measure_batches(side, case, Path(path), int(rounds))
    elif measure == "single":
        times = measure_single(side, case, Path(path), int(rounds))
    elif measure in ("xarray", "xarray loop"):
        importlib.import_module("xarray")
        importlib.import_module("dask.array")  # which xarray imports for its first dataset
        times = (measure_xarray if measure == "xarray" else measure_xarray_loop)(
            side, case, Path(path), int(rounds)
        )
    else:
        bounds: Bounds = case.quarter if measure == "quarter" else (None, None)
        times = measure_scan(side, case, Path(path), bounds, int(rounds))
    print(json.dumps(times))


if __name__ == "__main__":
    main()
