"""Layout and stored statistics of arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.exact_values import check_unmasked, host_array
from atompack_torch.errors import FieldError
from atompack_torch.formats.atlas_store.stored_values import (
    TEXTS,
    Texts,
    Values,
    extents,
    numbers,
    texts,
)
from atompack_torch.options import utf8


class ArraySchema(NamedTuple):
    """Storage layout of an array.

    Attributes:
        dtype: NumPy's name, or ``"timestamp_ns"`` (int64 nanoseconds since 1970, UTC),
            ``"string"``, ``"binary"``.
        shape: extents, () for a scalar.
        chunk_shape: extents of the chunks the array is stored in.
        dimension_names: names given when the array was defined; not always one per axis.
        fill_value: value of elements that were never written; None: 0 (strings: ``""``).
        codecs: names of the codecs of its blocks as of the last flush, ``"none"`` for uncompressed
            ones; several if parts were written with different codecs, none if nothing is stored.
            The format does not record the compression level.
    """

    dtype: str
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    dimension_names: tuple[str, ...]
    fill_value: int | float | str | None
    codecs: tuple[str, ...] = ()

    @classmethod
    def of(cls, stored: tuple[str, Any, Any, Any, Any, Any]) -> ArraySchema:
        """Builds a schema from the native core's tuple.

        Args:
            stored: dtype, shape, chunk shape, dimension names, fill value and codecs.

        Returns:
            The schema.
        """
        dtype, shape, chunk_shape, names, fill, codecs = stored
        return cls(dtype, tuple(shape), tuple(chunk_shape), tuple(names), fill, tuple(codecs))

    def start(self, given: Sequence[int] | None) -> list[int]:
        """Returns the first element of a box.

        Args:
            given: its index along each axis; None: 0.

        Returns:
            One number per axis.

        Raises:
            FieldError: an index is negative.
            TypeError: an index is not an integer.
        """
        return [0] * len(self.shape) if given is None else extents("start", given) or []

    def box(
        self, start: Sequence[int] | None, shape: Sequence[int] | None
    ) -> tuple[list[int], list[int]]:
        """Returns the start and extents of a slice, both clamped to the array.

        Args:
            start: the first element along each axis; None: 0.
            shape: number of elements along each axis; None: to the end.

        Returns:
            Two lists, each with one number per axis.

        Raises:
            FieldError: a different number of axes.
        """
        first, counts = self.start(start), extents("shape", shape)
        for given in (first, counts):
            if given is not None and len(given) != len(self.shape):
                raise FieldError(f"axes of the slice: expected {len(self.shape)}, got {len(given)}")
        first = [min(i, n) for i, n in zip(first, self.shape, strict=True)]
        rest = [n - i for i, n in zip(first, self.shape, strict=True)]
        return first, rest if counts is None else list(map(min, counts, rest))

    def loaded(self, values: Any, shape: Sequence[int]) -> Values:
        """Converts data that the native core has read.

        Args:
            values: bytes of the elements as an array, or strings in nested lists.
            shape: extents of the result.

        Returns:
            A tensor of the stored dtype, int64 for timestamps; strings are returned unchanged.
        """
        if self.dtype in TEXTS:
            strings: Texts = values
            return strings
        name = "int64" if self.dtype == "timestamp_ns" else self.dtype
        dtype = getattr(torch, name)
        if len(values) == 0:  # an empty buffer cannot be viewed with wider items
            return torch.empty(list(shape), dtype=dtype)
        return torch.from_numpy(values).view(dtype).reshape(list(shape))


def put(writer: Any, place: tuple[str, ...], values: Any, start: Sequence[int] | None) -> None:
    """Writes a box of values through a native writer.

    Args:
        writer: an ``AtlasWriter`` or an ``ArrayFileWriter``.
        place: names by which the writer finds the array: (dataset, array), or (array,).
        values: see ``AtlasStore.write``.
        start: first element of the box along each axis; None: 0.

    Raises:
        FieldError: the dtype cannot represent the values, or the box extends beyond the array.
    """
    for name in place:
        utf8("name", name)
    given = host_array("values", values) if isinstance(values, Tensor) else values
    check_unmasked("values", given)
    # Most arrays are written whole and need no conversion.
    as_it_is = start is None and isinstance(given, np.ndarray)
    if as_it_is and writer.write_unconverted(*place, given):
        return
    schema = ArraySchema.of(writer.definition(*place))
    if schema.dtype in TEXTS:
        flat, shape = texts(schema.dtype, given)
        writer.write_strings(*place, schema.start(start), list(shape), flat)
    else:
        stored = numbers(schema.dtype, given)
        writer.write(*place, schema.start(start), list(stored.shape), stored)


_LONGEST_BYTES = 40  # of a string, in repr

Bound = int | float | str | np.datetime64
_MAX_SECONDS = 2**63 // 10**9 - 1  # since 1970; what is nearer fits into nanoseconds of 64 bits


class ArrayStatistics(NamedTuple):
    """Statistics of a stored array, as computed when it was flushed.

    Attributes:
        min: the smallest value that differs from the fill value; strings as ``bytes``; None if
            there is none.
        max: the largest such value.
        null_count: number of elements that equal the fill value or were never written.
        row_count: number of elements.
    """

    min: int | float | bytes | None
    max: int | float | bytes | None
    null_count: int
    row_count: int

    def __repr__(self) -> str:
        low, high = (_short(bound) for bound in (self.min, self.max))
        counts = f"null_count={self.null_count}, row_count={self.row_count}"
        return f"ArrayStatistics(min={low}, max={high}, {counts})"


def _short(bound: int | float | bytes | None) -> str:
    if isinstance(bound, bytes) and len(bound) > _LONGEST_BYTES:
        return f"{bound[:_LONGEST_BYTES]!r}..."
    return repr(bound)


def check_bounds(
    where: str, stored: Iterable[tuple[Any, Any, int, int]], bounds: Sequence[Any]
) -> None:
    """Rejects bounds that cannot be compared with the values of an array.

    Args:
        where: name of the array in error messages.
        stored: (min, max, null_count, row_count) of the array in each dataset.
        bounds: results of ``comparable``.

    Raises:
        FieldError: numeric bounds for an array of strings, or the reverse.
        TypeError: a bound is neither a number nor a string.
    """
    given = [bound for bound in bounds if bound is not None]
    for bound in given:
        if not isinstance(bound, (int, float, bytes, np.integer, np.floating)):
            raise TypeError(f"min, max: expected numbers, str or datetime64, got {bound!r}")
    for low, *_ in stored:
        for bound in given:
            if low is not None and isinstance(low, bytes) != isinstance(bound, bytes):
                expected = "strings" if isinstance(low, bytes) else "numbers"
                got = bound.decode() if isinstance(bound, bytes) else bound
                raise FieldError(f"{where}: min, max: expected {expected}, got {got!r}")


def comparable(bound: Bound | None) -> int | float | bytes | None:
    """Converts a bound to the form of statistics: strings as bytes, timestamps as nanoseconds."""
    if isinstance(bound, str):
        return utf8("min, max", bound).encode()
    if isinstance(bound, np.datetime64):
        if np.isnat(bound):
            return math.nan
        seconds = int(bound.astype("datetime64[s]").astype(np.int64))
        if abs(seconds) > _MAX_SECONDS:
            return seconds * 10**9
        return int(bound.astype("datetime64[ns]").astype(np.int64))
    return bound


def may_match(stored: tuple[Any, Any, int, int] | None, least: Any, most: Any) -> bool:
    """True if an array with these statistics may hold a value from ``least`` to ``most``."""
    if stored is None or (least is None and most is None):
        return True
    low, high, _, _ = stored
    if low is None or high is None:
        return False
    below = least is not None and high < least  # comparisons with NaN are false: it may match
    above = most is not None and low > most
    return not bool(below or above)
