"""Arrays of stores as xarray's lazy arrays: values are read when they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from xarray.backends import BackendArray
from xarray.core import indexing

from atompack_torch.errors import FieldError
from atompack_torch.options import redact_path

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_store.array_schema import ArraySchema, Values
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore


def host_dtype(dtype: str) -> np.dtype[Any]:
    """Returns NumPy's dtype for the name of a stored one; strings and bytes are objects."""
    if dtype in ("timestamp_ns", "duration_ns"):
        return np.dtype("M8[ns]" if dtype == "timestamp_ns" else "m8[ns]")
    return np.dtype(object if dtype in ("string", "binary") else dtype)


def host_values(values: Values, dtype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    """Converts what a store has read to an array of ``host_dtype``."""
    if isinstance(values, torch.Tensor):
        return values.numpy().view(host_dtype(dtype))
    found = np.empty(tuple(shape), object)
    found[...] = np.array(values, object).reshape(tuple(shape))
    return found


def _box(key: Any, extent: int) -> tuple[int, int, Any]:
    """Start and length of what a key selects along an axis, and the key inside of that."""
    if not isinstance(key, slice):
        return range(extent)[key], 1, 0
    chosen = range(extent)[key]
    if len(chosen) == 0:
        return 0, 0, slice(None)
    first, last = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
    return first, last - first + 1, slice(None, None, chosen.step)


class StoredArray(BackendArray):
    """One array of one dataset, or of several, which are then its first axis.

    Args:
        store: the store.
        datasets: name of the dataset, or names.
        array: name of the array, which has the same layout in all of them.
        schema: that layout.
    """

    def __init__(
        self, store: AtlasStore, datasets: str | Sequence[str], array: str, schema: ArraySchema
    ) -> None:
        self._store, self._datasets, self._array = store, datasets, array
        self._dtype = schema.dtype
        rows = () if isinstance(datasets, str) else (len(datasets),)
        self.shape, self.dtype = (*rows, *schema.shape), host_dtype(schema.dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read_basic)

    def _read_basic(self, key: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        boxes = [_box(along, n) for along, n in zip(key, self.shape, strict=True)]
        values = self._read([start for start, _, _ in boxes], [n for _, n, _ in boxes])
        return np.asarray(values[tuple(rest for _, _, rest in boxes)])

    def _read(self, start: list[int], counts: list[int]) -> np.ndarray[Any, Any]:
        store, array, dtype = self._store, self._array, self._dtype
        if isinstance(self._datasets, str):
            return host_values(store.read(self._datasets, array, start, counts), dtype, counts)
        chosen = self._datasets[start[0] : start[0] + counts[0]]
        if not chosen:
            return np.empty(counts, self.dtype)
        if store._handle.writer is not None:  # a scan would show the last flush
            read = [store.read(name, array, start[1:], counts[1:]) for name in chosen]
            return np.stack([host_values(each, dtype, counts[1:]) for each in read])
        scan = store.scan(array, chosen, start[1:], counts[1:])
        if not bool(scan.mask.all()):
            raise FieldError(
                f"{redact_path(store.path)}: array {array!r} was removed from datasets"
            )
        return host_values(scan.values, dtype, counts)  # type: ignore[arg-type]
