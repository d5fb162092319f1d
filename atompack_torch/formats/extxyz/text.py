"""Formatting of columns as the text of an extended XYZ file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from atompack_torch import _native
from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.conversions import are_same, masses_of, momenta_of
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, FieldId, FileLevel
from atompack_torch.formats.extxyz.keys import MOMENTA, NULL, Notices, Shape, written_key
from atompack_torch.formats.records import is_per_atom

_DEEPEST = 16  # maximum nesting of lists that can be read back

_Written = tuple[FileLevel, str, Any, Array]


def text_of(columns: Columns, report: Notices) -> bytes:
    """Formats molecules as frames.

    Args:
        columns: the molecules.
        report: receives what the format cannot represent.

    Returns:
        The text of all frames.

    Raises:
        FieldError: columns differ in length, or an atomic number is not from 0 to 255.
    """
    ptr = np.ascontiguousarray(columns.ptr, dtype=np.int64)
    positions = np.ascontiguousarray(columns.positions, dtype=np.float64)
    numbers = np.ascontiguousarray(columns.atomic_numbers, dtype=np.int64)
    _check_structure(ptr, positions, numbers)
    size = _Size(len(ptr) - 1, np.diff(ptr).tolist())
    known = {(c.scope, c.key): c for c in as_momenta([*columns.fields], numbers, ptr, report)}
    cell = known.pop((BUILTIN, "cell"), None)
    pbc = known.pop((BUILTIN, "pbc"), None)
    fields = [written for c in known.values() if (written := _written(c, size, report))]
    cells, flags = _rows(cell, size, (3, 3), np.float64), _rows(pbc, size, (3,), np.bool_)
    odd = cells[1] & ~np.isfinite(cells[0]).all(axis=(1, 2))
    if odd.any():
        report.skip("cell", "it is not finite", int(odd.sum()))
        cells = cells[0], cells[1] & ~odd
    lost = flags[1] & flags[0].any(axis=1) & ~cells[1]
    if lost.any():
        report.skip("pbc", "without a cell nothing is periodic", int(lost.sum()))
        flags = flags[0], flags[1] & ~lost
    if (cells[1] & ~flags[1]).any():  # readers take such a molecule as periodic
        report.note("pbc: F F F where it was absent next to a cell")
        flags = flags[0], flags[1] | cells[1]
    return _native.format_extxyz(ptr, positions, numbers, cells, flags, fields)


class _Size(NamedTuple):
    n_molecules: int
    n_atoms: list[int]  # per molecule


def _check_structure(ptr: Array, positions: Array, numbers: Array) -> None:
    n = len(numbers)
    if positions.shape != (n, 3):
        raise FieldError(f"positions: expected shape ({n}, 3), got {positions.shape}")
    if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != n or (np.diff(ptr) < 0).any():
        raise FieldError(f"ptr: expected to rise from 0 to {n}")
    wrong = numbers[(numbers < 0) | (numbers > 255)]
    if wrong.size:
        raise FieldError(f"atomic_numbers: expected 0 to 255, got {wrong[0]}")


def _mask(column: Column, n: int) -> Array:
    if column.mask is None:
        return np.ones(n, dtype=bool)
    mask = np.ascontiguousarray(column.mask, dtype=bool)
    _check_length(column, len(mask), n)
    return mask


def _check_length(column: Column, got: int, expected: int) -> None:
    if got != expected:
        raise FieldError(f"column: expected {expected} rows, got {got} (field {column.key!r})")


def _rows(
    column: Column | None, size: _Size, shape: Shape, dtype: type[np.generic]
) -> tuple[Array, Array]:
    """Stacks a column of fixed shape; also returns its mask."""
    rows: Array = np.zeros((size.n_molecules, *shape), dtype=dtype)
    if column is None:
        return rows, np.zeros(size.n_molecules, dtype=bool)
    mask = _mask(column, size.n_molecules)
    _check_length(column, len(column.values), size.n_molecules)
    for i in np.flatnonzero(mask).tolist():
        rows[i] = column.values[i]
    return rows, mask


def _written(column: Column, size: _Size, report: Notices) -> _Written | None:
    """Converts a column for the formatter; None if no value of it can be represented."""
    level = _level_of(column)
    mask = _mask(column, size.n_molecules)
    values: Any
    if isinstance(column.values, np.ndarray):
        _check_length(
            column, len(column.values), sum(size.n_atoms) if level == "atom" else len(mask)
        )
        values = _held(column, column.values, 1, report, int(mask.sum()))
        shapes: list[Shape | None] = [] if values is None else [values.shape[1:]]
    else:
        values = _held_each(column, column.values, mask, size, report)
        shapes = [None if isinstance(v, str) else v.shape for v in values if v is not None]
        mask = np.array([value is not None for value in values], dtype=bool)
    if values is None or not mask.any():
        return None
    key = written_key(FieldId(column.scope, column.key), level, shapes)
    if key is None:
        report.skip(_name(column), "no key can stand for it", int(mask.sum()))
        return None
    return level, key, values, mask


def _level_of(column: Column) -> FileLevel:
    is_momenta = column[:2] == (BUILTIN, MOMENTA)
    return "atom" if is_momenta or is_per_atom(column) else "molecule"


def _name(column: Column) -> str:
    return f"{'field' if column.scope == BUILTIN else 'property'} {column.key!r}"


def _held_each(
    column: Column, values: Sequence[Any], mask: Array, size: _Size, report: Notices
) -> list[Array | str | None]:
    """Converts entries one per molecule; None where there is nothing to write."""
    _check_length(column, len(values), size.n_molecules)
    per_atom = _level_of(column) == "atom"
    held: list[Array | str | None] = []
    for value, present, n_atoms in zip(values, mask, size.n_atoms, strict=True):
        if not present:
            held.append(None)
        elif not per_atom and (value is None or isinstance(value, str)):
            held.append(NULL if value is None else value)
        else:
            array = np.asarray(value)
            if per_atom:
                _check_length(column, array.shape[0] if array.ndim else 1, n_atoms)
            held.append(_held(column, array, int(per_atom), report, 1))
    return held


def _held(
    column: Column, array: Array, n_leading: int, report: Notices, count: int
) -> Array | None:
    """Converts an array to one of the formatter's types."""
    per_atom = _level_of(column) == "atom"
    why = _why_not(array, array.shape[n_leading:], per_atom)
    if why is not None:
        report.skip(_name(column), why, count)
        return None
    if per_atom and (array.ndim > 2 or array.shape[1:] == (1,)):
        report.note(f"{_name(column)}: rows of shape {array.shape[1:]} are written as flat columns")
        array = array.reshape(len(array), int(np.prod(array.shape[1:])))
    dtype = {"f": np.float64, "b": np.bool_}.get(array.dtype.kind, np.int64)
    # Not ascontiguousarray alone: it turns a scalar into an array of one element.
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


