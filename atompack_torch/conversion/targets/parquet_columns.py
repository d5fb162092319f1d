"""Arrow arrays of fields, for Parquet files with one structure per row."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column
from atompack_torch.fields import BUILTIN, BUILTINS, FieldId
from atompack_torch.formats.records import is_per_atom

POSITIONS, NUMBERS = FieldId(BUILTIN, "positions"), FieldId(BUILTIN, "atomic_numbers")


class ColumnType(NamedTuple):
    """Type of a field in a file.

    Attributes:
        is_of_atoms: True if it has rows of atoms.
        dtype: type of its numbers; None: strings.
        n_axes: number of axes of the value of a structure or of the row of an atom.
        shape: shape of that; None if it varies.
        is_fixed: True if its axes have the lengths of ``shape`` by definition.
    """

    is_of_atoms: bool
    dtype: np.dtype[Any] | None
    n_axes: int
    shape: tuple[int, ...] | None
    is_fixed: bool

    def arrow(self) -> Any:
        """Returns the type in Arrow."""
        pa = _arrow()
        if self.dtype is None:
            return pa.string()
        made = pa.from_numpy_dtype(self.dtype)
        sizes = self.shape if self.is_fixed and self.shape is not None else (-1,) * self.n_axes
        for size in reversed(sizes):
            made = pa.list_(made, size)
        return pa.list_(made) if self.is_of_atoms else made


def type_of(column: Column) -> ColumnType | None:
    """Returns the type of a column by the first of its values; None if it has none.

    Args:
        column: a column of a block; positions and atomic numbers as labels.

    Returns:
        The type; its shape is that of the first value.
    """
    is_structure = column[:2] in (POSITIONS, NUMBERS)
    of_atoms = is_structure or is_per_atom(column)
    if isinstance(column.values, np.ndarray):
        shape, dtype = column.values.shape[1:], column.values.dtype
    else:
        first = next((value for value in column.values if value is not None), None)
        if first is None:
            return None
        if isinstance(first, str):
            return ColumnType(False, None, 0, (), is_fixed=False)
        shape, dtype = first.shape[of_atoms:], first.dtype
    is_fixed = is_structure or (column.scope == BUILTIN and BUILTINS[column.key].shape == shape)
    return ColumnType(of_atoms, dtype, len(shape), shape, is_fixed=is_fixed)


def with_masked(column: Column) -> Column:
    """Returns a column whose entries are None where its mask is False."""
    if column.mask is None or isinstance(column.values, np.ndarray):
        return column
    given = zip(column.values, column.mask.tolist(), strict=True)
    return column._replace(values=[value if has else None for value, has in given])


def shapes_of(column: Column, type_: ColumnType) -> set[tuple[int, ...]]:
    """Returns the shapes of the values or rows of a column of numbers."""
    if isinstance(column.values, np.ndarray):
        return {column.values.shape[1:]}
    start = int(type_.is_of_atoms)
    return {value.shape[start:] for value in column.values if isinstance(value, np.ndarray)}


def array_of(column: Column, type_: ColumnType, ptr: Array) -> Any:
    """Converts a column of a block to an Arrow array with one value per structure.

    Args:
        column: the column; its values have the type, entries without one are None.
        type_: the type of the field.
        ptr: (B + 1,) index of the first atom of each structure.

    Returns:
        The array; null where the mask is False, and for values None.
    """
    pa = _arrow()
    n = len(ptr) - 1
    mask = np.ones(n, dtype=bool) if column.mask is None else column.mask
    if not isinstance(column.values, np.ndarray):
        if type_.dtype is None:
            return pa.array(column.values, pa.string())
        return _of_entries([*column.values], type_)
    if type_.is_of_atoms:
        counts = np.diff(ptr)
        rows = column.values[np.repeat(mask, counts)]
        return _list(np.where(mask, counts, 0), _nested(rows, type_), mask)
    if not type_.n_axes:
        return pa.array(column.values, mask=~mask)
    if type_.is_fixed:
        return _fixed(column.values, ~mask)
    rows = column.values[mask]
    size = rows.shape[1]
    inner = _nested(rows.reshape(-1, *rows.shape[2:]), type_._replace(n_axes=type_.n_axes - 1))
    return _list(mask * size, inner, mask)


def _arrow() -> Any:
    return importlib.import_module("pyarrow")


def _list(counts: Array, items: Any, mask: Array) -> Any:
    offsets = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, out=offsets[1:])
    pa = _arrow()
    nulls = None if mask.all() else pa.array(~mask)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=nulls)


def _nested(rows: Array, type_: ColumnType) -> Any:
    """Converts rows of one shape to an array with one (nested) list for each."""
    if type_.is_fixed and type_.n_axes:
        return _fixed(rows, None)
    if not type_.n_axes:
        return _arrow().array(np.ascontiguousarray(rows))
    size = rows.shape[1]
    inner = rows.reshape(len(rows) * size, *rows.shape[2:])
    there = np.ones(len(rows), dtype=bool)
    return _list(there * size, _nested(inner, type_._replace(n_axes=type_.n_axes - 1)), there)


def _fixed(values: Array, nulls: Array | None) -> Any:
    """Converts values of one shape to lists of fixed sizes."""
    pa = _arrow()
    made = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[2:]):
        made = pa.FixedSizeListArray.from_arrays(made, size)
    mask = None if nulls is None or not nulls.any() else pa.array(nulls)
    return pa.FixedSizeListArray.from_arrays(made, values.shape[1], mask=mask)


def _of_entries(values: list[Any], type_: ColumnType) -> Any:
    """Converts values of any shape, of one number of axes."""
    pa = _arrow()
    there = [value for value in values if value is not None]
    mask = np.array([value is not None for value in values], dtype=bool)
    n_axes = type_.n_axes + type_.is_of_atoms
    if not n_axes:
        flat = np.zeros(len(values), dtype=type_.dtype)
        flat[mask] = there
        return pa.array(flat, mask=~mask)
    flat = np.concatenate([np.zeros(0, type_.dtype), *(value.reshape(-1) for value in there)])
    made = pa.array(flat)
    sizes = type_.shape if type_.is_fixed and type_.shape is not None else ()
    for size in reversed(sizes):
        made = pa.FixedSizeListArray.from_arrays(made, size)
    for axis in reversed(range(n_axes - len(sizes))):
        counts: list[int] = []
        for value in there:
            counts += [value.shape[axis]] * math.prod(value.shape[:axis])
        if axis:
            made = _list(np.array(counts, int), made, np.ones(len(counts), dtype=bool))
    of_all = np.zeros(len(values), dtype=np.int64)
    of_all[mask] = counts
    return _list(of_all, made, mask)
