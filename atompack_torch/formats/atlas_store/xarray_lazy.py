"""Arrays of stores as xarray's lazy arrays: values are read when they are used."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from xarray.backends import BackendArray
from xarray.core import indexing

from atompack_torch.errors import FieldError

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_store.array_schema import ArraySchema
    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
    from atompack_torch.formats.atlas_store.stored_values import Values


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


class _LazyArray(BackendArray):
    """Base of arrays that are read in boxes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def read(self, start: list[int], counts: list[int]) -> np.ndarray[Any, Any]:
        """Reads a box."""

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        support = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read_basic)

    def _read_basic(self, key: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        boxes = [_box(along, n) for along, n in zip(key, self.shape, strict=True)]
        values = self.read([start for start, _, _ in boxes], [n for _, n, _ in boxes])
        return np.asarray(values[tuple(rest for _, _, rest in boxes)])


def _box(key: Any, extent: int) -> tuple[int, int, Any]:
    """Start and length of what a key selects along an axis, and the key inside of that."""
    if not isinstance(key, slice):
        return range(extent)[key], 1, 0
    chosen = range(extent)[key]
    if len(chosen) == 0:
        return 0, 0, slice(None)
    first, last = min(chosen[0], chosen[-1]), max(chosen[0], chosen[-1])
    return first, last - first + 1, slice(None, None, chosen.step)


class StoredArray(_LazyArray):
    """One array of one dataset.

    Args:
        store: the store.
        dataset: name of the dataset.
        array: name of the array.
        schema: its layout.
    """

    def __init__(self, store: AtlasStore, dataset: str, array: str, schema: ArraySchema) -> None:
        self._store, self._place, self._dtype = store, (dataset, array), schema.dtype
        self.shape, self.dtype = schema.shape, host_dtype(schema.dtype)

    def read(self, start: list[int], counts: list[int]) -> np.ndarray[Any, Any]:
        """Reads a box."""
        return host_values(self._store.read(*self._place, start, counts), self._dtype, counts)


class StackedArray(_LazyArray):
    """One array of several datasets, which are its first axis.

    Args:
        store: the store.
        datasets: names of the datasets.
        array: name of the array, which has the same layout in all of them.
        schema: that layout.
    """

    def __init__(
        self, store: AtlasStore, datasets: Sequence[str], array: str, schema: ArraySchema
    ) -> None:
        self._store, self._datasets, self._array = store, list(datasets), array
        self._dtype = schema.dtype
        self.shape, self.dtype = (len(datasets), *schema.shape), host_dtype(schema.dtype)

    def read(self, start: list[int], counts: list[int]) -> np.ndarray[Any, Any]:
        """Reads a box."""
        chosen = self._datasets[start[0] : start[0] + counts[0]]
        if not chosen:
            return np.empty(counts, self.dtype)
        if self._store._handle.is_writing:  # a scan would show the last flush
            read = [self._store.read(name, self._array, start[1:], counts[1:]) for name in chosen]
            return np.stack([host_values(each, self._dtype, counts[1:]) for each in read])
        scan = self._store.scan(self._array, chosen, start[1:], counts[1:])
        if scan.mask is not None and not bool(scan.mask.all()):
            raise FieldError(f"{self._store.path}: array {self._array!r} was removed from datasets")
        return host_values(scan.values, self._dtype, counts)  # type: ignore[arg-type]