def _why_not(array: Array, shape: Shape, per_atom: bool) -> str | None:
    if array.dtype.kind not in "fiub":
        return f"values of type {array.dtype}"
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        return "an integer beyond 64 bits with sign"
    if per_atom and 0 in shape:
        return "no values for an atom"
    if 0 in shape[:-1] or len(shape) > _DEEPEST:
        return f"the shape {shape} has no text"
    return None


def as_momenta(columns: list[Column], numbers: Array, ptr: Array, report: Notices) -> list[Column]:
    """Converts velocities to the column ``momenta`` that ASE reads.

    Masses are those of the atom property ``masses`` where a molecule has it, else those of the
    elements. The column ``velocities`` is kept as well in molecules where some quotient
    momentum / mass does not reproduce the velocity exactly, and kept alone where momenta cannot
    represent it at all (masses of 0, atomic numbers of no element, overflow).

    Args:
        columns: columns of a block.
        numbers: (N,) int64, atomic numbers.
        ptr: (B + 1,) int64.
        report: receives notes about values that ASE will not read.

    Returns:
        The columns with momenta.
    """
    given = next((c for c in columns if c[:2] == (BUILTIN, "velocities")), None)
    if given is None:
        return columns
    n = len(ptr) - 1
    mask = np.ones(n, dtype=bool) if given.mask is None else np.asarray(given.mask, dtype=bool)
    own = next((c for c in columns if c[:2] == (ATOM_PROPERTY, "masses")), None)
    velocities = _stacked(given, mask, ptr)
    if velocities is None or len(mask) != n:
        return columns  # wrong shape: reported elsewhere
    masses = _masses(own, numbers, ptr)
    momenta = momenta_of(velocities, masses)
    with np.errstate(all="ignore"):
        back = momenta / masses[:, None]
        exact = np.asarray(_are_identical(back, velocities).all(axis=1))
    # NaN agrees with NaN times any mass, also the mass of an unknown element.
    wrong = ~are_same(velocities, back) | ~(masses > 0)
    lost = mask & (_sums(wrong, ptr) > 0)
    rounded = lost | (mask & (_sums(~exact, ptr) > 0))
    if lost.any():
        report.note("velocities: no momenta give some of them back; ASE reads 0 there")
    held = [column for column in columns if column is not given]
    if not lost.all() and (mask & ~lost).any():
        held.append(Column(BUILTIN, MOMENTA, momenta, mask & ~lost))
    if rounded.any():
        held.append(Column(BUILTIN, "velocities", velocities, rounded))
    return held


def _are_identical(a: Array, b: Array) -> Array:
    """Elementwise comparison of bits, ignoring NaN payloads."""
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return np.asarray(equal | (np.isnan(a) & np.isnan(b)))


def _stacked(column: Column, mask: Array, ptr: Array) -> Array | None:
    """Stacks a column as (N, 3) float64, zeros where absent; None if the shapes do not fit."""
    stacked = np.zeros((int(ptr[-1]), 3))
    if isinstance(column.values, np.ndarray):
        return column.values.astype(np.float64) if column.values.shape == stacked.shape else None
    if len(column.values) != len(mask):
        return None
    for i in np.flatnonzero(mask).tolist():
        rows, value = stacked[ptr[i] : ptr[i + 1]], np.asarray(column.values[i])
        if value.shape != rows.shape:
            return None
        rows[:] = value
    return stacked


def _masses(own: Column | None, numbers: Array, ptr: Array) -> Array:
    masses = masses_of(numbers)
    if own is None:
        return np.asarray(masses)
    for i in range(len(ptr) - 1):
        if own.mask is not None and not own.mask[i]:
            continue
        rows = slice(ptr[i], ptr[i + 1])
        of_all = isinstance(own.values, np.ndarray)
        value = np.asarray(own.values[rows] if of_all else own.values[i])
        if value.dtype.kind in "biuf" and value.size == len(masses[rows]):
            masses[rows] = value.reshape(-1)
    return np.asarray(masses)


def _sums(flags: Array, ptr: Array) -> Array:
    """Counts the True rows of each molecule."""
    sums = np.concatenate([[0], np.cumsum(flags)])
    return np.asarray(sums[ptr[1:]] - sums[ptr[:-1]])
