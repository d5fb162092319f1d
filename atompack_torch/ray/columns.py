"""Conversion of Arrow tables with one row for each molecule to columns that a writer accepts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    DERIVED,
    MOLECULE_PROPERTY,
    STRUCTURE,
    FieldId,
    prefixed_id,
)
from atompack_torch.ray.blocks import DATA, LEVEL, SHAPE


class Ragged(NamedTuple):
    """Rows of several lengths: the items of all rows in order, and the lengths."""

    items: Array
    lengths: Array


Rows = Array | Ragged | list[Any]  # list: an array or a string for each row


def columns_of(table: pa.Table, atom_properties: Collection[str]) -> Columns:
    """Converts a table.

    Args:
        table: a table with ``positions`` and ``atomic_numbers``, and columns as those of
            ``read_atp``; other list types and Ray's tensors are understood too.
        atom_properties: names of columns with a row for each atom, where neither the name nor the
            metadata of the column says so.

    Returns:
        The columns; null values are absent.

    Raises:
        FieldError: a column has a different type or shape than its field.
    """
    for name in ("positions", "atomic_numbers"):
        if name not in table.column_names:
            raise FieldError(f"{name}: expected a column, got {', '.join(table.column_names)}")
    counts = _lengths(table, "positions")
    ptr = np.concatenate([[0], np.cumsum(counts)])
    everything = np.ones(len(counts), bool)
    structure = {
        name: _of_atoms(name, *_present(table, name), counts, everything)
        for name in ("positions", "atomic_numbers")
    }
    fields = []
    for name in table.column_names:
        if name in STRUCTURE or name in DERIVED or pa.types.is_null(table.schema.field(name).type):
            continue
        scope, key = _field_of(table.schema.field(name), atom_properties)
        rows, mask = _present(table, name)
        if not mask.any():
            continue
        per_atom = BUILTINS[key].level == "atom" if scope == BUILTIN else scope == ATOM_PROPERTY
        place = _of_atoms if per_atom else _of_molecules
        values = place(name, rows, mask, counts, mask)
        fields.append(Column(scope, key, values, None if mask.all() else mask))
    positions, numbers = structure["positions"], structure["atomic_numbers"]
    return Columns(np.asarray(positions), np.asarray(numbers), ptr, fields)


def _field_of(field: pa.Field, atom_properties: Collection[str]) -> FieldId:
    if field.name in BUILTINS:
        return FieldId(BUILTIN, field.name)
    prefixed = prefixed_id(field.name)
    if prefixed is not None:
        return prefixed
    is_atom = field.name in atom_properties or (field.metadata or {}).get(LEVEL) == b"atom"
    return FieldId(ATOM_PROPERTY if is_atom else MOLECULE_PROPERTY, field.name)


def _present(table: pa.Table, name: str) -> tuple[Rows, Array]:
    """Returns the values of a column that are not null, and (B,) bool: which are not."""
    column = table.column(name)
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if isinstance(array.type, pa.ExtensionType):  # of Ray
        values = array.to_numpy(zero_copy_only=False)
        if values.dtype != object:
            return values, np.ones(len(values), bool)
        mask = np.array([value is not None for value in values], dtype=bool)
        return [_plain(name, value) for value in values if value is not None], mask
    mask = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return _rows(name, array if mask.all() else array.filter(pa.array(mask))), mask


def _plain(name: str, value: Any) -> Any:
    """Converts arrays of arrays, as Arrow makes them of nested lists, to one array of numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {DATA, SHAPE}:
        return np.asarray(value[DATA]).reshape([*value[SHAPE]])
    try:
        items = [_plain(name, item) for item in value] if np.ndim(value) else []
        array = np.stack(items) if items and np.ndim(items[0]) else np.asarray(value)
    except ValueError as error:  # lengths that differ
        raise FieldError(f"{name}: expected numbers in arrays: {error}") from None
    if array.dtype.kind not in "biuf":
        raise FieldError(f"{name}: expected numbers in arrays, got {array.dtype}")
    return array


