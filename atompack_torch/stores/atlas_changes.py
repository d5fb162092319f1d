"""Modification of ATLAS stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from atompack_torch._native import AtlasReader, AtlasWriter
from atompack_torch.errors import FieldError
from atompack_torch.options import utf8
from atompack_torch.stores.array_schema import put
from atompack_torch.stores.stored_values import attribute, definition
from atompack_torch.writers.base import FlushingWriter


class StoreChanges(FlushingWriter):
    """Mixin with the methods of a store handle that modify the store."""

    _path: str
    _mode: Literal["r", "a", "x"]
    _native: AtlasReader | None
    _version: Any
    _variables: dict[str, int] | None
    _names: list[str] | None
    _writer: AtlasWriter | None

    def _changing(self) -> AtlasWriter:
        if self._writer is None:
            raise ValueError(
                f'{self._path}: expected a store opened with mode "a" or "x", got "r"'
                if self._mode == "r"
                else f"{self._path}: the writer is closed"
            )
        self._names = self._variables = None
        return self._writer

    def _definition(self, dataset: str, array: str) -> Any:
        """Returns the schema of an array, pending changes included."""
        assert self._writer is not None
        return self._writer.definition(utf8("dataset", dataset), utf8("array", array))

    def _numbers(self, handle: AtlasReader | AtlasWriter, datasets: list[str]) -> list[int]:
        try:
            return handle.find_datasets(datasets)
        except FieldError as error:
            raise FieldError(f"{self._path}: {error}") from None
        except TypeError:  # not strings, or not representable in UTF-8
            for name in datasets:
                utf8(f"{self._path}: dataset", name)
            raise

    def create_dataset(self, name: str) -> None:
        """Adds a dataset without arrays.

        Raises:
            FieldError: the dataset exists already, or the name is not valid for a dataset.
        """
        self._changing().create_dataset(utf8("dataset", name))

    def define_array(
        self,
        dataset: str,
        array: str,
        dtype: Any,
        shape: Sequence[int],
        dimension_names: Sequence[str] | None = None,
        chunk_shape: Sequence[int] | None = None,
        fill_value: Any = None,
    ) -> None:
        """Adds an array to a dataset; its elements are the fill value until they are written.

        Args:
            dataset: name of the dataset.
            array: name of the array; names that the original library would lose are refused.
            dtype: a dtype or NumPy's name of one, ``"timestamp_ns"``, ``"string"`` or
                ``"binary"``.
            shape: extents, () for a scalar.
            dimension_names: one per axis; None: ``dim0``, ``dim1`` and so on.
            chunk_shape: extents of the chunks the array is stored in; None: the whole array.
            fill_value: value of missing elements; None: 0. It is never used for strings.

        Raises:
            FieldError: the dataset has the array already, or the name, shape or fill value cannot
                be stored.
            ValueError: arrays cannot have this dtype.
        """
        stored = definition(dtype, shape, dimension_names, chunk_shape, fill_value)
        self._changing().define(utf8("dataset", dataset), utf8("array", array), *stored)

    def write(
        self, dataset: str, array: str, values: Any, start: Sequence[int] | None = None
    ) -> None:
        """Writes a box of elements; chunks that it covers only partly are read and merged.

        Args:
            dataset: name of the dataset.
            array: name of the array.
            values: tensor, array or (lists of) numbers, strings or bytes, in the array's rank.
            start: first element of the box along each axis; None: 0.

        Raises:
            FieldError: no such array, the box extends beyond it, or its dtype cannot represent
                the values.
        """
        put(self._changing(), values, start, dataset, array)

    def set_attr(self, dataset: str, key: str, value: Any) -> None:
        """Sets an attribute: bool, int (64 bits), float, str or ``numpy.datetime64``.

        Raises:
            FieldError: the value would not survive a round trip: a non-finite float (in JSON
                metadata), a string that parses as a timestamp, an integer of more than 64 bits.
            TypeError: the value is of another type.
        """
        place = utf8("dataset", dataset), utf8("attribute", key)
        self._changing().set_attribute(*place, attribute(value))

    def delete_array(self, dataset: str, array: str) -> None:
        """Removes an array from a dataset; the next ``compact`` reclaims its space."""
        self._changing().delete_array(utf8("dataset", dataset), utf8("array", array))

    def delete_dataset(self, name: str) -> None:
        """Removes a dataset and its arrays."""
        self._changing().delete_dataset(utf8("dataset", name))

    def flush(self) -> None:
        """Makes all changes visible atomically and durably.

        Raises:
            OSError: a system call failed; the store is unchanged since the last flush, and the
                call can be repeated. ``ESTALE``: a program that takes no lock, such as the
                original library, has written to the store since it was opened; the changes
                pending here cannot be added.
        """
        self._changing().flush()
        self._native = self._version = None

    def compact(self) -> None:
        """Flushes, and rewrites each variable as one file without replaced or deleted data."""
        self._changing().compact()
        self._native = self._version = None

    def discard(self) -> None:
        """Closes the files and drops unflushed changes.

        A store that this handle created and never flushed is removed.
        """
        writer = self._writer
        if writer is not None:
            self._names = self._variables = None  # they included pending changes
        self._native = self._writer = None
        if writer is not None:
            writer.abandon()
