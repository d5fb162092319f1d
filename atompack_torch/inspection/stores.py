"""Description of ATLAS stores and array files: arrays with dtypes and shapes, use of space."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from atompack_torch._native import ArrayFileReader, AtlasReader
from atompack_torch.formats import bytes_at, check_store, opening
from atompack_torch.options import MAX_METADATA_BYTES

_Array = tuple[str, tuple[int, ...]]  # dtype and shape


def describe(path: str) -> dict[str, Any]:
    """Describes a store, or an array file as a store whose datasets have one array each."""
    is_store = Path(path).is_dir()
    n_datasets, arrays = _of_store(path) if is_store else _of_file(path)
    found: dict[str, list[_Array]] = {}
    for name, array in arrays:
        found.setdefault(name, []).append(array)
    return {
        "path": path,
        "n_datasets": n_datasets,
        "file_bytes": bytes_at(Path(path)) if is_store else _bytes_of_layers(Path(path)),
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


def _of_store(path: str) -> tuple[int, Iterator[tuple[str, _Array]]]:
    with opening(path, "an ATLAS store", "atlas-store"):
        check_store(path)
        store = AtlasReader(path, None, MAX_METADATA_BYTES)
    names = store.variable_names()
    arrays = (
        (str(names[variable]), _array(store.array(variable, dataset)))
        for dataset in range(len(store))
        for variable in store.variables_of(dataset)
    )
    return len(store), arrays


def _of_file(path: str) -> tuple[int, Iterator[tuple[str, _Array]]]:
    with opening(path, "an array file", "array-file"):
        file = ArrayFileReader(path, MAX_METADATA_BYTES)
    names = file.names()
    return len(names), (("", _array(file.definition(name))) for name in names)


def _array(schema: tuple[Any, ...]) -> _Array:
    return schema[0], tuple(schema[1])


def _bytes_of_layers(path: Path) -> int:
    return sum(map(bytes_at, [path, *path.parent.glob(f"{path.stem}.*.af")]))


def _common(values: Iterable[Any]) -> Any:
    found = set(values)
    return found.pop() if len(found) == 1 else None
