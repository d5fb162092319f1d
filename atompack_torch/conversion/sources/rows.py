"""Sequential reading of arrays in files by rows, so that no array is held in memory whole."""

from __future__ import annotations

import itertools
import math
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array
from atompack_torch.batch.exact_values import native
from atompack_torch.errors import CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.conversion_report import described, naming_damage

_MAX_BYTES = (1 << 63) - 1  # of an array in NumPy
_SURROGATES = 0xD800 >> 11


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
        with naming_damage(f"{self._where}: no array"):
            version = np.lib.format.read_magic(stream)
            read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(stream)
        if dtype.hasobject:
            raise UnsupportedFormatError(f"{self._where}: pickled objects are not read")
        if min(shape, default=0) < 0 or math.prod((*shape, dtype.itemsize)) > _MAX_BYTES:
            raise CorruptFileError(f"{self._where}: expected sizes of arrays, got {shape}")
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
        return native(self._values(data).reshape(shape))

    def _values(self, data: bytes) -> Array:
        """Returns the values of these bytes, flat; text must be Unicode."""
        if self.dtype.kind == "U" and self.dtype.itemsize:
            codes = np.frombuffer(data, f"{self.dtype.byteorder}u4")
            bad = codes[(codes > sys.maxunicode) | ((codes >> 11) == _SURROGATES)]
            if bad.size:
                raise CorruptFileError(f"{self._where}: expected Unicode, got U+{bad[0]:X}")
        return np.frombuffer(data, self.dtype)

    def _held(self) -> Array:
        if self._whole is None:
            with self._opened() as self._stream:
                self._header(self._stream)
                data = self._take(self.dtype.itemsize * math.prod(self.shape))
            self._stream = None
            self._whole = self._values(data).reshape(self.shape, order="F")
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
        with naming_damage(self._where):
            while missing and (piece := self._stream.read(min(missing, 1 << 24))):
                pieces.append(piece)
                missing -= len(piece)
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
        with naming_damage(self._where):
            return self._archive.open(self._member)


def opened_npz(path: str) -> zipfile.ZipFile:
    """Opens an ``.npz`` file.

    Args:
        path: the file.

    Returns:
        The open file.

    Raises:
        CorruptFileError: it is no such file, or has an array twice.
        OSError: it cannot be opened.
    """
    check_regular_file(path)
    try:
        archive = zipfile.ZipFile(path)
    except OSError:
        raise
    except Exception as error:  # damaged tables can fail in many ways
        raise CorruptFileError(f"{path}: expected an .npz file: {described(error)}") from error
    if len({*archive.namelist()}) < len(archive.namelist()):
        archive.close()
        raise CorruptFileError(f"{path}: expected each array once, got one twice")
    return archive


def npz_rows(path: str, archive: zipfile.ZipFile) -> dict[str, Rows]:
    """Returns the arrays of an ``.npz`` file by their names.

    Args:
        path: path of the file, for messages.
        archive: the open file.

    Returns:
        Name → array.

    Raises:
        UnsupportedFormatError, CorruptFileError: as for ``NpyRows``.
    """
    names = [name for name in archive.namelist() if name.endswith(".npy")]
    return {name.removesuffix(".npy"): NpzRows(path, archive, name) for name in names}


class TextRows:
    """Numbers in a text file, a row in each line; only the requested rows are held in memory.

    Args:
        path: path of the file.

    Raises:
        CorruptFileError: a line has other words, or a different number of them than the first.
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


class HeldRows:
    """Array in memory with the interface of ``Rows``."""

    def __init__(self, values: Array) -> None:
        self.shape, self.dtype, self._values = values.shape, values.dtype, values

    def read(self, first: int, last: int) -> Array:
        """See ``Rows``."""
        return self._values[first:last] if self.shape else self._values
