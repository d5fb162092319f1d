"""Molecules as columns of plain arrays, the form that converters produce and writers accept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from atompack_torch.batch.exact_values import as_array, check_unmasked, converted, host_array
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.batch.padding import is_padded
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    DERIVED,
    MASKS,
    MOLECULE_PROPERTY,
    STRUCTURE,
    not_a_label,
    squeeze_hint,
)

Array = np.ndarray[Any, Any]


class Column(NamedTuple):
    """One field of a run of B molecules with N atoms in all.

    Attributes:
        scope: ``BUILTIN``, ``ATOM_PROPERTY`` or ``MOLECULE_PROPERTY`` of ``fields``.
        key: name of the field in its scope.
        values: one array, (N, ...) per atom or (B, ...) per molecule; or a list with one entry per
            molecule: an array of any shape (per atom: n rows), a ``str``, or None (in a molecule
            property: the value None).
        mask: (B,) bool, True for molecules that have the field; None: all of them.
    """

    scope: int
    key: str
    values: Array | Sequence[Array | str | None]
    mask: Array | None = None

    def with_values(self, values: Array | Sequence[Array | str | None]) -> Column:
        """Returns the field with other values."""
        return self._replace(values=values)


class Columns(NamedTuple):
    """A run of B molecules with N atoms in all.

    Attributes:
        positions: (N, 3) float32 or float64.
        atomic_numbers: (N,) integers.
        ptr: (B + 1,) int64, index of the first atom of each molecule.
        fields: labels and properties.
    """

    positions: Array
    atomic_numbers: Array
    ptr: Array
    fields: list[Column]

    def with_fields(self, fields: list[Column]) -> Columns:
        """Returns the molecules with other labels and properties."""
        return self._replace(fields=fields)


def of_batch(batch: MoleculeBatch, written: Sequence[int] | None = None) -> Columns:
    """Returns the columns of a batch, sharing its memory if it is on the CPU.

    Derived fields are omitted: edges, features, the source index of a mixture, and masks of
    padding.

    Args:
        batch: molecules.
        written: those that will be written, none of them padding; None: all.

    Returns:
        The columns.

    Raises:
        FieldError: some of the molecules are padding.
    """
    rows = slice(None) if written is None else list(written)
    if is_padded(batch) and not bool(batch.molecule_mask[rows].all()):
        raise FieldError("molecules: expected those of a dataset, got padding")
    fields = []
    for name, value in batch._fields.items():
        scope, key, _ = batch._infos[name]
        if name in STRUCTURE or name in DERIVED or (scope == BUILTIN and name in MASKS.values()):
            continue
        values: Any = (
            array_of(value)
            if isinstance(value, Tensor)
            else [array_of(one) if isinstance(one, Tensor) else one for one in value]
        )
        mask = array_of(batch.mask(name)) if name in batch._mask_rows else None
        fields.append(Column(scope, key, values, mask))
    positions, numbers, ptr = map(array_of, (batch.positions, batch.atomic_numbers, batch.ptr))
    return Columns(positions, numbers, ptr, fields)


def array_of(tensor: Tensor) -> Array:
    """Views a tensor as a NumPy array; bfloat16, which NumPy lacks, is widened.

    Args:
        tensor: any tensor with plain values.

    Returns:
        An array of the same shape, on the host.

    Raises:
        FieldError: NumPy has no equivalent type.
    """
    return host_array("type", tensor)


def of_arrays(
    positions: Any,
    atomic_numbers: Any,
    n_atoms: Any,
    labels: Mapping[str, Any],
    properties: Mapping[str, Any],
    atom_properties: Mapping[str, Any],
) -> Columns:
    """Returns the columns of stacked arrays; see ``AtpWriter.write_arrays``."""
    places = _as_array("positions", positions)
    numbers = _as_array("atomic_numbers", atomic_numbers)
    flatten: Callable[[str, Array], Array]
    if n_atoms is not None:
        counts = _integers("n_atoms", _as_array("n_atoms", n_atoms))
        if counts.ndim != 1:
            raise FieldError(f"n_atoms: expected (B,), got {counts.shape}")
        if counts.min(initial=0) < 0:
            raise FieldError(f"n_atoms: expected numbers of at least 0, got {counts.min()}")
        ptr = np.concatenate([[0], np.cumsum(counts)])

        def flatten(name: str, array: Array) -> Array:
            return array
    else:
        if places.ndim != 3:
            raise FieldError(
                f"positions: expected (B, n, 3), or (N, 3) with n_atoms, got {places.shape}"
            )
        n_molecules, n = places.shape[:2]
        ptr = np.arange(n_molecules + 1, dtype=np.int64) * n
        if numbers.shape == (n,):
            numbers = np.broadcast_to(numbers, (n_molecules, n))

        def flatten(name: str, array: Array) -> Array:
            if array.shape[:2] != (n_molecules, n):
                raise FieldError(f"{name}: expected ({n_molecules}, {n}, ...), got {array.shape}")
            return array.reshape(n_molecules * n, *array.shape[2:])

    fields = []
    given = [(BUILTIN, labels), (MOLECULE_PROPERTY, properties), (ATOM_PROPERTY, atom_properties)]
    for scope, values in given:
        for key, value in values.items():
            if scope == BUILTIN and key not in BUILTINS:
                raise TypeError(not_a_label(key))
            if scope == BUILTIN and value is None:
                continue
            column: Any = _as_array(key, value)
            if column.dtype.kind in "UO":
                if column.ndim == 0:
                    what = type(value).__name__
                    raise FieldError(f"{key}: expected one value for each molecule, got a {what}")
                column = list(value)
            elif scope == ATOM_PROPERTY or (scope == BUILTIN and BUILTINS[key].level == "atom"):
                column = flatten(key, column)
            fields.append(Column(scope, key, column))
    if labels.get("cell") is not None and labels.get("pbc") is None:
        fields += _periodicity(_as_array("cell", labels["cell"]))
    return Columns(flatten("positions", places), flatten("atomic_numbers", numbers), ptr, fields)


def have_volume(cells: Array) -> Array:
    """Returns (B,) bool for cells (B, 3, 3): True if their vectors are finite and independent."""
    is_finite: Array = np.asarray(np.isfinite(cells).all(axis=(1, 2)))
    volumes: Array = np.linalg.det(np.where(is_finite[:, None, None], cells, 0.0))
    is_full: Array = volumes != 0
    return is_full


def _periodicity(cells: Array) -> list[Column]:
    """Returns the ``pbc`` of molecules that have a cell and no word about it."""
    if cells.shape[1:] != (3, 3) or cells.dtype.kind not in "biuf":
        return []  # refused natively, with a hint
    there: Array = np.asarray(cells.any(axis=(1, 2)))
    wrong = np.flatnonzero(there & ~have_volume(cells))
    if len(wrong):
        expected = "finite, independent vectors, or pbc, which says in which directions it repeats"
        raise FieldError(f"cell: expected {expected}, got others (molecule {wrong[0]})")
    if not there.any():
        return []
    text = "cell without pbc: written as periodic in all directions; pbc= says otherwise"
    warnings.warn(text, stacklevel=4)
    return [Column(BUILTIN, "pbc", np.repeat(there[:, None], 3, axis=1), there)]


def _as_array(name: str, value: Any) -> Array:
    if isinstance(value, Tensor):
        return array_of(value)
    return as_array(name, value)


# A run of molecules in the form that the native core takes.
StoredColumn = tuple[int, str, Any, "Array | None"]
StoredRun = tuple[Array, Array, Array, list[StoredColumn], "Array | None"]


def stored(columns: Columns, rows: Iterable[int] | None = None) -> StoredRun:
    """Converts columns to types of the format.

    Types that the format lacks are widened without loss: float16 to float32, small integers and
    booleans to int32, scalars of molecules to float64 and int64.

    Args:
        columns: a run of molecules.
        rows: indices of the molecules to be written; None: all.

    Returns:
        The run in the form that the native core takes.

    Raises:
        FieldError: a type has no counterpart in the format, a mask has the wrong length, or a key
            or scope is invalid in the format.
        TypeError: a key is not a ``str``.
    """
    for column in columns.fields:
        _check_column(column, len(columns.ptr) - 1)
        _check_axes(column, len(columns.positions), len(columns.ptr) - 1)
    return (
        _plain("positions", as_array("positions", columns.positions), floating=True),
        np.ascontiguousarray(
            _integers("atomic_numbers", as_array("atomic_numbers", columns.atomic_numbers))
        ),
        np.ascontiguousarray(columns.ptr, dtype=np.int64),
        [_stored_column(column) for column in columns.fields],
        None if rows is None else np.fromiter(rows, np.int64),
    )


def _check_column(column: Column, n_molecules: int) -> None:
    if not isinstance(column.key, str):
        raise TypeError(f"key: expected str, got {type(column.key).__name__}")
    where = f"(field {column.key!r})"
    if column.scope not in (BUILTIN, ATOM_PROPERTY, MOLECULE_PROPERTY):
        raise FieldError(f"scope: expected 0, 1 or 2, got {column.scope} {where}")
    try:
        column.key.encode()
    except UnicodeEncodeError:
        raise FieldError(f"key: holds characters that UTF-8 has no bytes for {where}") from None
    if column.mask is not None and np.shape(column.mask) != (n_molecules,):
        shape = np.shape(column.mask)
        raise FieldError(f"mask: expected ({n_molecules},), got {shape} {where}")


def _check_axes(column: Column, n_atoms: int, n_molecules: int) -> None:
    """Raises, with a hint, if a column has a surplus axis; other shapes are checked natively."""
    is_label = column.scope == BUILTIN and column.key in BUILTINS
    if not is_label or not isinstance(column.values, np.ndarray):
        return
    builtin = BUILTINS[column.key]
    expected = (n_atoms if builtin.level == "atom" else n_molecules, *builtin.shape)
    got = column.values.shape
    if hint := squeeze_hint(expected, got):
        where = f"(molecule 0, field {column.key!r})"
        raise FieldError(f"shape: expected {expected}, got {got}{hint} {where}")


def _stored_column(column: Column) -> StoredColumn:
    values: Any
    if isinstance(column.values, np.ndarray):
        check_unmasked(column.key, column.values)
        scalars = column.scope == MOLECULE_PROPERTY and column.values.ndim == 1
        values = _field(column, column.values, scalars)
    else:
        values = [
            value if value is None or isinstance(value, str) else _stored_value(column, value)
            for value in column.values
        ]
    mask = None if column.mask is None else converted("mask", as_array("mask", column.mask), bool)
    return column.scope, column.key, values, mask


def _stored_value(column: Column, value: Any) -> Array:
    array = _as_array(column.key, value)
    return _field(column, array, scalars=column.scope == MOLECULE_PROPERTY and array.ndim == 0)


def _field(column: Column, array: Array, scalars: bool) -> Array:
    if column.scope == BUILTIN:
        if column.key == "pbc":
            if array.dtype.kind not in "biu" and array.size:
                raise FieldError(f"type: expected booleans, got {array.dtype} (field 'pbc')")
            return converted("pbc", array, bool)
        return _plain(column.key, array, floating=True)
    array = _plain(column.key, array)
    if scalars:
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
    return array


_STORED: dict[str, type[np.generic]] = {
    "b1": np.int32,
    "i1": np.int32,
    "u1": np.int32,
    "i2": np.int32,
    "u2": np.int32,
    "u4": np.int64,
    "f2": np.float32,
    "i4": np.int32,
    "i8": np.int64,
    "f4": np.float32,
    "f8": np.float64,
}


def _plain(name: str, array: Array, floating: bool = False) -> Array:
    """Converts an array to a contiguous one in native byte order, of a type of the format."""
    kind = array.dtype.kind + str(array.dtype.itemsize)
    if floating and array.dtype.kind in "biu":
        return converted(name, array, np.float64)
    if kind == "u8":
        return np.ascontiguousarray(_integers(name, array))
    wanted = _STORED.get(kind)
    if wanted is None:
        raise FieldError(f"type: the format has none for {array.dtype} (field {name!r})")
    # Not ascontiguousarray alone: it turns a scalar into an array of one element.
    return np.ascontiguousarray(array, dtype=wanted).reshape(array.shape)


def _integers(name: str, array: Array) -> Array:
    if array.dtype.kind not in "iu" and array.size:
        raise FieldError(f"type: expected integers, got {array.dtype} (field {name!r})")
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise FieldError(f"type: {array.max()} does not fit in int64 (field {name!r})")
    return array.astype(np.int64, copy=False)
