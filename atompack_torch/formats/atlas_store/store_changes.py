"""Modification of ATLAS stores."""

from __future__ import annotations

from collections.abc import Sequence

from atompack_torch.formats.atlas_store.array_schema import put
from atompack_torch.formats.atlas_store.store_handle import StoreHandle
from atompack_torch.formats.atlas_store.stored_values import attribute, definition
from atompack_torch.options import utf8


class StoreChanges:
    """Changes to a store, pending until a flush; methods are those of ``AtlasStore``.

    Args:
        handle: handle of the store.
    """

    def __init__(self, handle: StoreHandle) -> None:
        self._handle = handle

    def create_dataset(self, name: str) -> None:
        """Adds a dataset without arrays."""
        self._handle.changing().create_dataset(utf8("dataset", name))

    def define_array(
        self,
        dataset: str,
        array: str,
        dtype: object,
        shape: Sequence[int],
        dimension_names: Sequence[str] | None,
        chunk_shape: Sequence[int] | None,
        fill_value: object,
    ) -> None:
        """Adds an array to a dataset."""
        stored = definition(dtype, shape, dimension_names, chunk_shape, fill_value)
        self._handle.changing().define(utf8("dataset", dataset), utf8("array", array), *stored)

    def write(self, dataset: str, array: str, values: object, start: Sequence[int] | None) -> None:
        """Writes a box of elements."""
        put(self._handle.changing(), (dataset, array), values, start)

    def set_attr(self, dataset: str, key: str, value: object) -> None:
        """Sets an attribute of a dataset."""
        place = utf8("dataset", dataset), utf8("attribute", key)
        self._handle.changing().set_attribute(*place, attribute(value))

    def delete_array(self, dataset: str, array: str) -> None:
        """Removes an array from a dataset."""
        self._handle.changing().delete_array(utf8("dataset", dataset), utf8("array", array))

    def delete_dataset(self, name: str) -> None:
        """Removes a dataset and its arrays."""
        self._handle.changing().delete_dataset(utf8("dataset", name))
