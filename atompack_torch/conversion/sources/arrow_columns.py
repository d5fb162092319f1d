"""Conversion of Arrow arrays, nested lists included, to NumPy arrays without Python objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array

if TYPE_CHECKING:
    import pyarrow as pa


class Leaves(NamedTuple):
    """Values of B rows of an array, in order, with nested lists flattened.

    Attributes:
        values: the innermost values, an Arrow array without lists.
        offsets: (B + 1,) index of the first value of each row.
        present: (B,) bool, False for rows that are null.
        counts: (B,) lengths of the outermost lists; 1 if a row is one value.
        widths: (R,) lengths of the innermost lists; None if a row is one value.
        rows: (B + 1,) index of the first innermost list of each row.
        depth: number of nested lists.
    """

    values: Any
    offsets: Array
    present: Array
    counts: Array
    widths: Array | None
    rows: Array
    depth: int


def kind_of(type_: pa.DataType) -> str:
    """Returns the kind of the innermost values of a type.

    Args:
        type_: type of an Arrow column.

    Returns:
        ``"number"``, ``"string"``, or the type as text if columns have no place for it.
    """
    import pyarrow.types as of

    while _is_list(type_) or isinstance(type_, _extension()):
        type_ = type_.value_type if _is_list(type_) else type_.storage_type
    if of.is_dictionary(type_):
        type_ = type_.value_type
    if of.is_floating(type_) or of.is_integer(type_) or of.is_boolean(type_):
        return "number"
    is_string = of.is_string(type_) or of.is_large_string(type_) or of.is_string_view(type_)
    return "string" if is_string else str(type_)


def depth_of(type_: pa.DataType) -> int:
    """Returns the number of nested lists of a type."""
    depth = 0
    while _is_list(type_) or isinstance(type_, _extension()):
        depth += _is_list(type_)
        type_ = type_.value_type if _is_list(type_) else type_.storage_type
    return depth


def leaves_of(array: pa.Array) -> Leaves:
    """Flattens the nested lists of an array.

    Args:
        array: an Arrow array of values or lists.

    Returns:
        Its values.
    """
    import pyarrow.compute as pc

    present = _numpy(array.is_valid())
    offsets = rows = np.arange(len(array) + 1, dtype=np.int64)
    counts = np.ones(len(array), dtype=np.int64)
    widths, depth = None, 0
    while True:
        if isinstance(array.type, _extension()):
            array = array.storage
        if not _is_list(array.type):
            break
        widths = _numpy(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
        rows, offsets = offsets, _starts(widths)[offsets]
        counts = counts if depth else widths
        array = array.flatten()
        depth += 1
    return Leaves(array, offsets, present, counts, widths, rows, depth)


def fits(leaves: Leaves, counts: Array, shape: tuple[int, ...]) -> Array:
    """Finds the rows whose values have the expected number and shape.

    Values may also be one flat list.

    Args:
        leaves: the values.
        counts: (B,) number of entries per row, such as its number of atoms.
        shape: shape of an entry.

    Returns:
        (B,) bool; False for rows that are null.
    """
    good = leaves.present & (np.diff(leaves.offsets) == counts * int(np.prod(shape)))
    if leaves.depth > 1 and shape and leaves.widths is not None:
        wrong = np.flatnonzero(leaves.widths != shape[-1])
        good[np.searchsorted(leaves.rows, wrong, side="right") - 1] = False
    return np.asarray(good)


def dense(leaves: Leaves, good: Array, counts: Array, shape: tuple[int, ...]) -> Array:
    """Returns the values of some rows as one array; those of the others are zeros.

    Args:
        leaves: values, numbers.
        good: (B,) bool, rows that ``fits`` found.
        counts: (B,) number of entries per row.
        shape: shape of an entry.

    Returns:
        (sum of ``counts``, *shape) numbers; null in a list of floats is NaN.
    """
    values = _numpy(leaves.values)
    if good.all():
        return values.reshape(-1, *shape)
    made = np.zeros((int(counts.sum()), *shape), dtype=values.dtype)
    lengths = np.diff(leaves.offsets)
    made[np.repeat(good, counts)] = values[np.repeat(good, lengths)].reshape(-1, *shape)
    return made


def entries_of(leaves: Leaves, counts: Array | None) -> tuple[Array, list[Array | str | None]]:
    """Returns the values of each row as an array of its own shape, of up to three axes.

    Args:
        leaves: values, numbers.
        counts: (B,) expected lengths of the outermost lists; None: any.

    Returns:
        (B,) bool, False for rows that are null or whose lists differ in length; and the values,
        None for those rows.
    """
    flat, good = _numpy(leaves.values), leaves.present.copy()
    entries: list[Array | str | None] = [None] * len(good)
    for i in np.flatnonzero(good).tolist():
        lists = slice(leaves.rows[i], leaves.rows[i + 1])
        widths = [] if leaves.widths is None or leaves.depth < 2 else leaves.widths[lists].tolist()
        n, size = int(leaves.counts[i]), int(leaves.offsets[i + 1] - leaves.offsets[i])
        width = widths[0] if widths else 0
        shape: tuple[int, ...] = (
            (n, width) if leaves.depth == 2 else (n, len(widths) // max(n, 1), width)
        )
        shape = (n,) if leaves.depth == 1 else shape
        is_expected = counts is None or n == counts[i]
        if size != int(np.prod(shape)) or not is_expected or len({*widths}) > 1:
            good[i] = False
        else:
            entries[i] = flat[leaves.offsets[i] : leaves.offsets[i + 1]].reshape(shape)
    return good, entries


def without_nulls(leaves: Leaves) -> Array:
    """Finds the rows that have no null among their values.

    Args:
        leaves: the values.

    Returns:
        (B,) bool.
    """
    good = leaves.present.copy()
    if leaves.values.null_count:
        nulls = np.flatnonzero(_numpy(leaves.values.is_null()))
        good[np.searchsorted(leaves.offsets, nulls, side="right") - 1] = False
    return good


def symbols_of(leaves: Leaves) -> tuple[Array, list[Any]]:
    """Returns (V,) indices of strings, -1 for null, and the strings themselves, each once."""
    import pyarrow.types as of

    array = leaves.values
    if not of.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = _numpy(array.indices.cast("int64").fill_null(-1))
    return indices, array.dictionary.to_pylist()


def is_floating(leaves: Leaves) -> bool:
    """True if the values are floating-point numbers."""
    import pyarrow.types as of

    return bool(of.is_floating(leaves.values.type))


def _numpy(array: Any) -> Array:
    """Converts an array without lists; null becomes NaN in floats, and 0 elsewhere."""
    import pyarrow.types as of

    if of.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        is_bool = of.is_boolean(array.type)
        array = array.fill_null(
            float("nan") if of.is_floating(array.type) else False if is_bool else 0
        )
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def _starts(lengths: Array) -> Array:
    return np.concatenate([[0], np.cumsum(lengths)])


def _is_list(type_: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_list(type_) or of.is_large_list(type_) or of.is_fixed_size_list(type_))


def _extension() -> type:
    import pyarrow as pa

    extension: type = pa.BaseExtensionType
    return extension
