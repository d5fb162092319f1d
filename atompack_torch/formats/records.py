"""Conversion of single molecules to columns and back, and what readers of columns share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.conversions import Parts, full_stress
from atompack_torch.errors import AtompackError, CorruptFileError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, BUILTINS, MOLECULE_PROPERTY, FieldId
from atompack_torch.formats.conversion_report import Report, described

# ASE's xx, yy, zz, yz, xz, xy of a tensor: the indices of rows and of columns.
VOIGT = ([0, 1, 2, 1, 0, 0], [0, 1, 2, 2, 2, 1])

# A block is complete when it reaches either limit.
BLOCK_STRUCTURES = 256
BLOCK_ATOMS = 1 << 16

_Entry = Array | str | None


def blocks(records: Iterable[Parts], size: int = BLOCK_STRUCTURES) -> Iterator[Columns]:
    """Groups molecules into blocks of bounded size; those before an error are yielded first."""
    block: list[Parts] = []
    n_atoms = 0
    fault = None
    try:
        for record in records:
            block.append(record)
            n_atoms += len(record.positions)
            if len(block) == size or n_atoms >= BLOCK_ATOMS:
                yield columns_of(block)
                block, n_atoms = [], 0
    except AtompackError as error:
        fault = error
    if block:
        yield columns_of(block)
    if fault is not None:
        raise fault


def convert_each(
    path: Any, makes: Generator[Callable[[], Parts]], report: Report, first: int = 0
) -> Iterator[Columns]:
    """Groups molecules that are made one by one into blocks of bounded size.

    Closes ``makes`` at the end or an error, whose traceback would keep its file open.

    Args:
        path: the file, for messages.
        makes: functions that make the molecules.
        report: receives those that cannot be made.
        first: number of the first molecule.

    Yields:
        Blocks of molecules.

    Raises:
        CorruptFileError: a molecule cannot be made, unless such are skipped.
    """
    with closing(makes):
        pairs = enumerate(makes, first)
        yield from blocks(parts for i, make in pairs for parts in converted(make, path, i, report))


def converted(make: Callable[[], Parts], path: Any, number: int, report: Report) -> Iterator[Parts]:
    """Yields one molecule, or none if it was rejected and errors should be skipped."""
    try:
        made = make()
    except (OSError, ImportError):
        raise
    except Exception as error:  # unusual shapes, types or units that libraries reject
        what = described(error)
        if isinstance(error, AtompackError):  # our own errors already name the path
            what = str(error).removeprefix(f"{path}: ")
        fault = CorruptFileError(f"{path}: {what} (molecule {number})")
        fault.__cause__ = error
        report.refuse(fault)
        return
    yield made


def columns_of(records: list[Parts]) -> Columns:
    """Joins molecules into columns; values that differ in shape or type stay a list."""
    entries: dict[tuple[int, str], list[_Entry]] = {}
    masks: dict[tuple[int, str], Array] = {}
    for i, record in enumerate(records):
        scopes = (record.labels, record.atom_properties, record.properties)
        for scope, values in zip((BUILTIN, ATOM_PROPERTY, MOLECULE_PROPERTY), scopes, strict=True):
            for key, value in values.items():
                if (scope, key) not in entries:
                    entries[scope, key] = [None] * len(records)
                    masks[scope, key] = np.zeros(len(records), dtype=bool)
                entries[scope, key][i] = _entry(value)
                masks[scope, key][i] = True
    ptr = np.zeros(len(records) + 1, dtype=np.int64)
    np.cumsum([len(record.positions) for record in records], out=ptr[1:])
    n_atoms = np.diff(ptr)
    return Columns(
        np.concatenate([record.positions for record in records]),
        np.concatenate([record.atomic_numbers for record in records]),
        ptr,
        [stack(Column(*field, entries[field], masks[field]), n_atoms) for field in entries],
    )


def _entry(value: object) -> _Entry:
    return value if value is None or isinstance(value, str) else np.asarray(value)


def records_of(columns: Columns) -> Iterator[Parts]:
    """Yields the molecules of a block: views, with numbers as NumPy scalars."""
    for i, (first, last) in enumerate(pairwise(columns.ptr.tolist())):
        record = Parts(
            columns.positions[first:last], columns.atomic_numbers[first:last], {}, {}, {}
        )
        scopes = (record.labels, record.atom_properties, record.properties)
        for column in columns.fields:
            if column.mask is not None and not column.mask[i]:
                continue
            rows = slice(first, last) if is_per_atom(column) else i
            value = column.values[i if isinstance(column.values, list) else rows]
            scopes[column.scope][column.key] = value
        yield record


def is_per_atom(field: Column | FieldId) -> bool:
    """True if a column or field has rows per atom, not per structure."""
    if field.scope == BUILTIN:
        return BUILTINS[field.key].level == "atom"
    return field.scope == ATOM_PROPERTY


def label_in(columns: Columns, key: str) -> Column | None:
    """Returns the column of a label; None if no molecule of the block has it."""
    return next((column for column in columns.fields if column[:2] == (BUILTIN, key)), None)


def present(column: Column | None, n: int) -> Array:
    """Returns (n,) bool, True for the molecules that have the value of a column."""
    if column is None:
        return np.zeros(n, dtype=bool)
    return np.ones(n, dtype=bool) if column.mask is None else column.mask


def label_rows(columns: Columns, key: str) -> tuple[Array, Array]:
    """Returns a label of molecules as an array.

    Args:
        columns: a block whose labels have their standard shapes.
        key: a numeric label.

    Returns:
        Its values, float64 or for ``pbc`` bool, zeros where it is absent; and (B,) bool, True where
        it is present.
    """
    n, column = len(columns.ptr) - 1, label_in(columns, key)
    values = np.zeros((n, *BUILTINS[key].shape), dtype=bool if key == "pbc" else np.float64)
    mask = present(column, n).copy()
    if column is not None and isinstance(column.values, np.ndarray):
        values[mask] = column.values[mask]
    elif column is not None and mask.any():
        values[mask] = [column.values[i] for i in np.flatnonzero(mask).tolist()]
    return values, mask


def stack(column: Column, n_atoms: Array) -> Column:
    """Makes one array of the values of a column, if they have one type and shape.

    Args:
        column: the column.
        n_atoms: (B,) number of atoms of each molecule.

    Returns:
        The column; missing values in a new array are zeros, and masked.
    """
    if isinstance(column.values, np.ndarray):
        return column
    mask = present(column, len(n_atoms))
    there: list[Any] = [v for v, has in zip(column.values, mask.tolist(), strict=True) if has]
    if not there or not all(type(value) is np.ndarray for value in there):
        return column
    per_atom = is_per_atom(column)
    forms = {(value.dtype, value.shape[per_atom:]) for value in there}
    rows = [value.shape[:1] for value in there]
    if len(forms) != 1 or (per_atom and rows != [(n,) for n in n_atoms[mask].tolist()]):
        return column
    whole = np.concatenate(there) if per_atom else np.stack(there)
    if mask.all():
        return column._replace(values=whole, mask=None)
    ((dtype, shape),) = forms
    values = np.zeros((int(n_atoms.sum()) if per_atom else len(n_atoms), *shape), dtype=dtype)
    values[np.repeat(mask, n_atoms) if per_atom else mask] = whole
    return column.with_values(values)


def select(columns: Columns, keep: Array) -> Columns:
    """Selects the molecules of a block where ``keep`` (B,) bool is True."""
    counts = np.diff(columns.ptr)
    atoms = np.repeat(keep, counts)
    ptr = np.zeros(int(keep.sum()) + 1, dtype=np.int64)
    np.cumsum(counts[keep], out=ptr[1:])
    fields = [_selected(column, keep, atoms) for column in columns.fields]
    return Columns(columns.positions[atoms], columns.atomic_numbers[atoms], ptr, fields)


def _selected(column: Column, keep: Array, atoms: Array) -> Column:
    values: Array | list[_Entry]
    if isinstance(column.values, np.ndarray):
        values = column.values[atoms if is_per_atom(column) else keep]
    else:
        values = [value for value, kept in zip(column.values, keep, strict=True) if kept]
    mask = None if column.mask is None else column.mask[keep]
    return Column(column.scope, column.key, values, mask)


def filled(first: Column | None, second: Column, n_atoms: Array) -> Column:
    """Fills the values that a column lacks from another of the same field.

    Args:
        first: the column; None: it lacks all.
        second: the other column.
        n_atoms: (B,) number of atoms of each molecule.

    Returns:
        The filled column.
    """
    if first is None or first.mask is None:
        return first or second
    has = first.mask
    mask = np.ones_like(has) if second.mask is None else second.mask
    if isinstance(first.values, np.ndarray) and isinstance(second.values, np.ndarray):
        own = np.repeat(has, n_atoms) if is_per_atom(first) else has
        own = own.reshape(-1, *[1] * (first.values.ndim - 1))
        values: Any = np.where(own, first.values, second.values)
    else:
        pairs = zip(first.values, second.values, has, strict=True)
        values = [a if there else b for a, b, there in pairs]
    return Column(first.scope, first.key, values, None if (has | mask).all() else has | mask)


def stress_of_six(values: Array, report: Report, *, is_voigt: bool = False) -> Array:
    """Makes matrices of six numbers, in the order that the conversion was asked for.

    Args:
        values: (..., 6).
        report: has the order, and receives a note.
        is_voigt: the source is known to have Voigt's order.

    Returns:
        (..., 3, 3).
    """
    if report.options.stress_order == "vasp":
        report.note("stress: xx, yy, zz, xy, yz, zx became 3 x 3")
        return np.asarray(full_stress(values[..., [0, 1, 2, 4, 5, 3]]))
    report.note("stress: xx, yy, zz, yz, xz, xy became 3 x 3")
    is_open = report.options.stress_order is None and not is_voigt
    if is_open and (values[..., 3:] != values[..., 3:4]).any():
        report.is_order_assumed = True
    return np.asarray(full_stress(values))
