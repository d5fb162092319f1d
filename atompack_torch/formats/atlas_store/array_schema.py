"""Layout and stored statistics of arrays, and lossless conversion of values to their types."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.exact_values import as_array, check_unmasked, converted, host_array
from atompack_torch.errors import FieldError
from atompack_torch.options import utf8

# Names of the supported element types; "timestamp_ns" is int64 nanoseconds since 1970.
NUMERIC = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "timestamp_ns"),
)
TEXTS = ("string", "binary")
DTYPES = (*NUMERIC, *TEXTS)

# Strings or binary values of an array, in lists nested once per axis.
Texts: TypeAlias = str | bytes | list["Texts"]
# Content of an array: numbers, or strings.
Values = Tensor | Texts
# Value of an attribute.
Attribute: TypeAlias = bool | int | float | str | bytes | np.datetime64 | list["Attribute"]


def checked_dtype(dtype: Any) -> str:
    """Returns the name of an element type.

    Args:
        dtype: its name, or a dtype of NumPy or torch.

    Returns:
        One of ``DTYPES``.

    Raises:
        ValueError: arrays cannot have this dtype.
    """
    name = dtype if isinstance(dtype, str) else str(dtype).removeprefix("torch.")
    if not isinstance(dtype, str) and not name.startswith(("int", "uint", "float")):
        with suppress(TypeError):  # torch.bool, classes: not of the names below
            name = str(np.dtype(dtype))
    if name == "datetime64[ns]":
        name = "timestamp_ns"
    if name not in DTYPES:
        raise ValueError(f"dtype: expected one of {', '.join(DTYPES)}, got {dtype!r}")
    return name


def checked_fill(dtype: str, fill: Any) -> int | float | str | None:
    """Converts a fill value to the type in which an array stores it.

    Args:
        dtype: one of ``DTYPES``.
        fill: the fill value; None: none is stored.

    Returns:
        The fill value.

    Raises:
        FieldError: it is not a value of the dtype.
    """
    if fill is None:
        return None
    if dtype in TEXTS:
        if not isinstance(fill, str):
            raise FieldError(f"fill_value: expected str for {dtype}, got {type(fill).__name__}")
        return fill
    if np.ndim(fill):
        raise FieldError(f"fill_value: expected one number, got shape {np.shape(fill)}")
    return numbers(dtype, fill).item()  # type: ignore[no-any-return]


def definition(
    array: str,
    dtype: Any,
    shape: Sequence[int],
    dimension_names: Sequence[str] | None,
    chunk_shape: Sequence[int] | None,
    fill_value: Any,
) -> tuple[str, str, list[int], list[str], list[int], int | float | str | None, list[str]]:
    """Builds the definition of an array in the form that the native core takes.

    Args:
        array: name of the array; see ``AtlasStore.define_array``, which also describes the others.
        dtype: dtype of the elements.
        shape: extents.
        dimension_names: one per axis, or None.
        chunk_shape: extents of the chunks, or None.
        fill_value: value of missing elements, or None.

    Returns:
        The arguments, checked, in the same order; and no codecs.

    Raises:
        ValueError: arrays cannot have this dtype.
        FieldError: the fill value is not a value of it, or there is not one name per axis.
    """
    kind = checked_dtype(dtype)
    names: list[str] = []
    if dimension_names is not None:
        names = [utf8("dimension_names", name) for name in dimension_names]
        if len(names) != len(shape):
            raise FieldError(
                f"dimension_names: expected one for each of {len(shape)} axes, got {len(names)}"
            )
    if isinstance(fill_value, str):
        utf8("fill_value", fill_value)
    chunks = extents("chunk_shape", chunk_shape) or []
    of_axes = extents("shape", shape) or []
    fill = checked_fill(kind, fill_value)
    return utf8("array", array), kind, of_axes, names, chunks, fill, []


def extents(name: str, given: Sequence[int] | None) -> list[int] | None:
    """Converts extents to the form that the native core takes.

    Args:
        name: name of the argument, for messages.
        given: extents, or None.

    Returns:
        A list of ``int``, or None.

    Raises:
        TypeError: one is not an integer.
        ValueError: one is negative.
    """
    if given is None:
        return None
    found = []
    for extent in given:
        try:
            found.append(operator.index(extent))
        except TypeError:
            raise TypeError(f"{name}: expected integers, got {extent!r}") from None
    if any(extent < 0 for extent in found):
        raise ValueError(f"{name}: expected numbers from 0, got {found}")
    return found


def numbers(dtype: str, values: Any) -> np.ndarray[Any, Any]:
    """Converts values to a contiguous array of a stored numeric dtype (timestamps as int64).

    Args:
        dtype: one of ``NUMERIC``.
        values: an array, a tensor, a number or lists of numbers. Integers are accepted for any
            dtype that can represent them, floats for floating dtypes (float64 is rounded to
            float32 as long as a finite number stays finite); timestamps are ``datetime64`` of any
            unit, or integers in nanoseconds. Masked values are not allowed.

    Returns:
        The values in the shape in which they were given.

    Raises:
        FieldError: a value does not fit, or is of a different type.
    """
    if isinstance(values, Tensor):
        given = host_array("values", values)
    else:
        given = as_array("values", values)
    target = np.dtype("int64" if dtype == "timestamp_ns" else dtype)
    if given.dtype.kind == "M" and dtype == "timestamp_ns":
        given = _nanoseconds(given)
    kinds = "iuf" if target.kind == "f" else "iu"
    if given.dtype.kind not in kinds:
        raise FieldError(f"values: expected {dtype}, got {given.dtype}")
    return converted("values", given, target, rounds=True)


def _nanoseconds(moments: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    try:
        found = moments.astype("datetime64[ns]")
        exact = np.array_equal(found.astype(moments.dtype), moments, equal_nan=True)
    except OverflowError:  # NumPy 2.5; older versions wrap around
        exact = False
    if not exact:
        raise FieldError("values: expected timestamps that nanoseconds hold exactly")
    return found.view(np.int64)


def texts(dtype: str, values: Any) -> tuple[list[bytes], tuple[int, ...]]:
    """Encodes strings or binary values as bytes in row-major order; also returns their shape.

    Args:
        dtype: ``"string"`` or ``"binary"``.
        values: ``str`` (or ``bytes``), lists of them nested once per axis, or a NumPy array.

    Returns:
        The encoded values, and the shape.

    Raises:
        FieldError: a value is of a different type, or lists differ in length.
    """
    flat: list[bytes] = []
    shape = _flatten(dtype, values, flat)
    return flat, shape


def _flatten(dtype: str, values: Any, flat: list[bytes]) -> tuple[int, ...]:
    if isinstance(values, np.ndarray):
        if values.size == 0:  # lists would lose the axes that follow one of length 0
            return tuple(map(int, values.shape))
        values = values.tolist()
    if isinstance(values, (str, bytes)):
        flat.append(_encoded(dtype, values))
        return ()
    if not isinstance(values, Sequence):
        raise FieldError(f"values: expected {dtype}, got {type(values).__name__}")
    shapes = {_flatten(dtype, value, flat) for value in values}
    if len(shapes) > 1:
        raise FieldError("values: expected lists of equal length")
    return (len(values), *(shapes.pop() if shapes else ()))


def _encoded(dtype: str, value: str | bytes) -> bytes:
    if dtype == "binary" and isinstance(value, bytes):
        return value
    if dtype == "string" and isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise FieldError(f"values: a string is not valid UTF-8: {error.reason}") from None
    raise FieldError(f"values: expected {dtype}, got {type(value).__name__}")


def attribute(value: Any) -> bool | int | float | str | tuple[str, int]:
    """Converts an attribute to the form that the native core takes.

    Args:
        value: bool, int, float, str or ``numpy.datetime64``.

    Returns:
        The value; ``("ns", nanoseconds)`` for a timestamp.

    Raises:
        TypeError: the value is of a type that attributes cannot have.
        FieldError: an integer of more than 64 bits.
    """
    if isinstance(value, np.datetime64):
        return ("ns", int(numbers("timestamp_ns", value)))
    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        value = value.item()
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise FieldError(f"attribute: expected an integer of 64 bits, got {value}")
    if isinstance(value, str):
        utf8("attribute", value)
    if not isinstance(value, (bool, int, float, str)):
        raise TypeError(
            f"attribute: expected bool, int, float, str or datetime64, got {type(value).__name__}"
        )
    return value


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
    def of(cls, stored: tuple[str, str, Any, Any, Any, Any, Any]) -> ArraySchema:
        """Builds a schema from the native core's tuple.

        Args:
            stored: name, dtype, shape, dimension names, chunk shape, fill value and codecs.

        Returns:
            The schema.
        """
        _, dtype, shape, names, chunk_shape, fill, codecs = stored
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
        writer.write_strings(*place, (schema.start(start), shape), flat)
    else:
        stored = numbers(schema.dtype, given)
        writer.write(*place, (schema.start(start), stored.shape), stored)


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
