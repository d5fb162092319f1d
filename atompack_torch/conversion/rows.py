"""Sequential reading of arrays in files by rows, so that no array is held in memory whole."""

from __future__ import annotations

import itertools
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.conversions import native
from atompack_torch.conversion.report import described
from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch.writers.columns import Array

# A row this large must be backed by stored bytes, up to the maximum compression of deflate.
_LARGE_ROW_BYTES = 1 << 26
_MAX_RATIO = 1100


class Rows(Protocol):
    """Interface of an array in a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, first: int, last: int) -> Array:
        """Reads rows ``first`` to ``last``, or the one value of an array without dimensions.

        Successive calls must move forward through the array.
        """


class NpyRows:
    """An ``.npy`` file, read as a stream: only the requested rows are held in memory.

    An array in Fortran order, whose rows lie apart, is held whole.

    Args:
        path: path of the file.

    Raises:
        UnsupportedFormatError: the array holds pickled objects.
        CorruptFileError: its header is damaged.
    """

    def __init__(self, path: str) -> None:
        self._where = path
        with self._opened() as stream:
            self.shape, self.dtype, self._is_fortran = self._header(stream)
        self._stream: IO[bytes] | None = None
        self._whole: Array | None = None
        self._next = 0

    def _opened(self) -> IO[bytes]:
        check_regular_file(self._where)
        return Path(self._where).open("rb")

    def _header(self, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
        try:
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(stream)
        except Exception as error:  # from the decompressor or the parser
            raise CorruptFileError(f"{self._where}: no array: {described(error)}") from error
        if dtype.hasobject:
            raise UnsupportedFormatError(f"{self._where}: pickled objects are not read")
        if min(shape, default=0) < 0:
            raise CorruptFileError(f"{self._where}: expected sizes from 0 up, got {shape}")
        return shape, dtype, fortran and len(shape) > 1

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        if self._is_fortran:
            return native(self._held()[first:last])
        if self._stream is None or first < self._next:
            self.close()
            self._stream, self._next = self._opened(), 0
            self._header(self._stream)
        row = self.shape[1:]
        row_bytes = self.dtype.itemsize * math.prod(row)
        self._skip((first - self._next) * row_bytes)
        data = self._take((last - first) * row_bytes)
        self._next = last
        shape = (last - first, *row) if self.shape else ()
        return native(np.frombuffer(data, self.dtype).reshape(shape))

    def _held(self) -> Array:
        if self._whole is None:
            with self._opened() as self._stream:
                self._header(self._stream)
                data = self._take(self.dtype.itemsize * math.prod(self.shape))
            self._stream = None
            self._whole = np.frombuffer(data, self.dtype).reshape(self.shape, order="F")
        return self._whole

    def close(self) -> None:
        """Closes the file; the next read opens it again."""
        stream, self._stream, self._whole = self._stream, None, None
        if stream is not None:
            stream.close()

    def _skip(self, n_bytes: int) -> None:
        while n_bytes > 0:
            n_bytes -= len(self._take(min(n_bytes, 1 << 20)))

    def _take(self, n_bytes: int) -> bytes:
        """Reads bytes in pieces, so that memory grows with actual, not declared, data."""
        assert self._stream is not None
        pieces, missing = [], n_bytes
        try:
            while missing and (piece := self._stream.read(min(missing, 1 << 24))):
                pieces.append(piece)
                missing -= len(piece)
        except Exception as error:  # each compression has its own errors
            raise CorruptFileError(f"{self._where}: {described(error)}") from error
        if missing:
            got = n_bytes - missing
            raise CorruptFileError(f"{self._where}: expected {n_bytes} bytes, got {got}")
        return b"".join(pieces)


class NpzRows(NpyRows):
    """Member of an ``.npz`` file, read as ``NpyRows``, compressed or not.

    Args:
        path: path of the file, for messages.
        archive: the open file.
        member: name of the member, with its suffix.

    Raises:
        UnsupportedFormatError, CorruptFileError: as for ``NpyRows``.
    """

    def __init__(self, path: str, archive: zipfile.ZipFile, member: str) -> None:
        self._archive, self._member = archive, member
        super().__init__(f"{path}: {member}")

    def _opened(self) -> IO[bytes]:
        try:
            return self._archive.open(self._member)
        except Exception as error:  # damaged, encrypted, or an unknown compression
            raise CorruptFileError(f"{self._where}: {described(error)}") from error


class TextRows:
    """Numbers in a text file, a row in each line; only the requested rows are held in memory.

    Args:
        path: path of the file.

    Raises:
        CorruptFileError: a line has other words, or another number of them than the first.
    """

    def __init__(self, path: str) -> None:
        self._where = path
        self.dtype: np.dtype[Any] = np.dtype(np.float64)
        self._left, self._next = self._lines(), 0
        width = self._parsed([*itertools.islice(self._lines(), 1)], 0).size
        self.shape: tuple[int, ...] = (sum(1 for _ in self._lines()), width)

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        if first < self._next:
            self.close()
        lines = [*itertools.islice(self._left, first - self._next, last - self._next)]
        self._next = last
        values = self._parsed(lines, first)
        if values.shape != (last - first, self.shape[1]):
            expected = f"{last - first} rows of {self.shape[1]} numbers"
            raise CorruptFileError(f"{self._where}: expected {expected}, got {values.shape}")
        return values

    def _parsed(self, lines: list[str], first: int) -> Array:
        if not lines:
            return np.zeros((0, 0))
        try:
            return np.loadtxt(lines, ndmin=2)
        except ValueError as error:
            raise CorruptFileError(f"{self._where}: from row {first} on: {error}") from None

    def close(self) -> None:
        """Closes the file; the next read opens it again."""
        self._left, self._next = self._lines(), 0

    def _lines(self) -> Iterator[str]:
        """Yields the lines that have words before a comment."""
        check_regular_file(self._where)
        with Path(self._where).open(encoding="ascii", errors="replace") as file:
            yield from (line for line in file if line.partition("#")[0].strip())


class HdfRows:
    """An HDF5 dataset.

    Args:
        path: path of the file, for messages.
        dataset: the dataset, of h5py.

    Raises:
        FieldError: parts of it were declared but never written; their values would be invented.
        CorruptFileError: a row is larger than the stored bytes allow.
        UnsupportedFormatError: its values are stored in other files.
    """

    def __init__(self, path: str, dataset: Any) -> None:
        self._where = f"{path}: {dataset.name}"
        self._dataset = dataset
        self.shape, self.dtype = tuple(dataset.shape), dataset.dtype
        if dataset.external or dataset.is_virtual:
            raise UnsupportedFormatError(f"{self._where}: values in other files are not read")
        stored = dataset.id.get_storage_size()
        if dataset.size and (not stored or _n_missing_chunks(dataset)):
            raise FieldError(f"{self._where}: expected values, got parts that were never written")
        row_bytes = dataset.nbytes // max(self.shape[0], 1) if self.shape else 0
        if row_bytes > _LARGE_ROW_BYTES and dataset.nbytes > _MAX_RATIO * stored:
            raise CorruptFileError(
                f"{self._where}: expected stored bytes for rows of {row_bytes} bytes, got {stored}"
            )

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        try:
            values = self._dataset[first:last] if self.shape else self._dataset[()]
        except OSError as error:
            raise CorruptFileError(f"{self._where}: {described(error)}") from error
        return native(np.asarray(values))

    def unit(self) -> str:
        """Returns the unit that an attribute states; empty if none does."""
        attributes = self._dataset.attrs
        for name in ("units", "unit"):
            if name in attributes:
                value = attributes[name]
                text = value.decode(errors="replace") if isinstance(value, bytes) else value
                return text if isinstance(text, str) else ""
        return ""


def _n_missing_chunks(dataset: Any) -> int:
    if dataset.chunks is None:
        return 0
    sizes = zip(dataset.shape, dataset.chunks, strict=True)
    expected = math.prod(-(-size // chunk) for size, chunk in sizes)
    return int(expected - dataset.id.get_num_chunks())


class HeldRows:
    """Array in memory with the interface of ``Rows``."""

    def __init__(self, values: Array) -> None:
        self.shape, self.dtype, self._values = values.shape, values.dtype, values

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        return self._values[first:last]
