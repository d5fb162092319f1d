"""What head, stats and verify say of ATLAS stores and array files."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from atompack_torch._native import ArrayFileVerification, AtlasVerification
from atompack_torch.cli._output import (
    are_all,
    print_json,
    printable,
    report_faults,
    shows_progress,
    table,
)
from atompack_torch.errors import AtompackError
from atompack_torch.formats import is_store
from atompack_torch.inspection.values import first_of, plain
from atompack_torch.options import MAX_METADATA_BYTES
from atompack_torch.progress import Progress
from atompack_torch.stores.array_file import ArrayFile
from atompack_torch.stores.array_schema import ArraySchema
from atompack_torch.stores.array_statistics import ArrayStatistics
from atompack_torch.stores.atlas_store import AtlasStore

_MOST_VALUES = 8  # of an array, in text


def are_stores(paths: Sequence[str]) -> bool:
    """Whether the paths are stores or array files, and nothing else."""
    return are_all(paths, is_store, "ATLAS stores")


class _Opened:
    """A store, or an array file as a store of one array: name of the dataset → its arrays."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.store = AtlasStore(path) if Path(path).is_dir() else None
        self.file = ArrayFile(path) if self.store is None else None

    @property
    def datasets(self) -> list[str]:
        if self.store is not None:
            return self.store.datasets
        assert self.file is not None
        return self.file.names

    def arrays_of(self, dataset: str) -> list[str]:
        return [""] if self.store is None else self.store.arrays_of(dataset)

    def attrs(self, dataset: str) -> dict[str, Any]:
        return {} if self.store is None else self.store.attrs(dataset)

    def schema(self, dataset: str, array: str) -> ArraySchema:
        if self.store is not None:
            found: ArraySchema = self.store.schema(array, dataset)
            return found
        assert self.file is not None
        return self.file.schema(dataset)

    def read(self, dataset: str, array: str) -> Any:
        if self.store is not None:
            return self.store.read(dataset, array)
        assert self.file is not None
        return self.file.read(dataset)

    def statistics(self) -> Iterator[tuple[str, dict[str, ArrayStatistics]]]:
        if self.store is not None:
            for array in self.store.arrays:
                yield array, self.store.stats(array)
        else:
            assert self.file is not None
            yield "", self.file.stats()


def head(paths: Sequence[str], n: int, as_json: bool) -> int:
    """The first datasets: attributes and the beginning of each array."""
    documents = []
    for path in paths:
        opened = _Opened(path)
        for dataset in opened.datasets[:n]:
            attributes = plain(opened.attrs(dataset))
            arrays = {name: opened.read(dataset, name) for name in opened.arrays_of(dataset)}
            if as_json:
                values = plain(arrays)
                documents.append({"dataset": dataset, "attributes": attributes, "arrays": values})
            else:
                _print_dataset(opened, dataset, attributes, arrays)
        if not as_json:
            print(f"{min(n, len(opened.datasets)):,} of {len(opened.datasets):,} datasets")
    if as_json:
        print_json(documents)
    return 0


def _print_dataset(
    opened: _Opened, dataset: str, attributes: dict[str, Any], arrays: dict[str, Any]
) -> None:
    print(f"dataset {printable(dataset)}")
    rows = [(printable(k), "attribute", "", printable(repr(v))) for k, v in attributes.items()]
    for name, value in arrays.items():
        schema = opened.schema(dataset, name)
        shown = printable(first_of(value, _MOST_VALUES))
        rows.append((printable(name), schema.dtype, str(schema.shape), shown))
    if rows:
        print(table(rows, "  "))


def stats(paths: Sequence[str], as_json: bool) -> int:
    """Least and largest values and missing ones by array, from the stored statistics."""
    documents = []
    rows = [["array", "datasets", "values", "missing", "min", "max"]]
    for path in paths:
        for array, found in _Opened(path).statistics():
            total = _total(array, list(found.values()))
            documents.append({"path": path, **plain(total)})
            counts = [f"{total[key]:,}" for key in ("datasets", "values", "missing")]
            extremes = [printable(str(plain(total[key]))) for key in ("min", "max")]
            rows.append([printable(array), *counts, *extremes])
    if as_json:
        print_json(documents)
    else:
        print(table(rows))
    return 0


def _total(array: str, found: list[ArrayStatistics]) -> dict[str, Any]:
    least = [one.min for one in found if one.min is not None and one.min == one.min]
    most = [one.max for one in found if one.max is not None and one.max == one.max]
    kinds = Counter(isinstance(value, bytes) for value in least + most)
    comparable = len(kinds) == 1
    return {
        "array": array,
        "datasets": len(found),
        "values": sum(one.row_count for one in found),
        "missing": sum(one.null_count for one in found),
        "min": min(least) if comparable else None,
        "max": max(most) if comparable else None,
    }


# For each dataset, the functions that read its arrays, one each.
_Checks = Iterator[Sequence[Callable[[], None]]]


def _checks_of_store(path: str) -> tuple[int, _Checks]:
    store = AtlasStore(path)
    reader = store._reader()
    check = AtlasVerification(reader).check
    numbers = reader.find_datasets(store.datasets)

    def checks() -> _Checks:
        for number in numbers:
            yield [partial(check, array, number) for array in reader.variables_of(number)]

    return len(numbers), checks()


def _checks_of_file(path: str) -> tuple[int, _Checks]:
    """Each array of a file is a dataset. No mapping: a file that is cut meanwhile is an error."""
    file = ArrayFileVerification(path, MAX_METADATA_BYTES)
    names = file.names()
    return len(names), ([partial(file.check, name)] for name in names)


def verify(options: argparse.Namespace) -> int:
    """Reads every array of every dataset; lists those that cannot be read."""
    faults: list[str] = []
    n_faults = n_arrays = 0
    checks = [
        _checks_of_store(path) if Path(path).is_dir() else _checks_of_file(path)
        for path in options.path
    ]
    n_datasets = sum(n for n, _ in checks)
    shows = shows_progress(options)
    with Progress(n_datasets, "datasets", label="verifying", enabled=shows) as progress:
        for arrays in chain.from_iterable(arrays for _, arrays in checks):
            for check in arrays:
                n_arrays += 1
                try:
                    check()
                except (AtompackError, OSError) as error:
                    n_faults += 1
                    faults += [str(error)] if len(faults) < options.max_faults else []
            progress.update()
    counts = {"n_datasets": n_datasets, "n_arrays": n_arrays, "n_faults": n_faults}
    return report_faults(
        counts | {"faults": faults},
        options.json,
        {"faults": (faults, n_faults)},
        [],
        f"{n_datasets:,} datasets, {n_arrays:,} arrays: {n_faults:,} faults",
    )