def _rows(name: str, array: pa.Array) -> Rows:
    """Converts an array without nulls."""
    kind = array.type
    if array.null_count:
        raise FieldError(f"{name}: expected numbers in arrays, got null")
    if pa.types.is_dictionary(kind):
        return _rows(name, array.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return list(array.to_pylist())
    if pa.types.is_fixed_size_list(kind):
        return _stacked(name, array.flatten(), np.full(len(array), kind.list_size), kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = array.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        return _stacked(name, array.flatten(), lengths, None)
    if pa.types.is_struct(kind) and {field.name for field in kind} == {DATA, SHAPE}:
        data = _rows(name, array.field(DATA))
        shapes = array.field(SHAPE).to_pylist()
        return [part.reshape(s) for part, s in zip(_split(data), shapes, strict=True)]
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    raise FieldError(f"{name}: expected numbers, strings or lists of numbers, got {kind}")


def _stacked(name: str, items: pa.Array, lengths: Array, size: int | None) -> Rows:
    """Converts the items of lists, all of one size or of the lengths."""
    inner = _rows(name, items)
    if isinstance(inner, Ragged):
        if len(inner.lengths) and (inner.lengths != inner.lengths[0]).any():
            raise FieldError(f"{name}: expected rows of one length in each list, got several")
        width = int(inner.lengths[0]) if len(inner.lengths) else 0
        inner = inner.items.reshape(len(inner.lengths), width, *inner.items.shape[1:])
    if isinstance(inner, list):
        raise FieldError(f"{name}: expected numbers in lists, got others")
    if size is not None:
        return inner.reshape(len(lengths), size, *inner.shape[1:])
    return Ragged(inner, lengths)


def _split(rows: Rows) -> list[Any]:
    if isinstance(rows, Ragged):
        return np.split(rows.items, np.cumsum(rows.lengths)[:-1]) if len(rows.lengths) else []
    return list(rows)


def _lengths(table: pa.Table, name: str) -> Array:
    """Returns the length of each row of a column without nulls."""
    rows, mask = _present(table, name)
    if not mask.all():
        raise FieldError(f"{name}: expected values in all rows, got null in row {mask.argmin()}")
    return _row_lengths(rows)


def _row_lengths(rows: Rows) -> Array:
    if isinstance(rows, Ragged):
        return rows.lengths
    if isinstance(rows, list):
        return np.array([len(row) if np.ndim(row) else -1 for row in rows], dtype=np.int64)
    return np.full(len(rows), rows.shape[1] if rows.ndim > 1 else -1, dtype=np.int64)


def _of_atoms(name: str, rows: Rows, mask: Array, counts: Array, _: Array) -> Any:
    """Converts rows of atoms to (N, ...), zeros where a molecule has none, or to a list."""
    lengths = _row_lengths(rows)
    if (lengths != counts[mask]).any():
        i = int(np.flatnonzero(lengths != counts[mask])[0])
        row = int(np.flatnonzero(mask)[i])
        raise FieldError(
            f"{name}: expected a row for each of {counts[row]} atoms, got "
            f"{'a number' if lengths[i] < 0 else lengths[i]} (row {row})"
        )
    parts = None if isinstance(rows, Ragged) else _split(rows)
    if parts is not None and len({part.shape[1:] for part in parts}) > 1:
        return _spread(parts, mask)
    items = rows.items if isinstance(rows, Ragged) else np.concatenate(parts or [np.zeros(0)])
    if mask.all():
        return items
    values = np.zeros((int(counts.sum()), *items.shape[1:]), items.dtype)
    values[np.repeat(mask, counts)] = items
    return values


def _of_molecules(name: str, rows: Rows, mask: Array, counts: Array, _: Array) -> Any:
    """Converts rows of molecules to (B, ...), zeros where there are none, or to a list."""
    if isinstance(rows, np.ndarray):
        if mask.all():
            return rows
        values = np.zeros((len(mask), *rows.shape[1:]), rows.dtype)
        values[mask] = rows
        return values
    parts = _split(rows)
    lengths = {part.shape for part in parts if isinstance(part, np.ndarray)}
    if len(lengths) > 1 and all(len(shape) == 1 for shape in lengths):
        raise FieldError(
            f"{name}: expected arrays of one length, got several; if their rows are atoms, name "
            f"the column in atom_properties, or 'atom_properties/{name}'"
        )
    return _spread(parts, mask)


def _spread(parts: list[Any], mask: Array) -> list[Any]:
    values: list[Any] = [None] * len(mask)
    for place, part in zip(np.flatnonzero(mask).tolist(), parts, strict=True):
        values[place] = part
    return values
