"""Description, first datasets, verification and statistics of ATLAS stores and array files."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Union

from atompack_torch._native import ArrayFileVerification, AtlasReader, AtlasVerification
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import UnsupportedFormatError, printable
from atompack_torch.fields import similar_names
from atompack_torch.formats import detect
from atompack_torch.formats.atlas_store.handles import ArrayFileHandle, MemoryLimits, StoreHandle
from atompack_torch.formats.entry import (
    Compaction,
    CompactOptions,
    Description,
    Head,
    Shown,
    Summary,
    WrongOptionError,
)
from atompack_torch.formats.paths import Place, bytes_text
from atompack_torch.formats.text import first_of, plain, table
from atompack_torch.formats.verification import Verification, check_part
from atompack_torch.options import BUFFERS, MAX_METADATA_BYTES, MEMORY, is_url

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_store.array_file import ArrayFile
    from atompack_torch.formats.atlas_store.array_schema import ArraySchema, ArrayStatistics
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
    from atompack_torch.formats.atlas_store.dataset import AtlasDataset

_MOST_VALUES, _MOST_SHOWN = 8, 18  # of an array, in the text of several datasets and of one


class _FileAsStore:
    """An array file presented as a store of one array, without a name, per dataset."""

    arrays = ("",)

    def __init__(self, file: ArrayFile) -> None:
        self._file = file
        self.datasets = file.names

    def arrays_of(self, dataset: str) -> Sequence[str]:
        return self.arrays

    def attrs(self, dataset: str) -> dict[str, Any]:
        return self._file.attrs(dataset)

    def schema(self, array: str, dataset: str) -> ArraySchema:
        return self._file.schema(dataset)

    def read(self, dataset: str, array: str) -> Any:
        return self._file.read(dataset)

    def stats(self, array: str) -> dict[str, ArrayStatistics]:
        return self._file.stats()


_Store = Union["AtlasStore", _FileAsStore]


def _is_store(place: Place) -> bool:
    """True for the folder of a store and the file of a collection, not for an array file."""
    found = detect(place.path, place.remote)
    return found is None or found.name == "atlas-store"


def _open(place: Place) -> _Store:
    from atompack_torch.formats.atlas_store.array_file import ArrayFile
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore

    if _is_store(place):
        return AtlasStore(place.path, **place.options)
    return _FileAsStore(ArrayFile(place.path, **place.options))


def head(places: Sequence[Place], n: int, fields: Sequence[str] | None) -> Head:
    """Reads the first datasets: attributes and arrays, all or those of ``fields``."""
    values, lines = [], []
    for opened in map(_open, places):
        _check_arrays(opened, fields)
        for dataset in opened.datasets[:n]:
            value = _read(opened, dataset, fields)
            values.append(value)
            lines.append(_dataset_text(opened, value, _MOST_VALUES))
        lines.append(f"{min(n, len(opened.datasets)):,} of {len(opened.datasets):,} datasets")
    return Head(values, map(plain, values), "\n".join(lines))


def show(place: Place, item: str, fields: Sequence[str] | None) -> Shown:
    """Reads one dataset: attributes and arrays.

    Args:
        place: the store or array file.
        item: name of the dataset, of an array file that of the array; or, where there is none of
            this name, its number, negative ones from the end.
        fields: names of arrays; None: all.

    Returns:
        The dataset.

    Raises:
        WrongOptionError: there is no such dataset or array.
    """
    opened = _open(place)
    _check_arrays(opened, fields)
    value = _read(opened, _dataset_named(item, opened.datasets), fields)
    return Shown(plain(value), _dataset_text(opened, value, _MOST_SHOWN))


def _dataset_named(item: str, names: list[str]) -> str:
    if item in names:
        return item
    try:
        number = int(item)
    except ValueError:
        raise WrongOptionError(f"INDEX: no dataset {item!r}{_hint(item, names)}") from None
    if not -len(names) <= number < len(names):
        raise WrongOptionError(f"INDEX: expected a number below {len(names):,}, got {item}")
    return names[number]


def _check_arrays(opened: _Store, fields: Sequence[str] | None) -> None:
    names = opened.arrays
    for name in fields or ():
        if name not in names:
            raise WrongOptionError(f"fields: no array {name!r}{_hint(name, names)}")


def _hint(name: str, names: Iterable[str]) -> str:
    similar = [repr(other) for other in similar_names(name, names)]
    return f": did you mean {' or '.join(similar)}?" if similar else ""


def _read(opened: _Store, dataset: str, fields: Sequence[str] | None) -> dict[str, Any]:
    names = [name for name in opened.arrays_of(dataset) if fields is None or name in fields]
    arrays = {name: opened.read(dataset, name) for name in names}
    return {"dataset": dataset, "attributes": opened.attrs(dataset), "arrays": arrays}


def _dataset_text(opened: _Store, value: dict[str, Any], most: int) -> str:
    dataset, attributes = value["dataset"], plain(value["attributes"])
    rows = [(printable(k), "attribute", "", printable(repr(v))) for k, v in attributes.items()]
    for name, array in value["arrays"].items():
        schema = opened.schema(name, dataset)
        shown = printable(first_of(array, most))
        rows.append((printable(name), schema.dtype, str(schema.shape), shown))
    title = f"dataset {printable(dataset)}"
    return f"{title}\n{table(rows, '  ')}" if rows else title


_Array = tuple[str, tuple[int, ...]]  # dtype and shape
_MOST_ARRAYS = 100  # listed


def open_dataset(path: Any, options: Mapping[str, Any]) -> AtlasDataset:
    """Opens a store; ``arrays`` is among the options."""
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
    from atompack_torch.formats.atlas_store.dataset import AtlasDataset

    if isinstance(path, BUFFERS):
        raise UnsupportedFormatError(
            f"{MEMORY}.af: expected a store, got an array file: ArrayFile opens it"
        )
    if "arrays" not in options:
        store = AtlasStore(path, storage_options=options.get("storage_options"))
        names = ", ".join(map(repr, store.arrays))
        raise TypeError(f"arrays: expected names of arrays of the store ({names}), got none")
    rest = {name: value for name, value in options.items() if name != "arrays"}
    return AtlasDataset(path, options["arrays"], **rest)


def describe(places: Sequence[Place], full: bool, progress: bool | OnProgress) -> Description:
    """Describes stores and array files from their metadata."""
    documents = [_document(place) for place in places]
    return Description(documents, "\n".join(map(_text, documents)))


def _text(store: dict[str, Any]) -> str:
    path = printable(store["path"])
    rows = [("array", "datasets", "dtype", "shape")]
    for array in store["arrays"][:_MOST_ARRAYS]:
        shape = str(array["shape"]) if array["shape"] is not None else "differs"
        dtype = array["dtype"] or "differs"
        rows.append((printable(array["name"]), f"{array['n_datasets']:,}", dtype, shape))
    first = f"{path}: {store['n_datasets']:,} datasets, {bytes_text(store['file_bytes'])}"
    more = len(store["arrays"]) - _MOST_ARRAYS
    rest = f"\n  ... and {more:,} more" if more > 0 else ""
    return f"{first}\n{table(rows, '  ')}{rest}"


def verify(places: Sequence[Place], max_faults: int, progress: bool | OnProgress) -> Verification:
    """Reads every array of every dataset."""
    checks = [
        _checks_of_store(place) if _is_store(place) else _checks_of_file(place) for place in places
    ]
    n_datasets = sum(n for n, _ in checks)
    files = [place.shown for place in places]
    found = Verification(files, Counter(datasets=n_datasets, arrays=0))
    with reporting(progress, n_datasets, "verifying", "datasets") as report:
        for file, (_, datasets) in zip(files, checks, strict=True):
            for arrays in datasets:
                for check in arrays:
                    found.counts["arrays"] += 1
                    check_part(found, file, check, max_faults)
                report(1)
    return found


# For each dataset, one function per array that reads it.
_Checks = Iterator[Sequence[Callable[[], None]]]


def _checks_of_store(place: Place) -> tuple[int, _Checks]:
    reader = _open_store(place)
    check = AtlasVerification(reader).check
    checks = (
        [partial(check, array, dataset) for array in reader.variables_of(dataset)]
        for dataset in range(len(reader))
    )
    return len(reader), checks


def _checks_of_file(place: Place) -> tuple[int, _Checks]:
    """Checks of an array file, each array a dataset; unmapped, so truncation is an error."""
    file = ArrayFileVerification(place.location, MAX_METADATA_BYTES)
    names = file.names()
    return len(names), ([partial(file.check, name)] for name in names)


def statistics(
    places: Sequence[Place], options: Mapping[str, Any], progress: bool | OnProgress
) -> Summary:
    """Sums up the stored statistics; no data is read."""
    if options:
        raise TypeError(f"options: expected none for stores, got {', '.join(options)}")
    values = []
    rows = [["array", "datasets", "values", "missing", "min", "max"]]
    for place in places:
        opened = _open(place)
        for array in opened.arrays:
            found = opened.stats(array)
            total = _total(array, list(found.values()))
            values.append({"path": place.shown, **total})
            counts = [f"{total[key]:,}" for key in ("datasets", "values", "missing")]
            extremes = [printable(str(plain(total[key]))) for key in ("min", "max")]
            rows.append([printable(array), *counts, *extremes])
    return Summary(values, [plain(value) for value in values], table(rows))


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


def compact(places: Sequence[Place], target: Place, options: CompactOptions) -> Compaction:
    """Compacts one store or array file in place.

    Args:
        places: the store or array file.
        target: the same path.
        options: only ``progress`` may be given, and has no effect.

    Returns:
        Counts and sizes.

    Raises:
        ValueError: the target is another path, or an option is given.
    """
    from atompack_torch.formats.atlas_store.array_file import ArrayFile
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore

    if list(map(_identity, places)) != [_identity(target)]:
        raise ValueError(
            f"{target.shown}: expected {places[0].shown} itself: stores and array files are "
            "compacted in place"
        )
    for name, value in zip(options._fields, options, strict=True):
        if name != "progress" and value is not None:
            raise ValueError(f"{name}: expected none for stores and array files")
    before = target.stored_bytes()
    is_file = not _is_store(target)
    made = (ArrayFile if is_file else AtlasStore)(target.path, "a", **target.options)
    with made as opened:
        opened.compact()
        n = len(opened.names if isinstance(opened, ArrayFile) else opened)
    return Compaction(n, "datasets", before, target.stored_bytes())


def _identity(place: Place) -> str:
    return place.path if is_url(place.path) else os.path.realpath(place.path)


def _document(place: Place) -> dict[str, Any]:
    n_bytes: int | None
    if _is_store(place):
        n_datasets, arrays = _of_store(_open_store(place))
        n_bytes = place.bytes()
    else:
        n_datasets, arrays, n_bytes = _of_file(place)
    found: dict[str, list[_Array]] = {}
    for name, array in arrays:
        found.setdefault(name, []).append(array)
    return {
        "path": place.shown,
        "n_datasets": n_datasets,
        "file_bytes": n_bytes,
        "arrays": [
            {
                "name": name,
                "n_datasets": len(all_of_it),
                "dtype": _common(dtype for dtype, _ in all_of_it),
                "shape": _common(shape for _, shape in all_of_it),
                "values": sum(math.prod(shape) for _, shape in all_of_it),
            }
            for name, all_of_it in sorted(found.items())
        ],
    }


def _of_store(store: AtlasReader) -> tuple[int, Iterator[tuple[str, _Array]]]:
    names = store.variable_names()
    arrays = (
        (str(names[variable]), _array(store.array(variable, dataset)))
        for dataset in range(len(store))
        for variable in store.variables_of(dataset)
    )
    return len(store), arrays


_LIMITS = MemoryLimits(MAX_METADATA_BYTES, None)


def _open_store(place: Place) -> AtlasReader:
    return StoreHandle(place.remote.absolute(place.path), "r", _LIMITS, place.remote).reader()


def _of_file(place: Place) -> tuple[int, Iterator[tuple[str, _Array]], int]:
    path = place.remote.absolute(place.path)
    file = ArrayFileHandle(path, "r", _LIMITS, place.remote)._open_reader(None)
    names = file.names()
    arrays = ((name, _array(file.definition(name))) for name in names)
    if place.remote.holds(place.path):
        return len(names), arrays, sum(version[2] for version in file.versions)
    return len(names), arrays, place.stored_bytes()


def _array(schema: tuple[Any, ...]) -> _Array:
    return schema[1], tuple(schema[2])


def _common(values: Iterable[Any]) -> Any:
    found = set(values)
    return found.pop() if len(found) == 1 else None
