"""Writes and reads ATLAS stores with atlas-python on request.

A process of its own, because atlas-python hangs in forked children once the parent has used it,
and some requests abort it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import atlas
import numpy as np
from pipe import serve

Operation = Sequence[Any]


def create(path: str, options: dict[str, Any]) -> None:
    """An empty store."""
    atlas.Atlas.create(path, **options).flush()


def apply(path: str, operations: Sequence[Operation]) -> None:
    """Operations on an existing store, in order; each is its name and its arguments."""
    store = atlas.Atlas.open(path)
    for name, *arguments in operations:
        if name == "compact":
            store = compacted(store, path)
        else:
            OPERATIONS[name](store, *arguments)
    store.flush()


def compacted(store: Any, path: str) -> Any:
    """A new handle: the old one would continue with what it kept of the old files."""
    store.flush()
    atlas.Atlas.open(path).compact()
    return atlas.Atlas.open(path)


def define_array(
    store: Any,
    dataset: str,
    array: str,
    dtype: str,
    shape: Sequence[int],
    dimension_names: Sequence[str],
    chunk_shape: Sequence[int] | None,
    fill_value: Any,
) -> None:
    """With the arguments in our order."""
    store.open_dataset(dataset).define_array(
        array, dtype, dimension_names, shape, chunk_shape=chunk_shape, fill_value=fill_value
    )


def write(store: Any, dataset: str, array: str, values: Any, start: Sequence[int]) -> None:
    """A slice; values in an array of the stored dtype."""
    contiguous = np.ascontiguousarray(values).reshape(np.shape(values))
    store.open_dataset(dataset).write_array(array, list(start), contiguous)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "create_dataset": lambda store, name: store.create_dataset(name),
    "define_array": define_array,
    "write": write,
    "set_attr": lambda store, dataset, key, value: store.open_dataset(dataset).set_attribute(
        key, value
    ),
    "delete_array": lambda store, dataset, array: store.open_dataset(dataset).delete_array(array),
    "delete_dataset": lambda store, name: store.delete_dataset(name),
    "flush": lambda store: store.flush(),
}


def read(path: str) -> dict[str, Any]:
    """Everything there is, by dataset in stored order."""
    store = atlas.Atlas.open(path)
    return {name: dataset_of(store.open_dataset(name)) for name in store.list_datasets()}


def dataset_of(view: Any) -> dict[str, Any]:
    """Attributes and arrays; numbers as arrays, strings as arrays of str."""
    arrays = {}
    for name in view.list_arrays():
        meta = view.array_meta(name)
        values = view.read_array(name)
        arrays[name] = {
            "dtype": meta["dtype"],
            "shape": tuple(meta["shape"]),
            "chunk_shape": tuple(meta["chunk_shape"]),
            "dimension_names": tuple(meta["dimension_names"]),
            "fill_value": view.array_fill_value(name),
            "stats": view.array_stats(name),
            "values": values.view("i8") if values.dtype.kind == "M" else values,
        }
    return {"attributes": dict(view.attributes()), "arrays": arrays}


def add_xarray(path: str, datasets: dict[str, Any], chunks: Any, fill_value: Any) -> None:
    """Datasets of xarray, in one flush."""
    with atlas.Atlas.open(path) as store:
        for name, dataset in datasets.items():
            store.add_xarray_dataset(dataset, name, chunks=chunks, fill_value=fill_value)


def open_xarray(path: str, name: str) -> Any:
    """A dataset of xarray, loaded."""
    return atlas.Atlas.open(path).open_as_xarray_dataset(name).load()


ACTIONS: dict[str, Callable[..., Any]] = {
    "create": create,
    "apply": apply,
    "read": read,
    "add_xarray": add_xarray,
    "open_xarray": open_xarray,
}

if __name__ == "__main__":
    serve(ACTIONS)
