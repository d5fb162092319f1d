"""Stored statistics of arrays over the datasets of a store."""

from __future__ import annotations

from atompack_torch.formats.atlas_store.array_statistics import (
    ArrayStatistics,
    Bound,
    check_bounds,
    comparable,
    may_match,
)
from atompack_torch.formats.atlas_store.store_handle import StoreHandle
from atompack_torch.formats.atlas_store.store_names import StoreNames


class StoreStatistics:
    """Statistics of the arrays of a store as of its last flush.

    Args:
        handle: handle of the store.
        names: its names.
    """

    def __init__(self, handle: StoreHandle, names: StoreNames) -> None:
        self._handle = handle
        self._names = names

    def of_array(self, array: str) -> dict[str, ArrayStatistics]:
        """Returns the statistics of an array, by dataset; see ``AtlasStore.stats``."""
        number, reader = self._names.flushed_array_number(array), self._handle.reader()
        stored, names = reader.statistics(number), self._names.flushed_datasets()
        present = (names[i] for i in reader.datasets_with(number))
        return {name: ArrayStatistics(*stored[name]) for name in present if name in stored}

    def select(self, array: str, low: Bound | None, high: Bound | None) -> list[str]:
        """Returns datasets that may hold a value between bounds; see ``AtlasStore.select``."""
        number, reader = self._names.flushed_array_number(array), self._handle.reader()
        stored, names = reader.statistics(number), self._names.flushed_datasets()
        least, most = comparable(low), comparable(high)
        where = f"{self._handle.path}: array {array!r}"
        check_bounds(where, stored.values(), (least, most))
        present = (names[i] for i in reader.datasets_with(number))
        return [name for name in present if may_match(stored.get(name), least, most)]
