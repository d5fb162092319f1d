"""One dataset of an ATLAS store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from atompack_torch.formats.atlas_store.array_schema import ArraySchema, ArrayStatistics
from atompack_torch.formats.atlas_store.stored_values import Attribute, Values

if TYPE_CHECKING:
    import xarray

    from atompack_torch.formats.atlas_store.atlas_store import AtlasStore


class StoredDataset:
    """A dataset of a store, as ``store["name"]`` returns it.

        profile = store["cast-1"]
        profile.attrs["ship"], profile.schema("temperature").shape
        values = profile.read("temperature", start=(10,))

    It holds the store and the name, and shows what the store shows: pending changes of a store that
    is open for writing included. A deleted dataset raises a ``FieldError`` at its next use.

    Args:
        store: the store.
        name: name of the dataset, which exists.
    """

    def __init__(self, store: AtlasStore, name: str) -> None:
        self.store = store
        self.name = name

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays, in stored order."""
        return self.store.arrays_of(self.name)

    @property
    def attrs(self) -> dict[str, Attribute]:
        """A copy of the attributes; see ``AtlasStore.attrs``."""
        return self.store.attrs(self.name)

    def array_attrs(self, array: str) -> dict[str, Attribute]:
        """Returns the attributes of an array.

        Args:
            array: its name.

        Returns:
            See ``AtlasStore.array_attrs``.

        Raises:
            FieldError, CorruptFileError: as for ``AtlasStore.array_attrs``.
        """
        return self.store.array_attrs(self.name, array)

    def schema(self, array: str) -> ArraySchema:
        """Returns the storage layout of an array.

        Args:
            array: its name.

        Returns:
            The layout.

        Raises:
            FieldError: there is no such array.
            CorruptFileError: the array's file contradicts itself or the metadata.
        """
        return self.store.schema(array, self.name)

    def stats(self, array: str) -> ArrayStatistics | None:
        """Returns the stored statistics of an array; no data is read.

        Args:
            array: its name.

        Returns:
            The statistics, or None if the array was never written, or if a flush that changed it
            was killed and nobody has opened the store for writing since.

        Raises:
            FieldError: no dataset of the store has such an array.
        """
        return self.store.stats(array).get(self.name)

    def read(
        self,
        array: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Values:
        """Reads an array or a slice of it.

        Args:
            array: its name.
            start: the first element along each axis; None: 0.
            shape: number of elements along each axis, clamped to the array; None: to the end.

        Returns:
            See ``AtlasStore.read``.

        Raises:
            FieldError, CorruptFileError: as for ``AtlasStore.read``.
        """
        return self.store.read(self.name, array, start, shape)

    def to_xarray(
        self, arrays: Sequence[str] | None = None, *, chunks: Any = None
    ) -> xarray.Dataset:
        """Opens the dataset with xarray; needs the extra ``xarray``.

        Args:
            arrays: names of the arrays; None: all.
            chunks: see ``AtlasStore.to_xarray``.

        Returns:
            The dataset, whose values are read when they are used.

        Raises:
            FieldError: no such array, or the dimensions of arrays are inconsistent.
        """
        return self.store.to_xarray(self.name, arrays, chunks=chunks)

    def define_array(
        self,
        array: str,
        dtype: Any,
        shape: Sequence[int],
        dimension_names: Sequence[str] | None = None,
        chunk_shape: Sequence[int] | None = None,
        fill_value: Any = None,
    ) -> None:
        """Adds an array; its elements are the fill value until they are written.

        Args:
            array: its name.
            dtype: see ``AtlasStore.define_array``.
            shape: extents, () for a scalar.
            dimension_names: one per axis; None: ``dim0``, ``dim1`` and so on.
            chunk_shape: extents of the chunks the array is stored in; None: the whole array.
            fill_value: value of missing elements; None: 0.

        Raises:
            FieldError, ValueError: as for ``AtlasStore.define_array``.
        """
        layout = (dtype, shape, dimension_names, chunk_shape, fill_value)
        self.store.define_array(self.name, array, *layout)

    def write(self, array: str, values: Any, start: Sequence[int] | None = None) -> None:
        """Writes a box of elements.

        Args:
            array: name of the array.
            values: tensor, array or (lists of) numbers, strings or bytes, in the array's rank.
            start: first element of the box along each axis; None: 0.

        Raises:
            FieldError: no such array, or the box or the values do not fit.
        """
        self.store.write(self.name, array, values, start)

    def set_attr(self, key: str, value: Any) -> None:
        """Sets an attribute.

        Args:
            key: its name.
            value: bool, int (64 bits), float, str or ``numpy.datetime64``.

        Raises:
            FieldError, TypeError: as for ``AtlasStore.set_attr``.
        """
        self.store.set_attr(self.name, key, value)

    def delete_array(self, array: str) -> None:
        """Removes an array; the next ``compact`` reclaims its space.

        Args:
            array: its name.

        Raises:
            FieldError: there is no such array.
        """
        self.store.delete_array(self.name, array)

    def __getitem__(self, array: str) -> Values:
        return self.read(array)

    def __contains__(self, array: object) -> bool:
        return array in self.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"StoredDataset({self.name!r}, arrays={self.arrays!r})"
