"""Changes of an ATLAS store."""

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
    """The part of a store's handle that changes it."""

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
        except TypeError:  # no strings, or such as UTF-8 cannot hold
            for name in datasets:
                utf8(f"{self._path}: dataset", name)
            raise

    def create_dataset(self, name: str) -> None:
        """Adds a dataset without arrays.

        Raises:
            FieldError: there is one of this name, or the name is none that a dataset may have.
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
            dataset: its name.
            array: its name; names that the original library would lose are refused.
            dtype: NumPy's name, ``"timestamp_ns"``, ``"string"`` or ``"binary"``; or such a dtype.
            shape: extents, () for a scalar.
            dimension_names: one an axis; None: ``dim0``, ``dim1`` and so on.
            chunk_shape: elements that are stored as one piece; None: the whole array.
            fill_value: what is missing; None: 0. It is never used for strings.

        Raises:
            FieldError: the dataset has the array already; a name, shape or fill value that cannot
                be stored.
            ValueError: no array can have this dtype.
        """
        stored = definition(dtype, shape, dimension_names, chunk_shape, fill_value)
        self._changing().define(utf8("dataset", dataset), utf8("array", array), *stored)

    def write(
        self, dataset: str, array: str, values: Any, start: Sequence[int] | None = None
    ) -> None:
        """Writes a box of elements; chunks that it covers in part are read and completed.

        Args:
            dataset: its name.
            array: its name.
            values: tensor, array or (lists of) numbers, strings or bytes, in the array's rank.
            start: where the box begins; None: at the first element.

        Raises:
            FieldError: no such array; a box that does not lie in it; values that its dtype does
                not hold.
        """
        put(self._changing(), values, start, dataset, array)

    def set_attr(self, dataset: str, key: str, value: Any) -> None:
        """Sets an attribute: bool, int (64 bits), float, str or ``numpy.datetime64``.

        Raises:
            FieldError: a value that would not come back as it is: a float that is not finite (in
                JSON metadata), a string that reads as a moment, an integer of more than 64 bits.
            TypeError: a value of another kind.
        """
        place = utf8("dataset", dataset), utf8("attribute", key)
        self._changing().set_attribute(*place, attribute(value))

    def delete_array(self, dataset: str, array: str) -> None:
        """Removes an array from a dataset; its bytes go with the next ``compact``."""
        self._changing().delete_array(utf8("dataset", dataset), utf8("array", array))

    def delete_dataset(self, name: str) -> None:
        """Removes a dataset with its arrays."""
        self._changing().delete_dataset(utf8("dataset", name))

    def flush(self) -> None:
        """Makes all changes visible, together and durably.

        Raises:
            OSError: the system refused; the store is as the last flush left it, and the call can
                be made again. ``ESTALE``: a program that takes no lock, the original say, has
                written to the store since it was opened; what is pending here cannot be added.
        """
        self._changing().flush()
        self._native = self._version = None

    def compact(self) -> None:
        """Flushes, and rewrites each variable as one file without what was replaced or deleted."""
        self._changing().compact()
        self._native = self._version = None

    def discard(self) -> None:
        """Lets go of the files; what was not flushed is dropped.

        A store that this handle made and never flushed is removed.
        """
        writer = self._writer
        if writer is not None:
            self._names = self._variables = None  # with what was pending
        self._native = self._writer = None
        if writer is not None:
            writer.abandon()
