"""Unification of types for an ``.atp`` file, where they must agree between all molecules.

In other formats a property may be an integer in one molecule and a float in another, or vary in
length. A ``SchemaUnifier`` learns the types of all fields; values that can share a type without
loss are widened to it, arrays of various lengths that have a row for each atom become properties of
atoms, the rest is omitted and reported.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import compress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from atompack_torch._native import has_own_shape, stored_dtype
from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.exact_values import converted
from atompack_torch.conversion.keys import label_of, stored_field, with_labels
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    STRUCTURE,
    FieldId,
    FieldSpec,
)
from atompack_torch.formats.atp.dataset import AtpDataset
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import is_per_atom, present, stack

_MAX_KEY_BYTES = 255


class SchemaUnifier(Stage):
    """Types of the fields of a file, learned block by block: a stage that gives them to values.

    If a type that was written turns out too narrow, the run learns the types of all other blocks;
    the next run knows all of them.

    Attributes:
        is_too_narrow: True if a type was too narrow in this run.
    """

    def __init__(self) -> None:
        self.is_too_narrow = False
        self._kinds: dict[tuple[int, str], Kind] = {}
        self._positions: np.dtype[Any] | None = None
        self._appended_to: str | None = None
        # Keys of arrays of molecules: their values, and those with a row for each atom.
        self._n_arrays: Counter[str] = Counter()
        self._n_with_rows: Counter[str] = Counter()
        self._of_atoms: set[str] = set()

    @classmethod
    def of_file(cls, path: str | os.PathLike[str]) -> SchemaUnifier:
        """Returns the types of a file to append to; these cannot be widened."""
        fit = cls()
        if not Path(path).exists():
            return fit
        with AtpDataset(path) as dataset:
            schema = dataset.schema
            if len(dataset):
                fit._positions = _dtype(schema["positions"].dtype)
            specs = [spec for name, spec in schema.items() if name not in STRUCTURE]
            for field, spec in zip(dataset.declared_fields(), specs, strict=True):
                fit._kinds[stored_field(field)] = _kind_of_spec(spec)
        fit._of_atoms = {
            key
            for scope, key in fit._kinds
            if scope == ATOM_PROPERTY and (MOLECULE_PROPERTY, key) not in fit._kinds
        }
        fit._appended_to = str(path)
        return fit

    def begin(self, run: Run) -> None:
        """Starts with the types learned so far."""
        self.is_too_narrow = False

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Learns the types of a block, and converts one of the part to those learned so far."""
        if len(columns.ptr) == 1:
            return columns
        self.is_too_narrow |= self.learn(columns)
        if self.is_too_narrow or not run.is_inside:
            return columns
        return self.fit(columns, run.report)

    def learn(self, columns: Columns) -> bool:
        """Learns the types of a block.

        Args:
            columns: the block.

        Returns:
            True if a previously known type changed.

        Raises:
            FieldError: a type of the file being appended to would have to change.
        """
        before = dict(self._kinds)
        positions = stored(columns.positions.dtype, is_scalar=False)
        old, self._positions = self._positions, widest(self._positions, positions)
        for column in columns.fields:
            if _refusal(column) is not None:
                continue
            for part in self._parts_of(column, columns.ptr)[:1]:
                self._learn(part, columns.ptr)
        changed = [field for field, kind in before.items() if self._kinds.get(field) != kind]
        if self._appended_to is not None and changed:
            scope, key = changed[0]
            clash = f"expected {before[scope, key]}, got {self._kinds[scope, key]}"
            raise FieldError(f"{self._appended_to}: type: {clash} (field {key!r})")
        if self._appended_to is not None and old not in (None, self._positions):
            clash = f"expected {old}, got {self._positions}"
            raise FieldError(f"{self._appended_to}: type: {clash} (field 'positions')")
        return bool(changed) or (old is not None and old != self._positions)

    def _learn(self, column: Column, ptr: Array) -> None:
        field, key = stored_field(column), column.key
        if column.scope == MOLECULE_PROPERTY and (lengths := _lengths(column)) is not None:
            there = present(column, len(ptr) - 1)
            self._n_arrays[key] += int(there.sum())
            self._n_with_rows[key] += int((there & (lengths == np.diff(ptr))).sum())
        for kind in kinds(column):
            if isinstance(kind, str):
                continue
            known = self._kinds.get(field)
            if known is None:
                self._kinds[field] = kind
                continue
            both = joined(known, kind, column)
            are_numbers = known.form == kind.form == "number"
            clash = are_numbers and both.shape not in (None, kind.shape)
            if clash and column.scope == MOLECULE_PROPERTY and self._is_of_atoms(key):
                del self._kinds[field]
                self._of_atoms.add(key)
                self._learn(self._parts_of(column, ptr)[0], ptr)
                return
            self._kinds[field] = both

    def _is_of_atoms(self, key: str) -> bool:
        """True if most arrays of a key have a row for each atom, which explains their lengths."""
        is_free = (ATOM_PROPERTY, key) not in self._kinds and self._appended_to is None
        return is_free and 2 * self._n_with_rows[key] > self._n_arrays[key]

    def _parts_of(self, column: Column, ptr: Array) -> list[Column]:
        """Returns a column, or its values with rows of atoms as a property of atoms, and others."""
        scope, key = column[:2]
        is_such = scope == MOLECULE_PROPERTY and key in self._of_atoms
        lengths = _lengths(column) if is_such else None
        if lengths is None:
            return [column]
        there = present(column, len(ptr) - 1)
        has_rows = there & (lengths == np.diff(ptr))
        return [
            Column(ATOM_PROPERTY, key, [*column.values], has_rows),
            column._replace(mask=there & ~has_rows),
        ]

    def fit(self, columns: Columns, report: Report) -> Columns:
        """Converts a block to the types learned so far; reports values that do not fit."""
        parts = [
            part for column in columns.fields for part in self._placed(column, columns, report)
        ]
        fields = [self._fitted(part, columns.ptr, report) for part in parts]
        numbers = converted("atomic_numbers", columns.atomic_numbers, np.uint8)
        positions = columns.positions
        if positions.dtype != self._positions:
            report.note(f"positions: {positions.dtype} stored as {self._positions}")
            positions = converted("positions", positions, self._positions, rounds=True)
        fitted = with_labels(Columns(positions, numbers, columns.ptr, [f for f in fields if f]))
        return fitted._replace(fields=_without_doubles(fitted, report))

    def _placed(self, column: Column, columns: Columns, report: Report) -> list[Column]:
        """Returns the parts of a column, and reports rows that became those of atoms."""
        parts = self._parts_of(column, columns.ptr)
        moved = parts[0]
        if moved is column or moved.mask is None or not moved.mask.any():
            return parts
        if any(other[:2] == moved[:2] for other in columns.fields):
            why = "the atoms have a property of this key"
            report.skip(label_of(column), why, int(moved.mask.sum()))
            return parts[1:]
        report.note(f"{label_of(column)}: has rows of atoms: {label_of(moved)}")
        return parts

    def _fitted(self, column: Column, ptr: Array, report: Report) -> Column | None:
        n = len(ptr) - 1
        mask = present(column, n).copy()
        if not mask.any():
            return None
        why = _refusal(column)
        kind = None if why else self._kinds.get(stored_field(column))
        if kind is None:
            why = why or f"the format has no place for {kinds(column)[0]}"
            report.skip(label_of(column), why, int(mask.sum()))
            return None
        values = _Fitting(column, kind, ptr, mask, report).values()
        return Column(column.scope, column.key, values, mask) if mask.any() else None


def _without_doubles(columns: Columns, report: Report) -> list[Column]:
    """Drops values of molecules that have another one which is stored under the same key."""
    n, kept = len(columns.ptr) - 1, []
    there = {column[:2]: present(column, n) for column in columns.fields}
    for field in columns.fields:
        mask = there[field[:2]]
        if stored_field(field).scope == MOLECULE_PROPERTY:
            others = {ATOM_PROPERTY: "the atoms have a property of this key"}
            is_shared = stored_field(FieldId(BUILTIN, field.key)) == stored_field(field)
            if is_shared and field.scope != BUILTIN:
                others[BUILTIN] = "the molecule has the label of this key"
            for scope, why in others.items():
                both = mask & there.get((scope, field.key), False)
                if both.any():
                    report.skip(label_of(field), why, int(both.sum()))
                    mask = mask & ~both
        if mask.any():
            kept.append(field._replace(mask=mask))
    return kept


class _Fitting:
    """Conversion of one column to a kind; molecules whose values do not fit leave ``mask``."""

    def __init__(self, column: Column, kind: Kind, ptr: Array, mask: Array, report: Report) -> None:
        self.column, self.kind, self.ptr, self.mask, self.report = column, kind, ptr, mask, report
        self.per_atom = is_per_atom(column)

    def values(self) -> Any:
        """Returns the values of the column in the type of the kind; None where they do not fit."""
        values = self.column.values
        if isinstance(values, np.ndarray):
            own = kind_of_array(self.column, values.dtype, values.shape[1:])
            rows = self.ptr if self.per_atom else np.arange(len(self.ptr))
            is_held = self._holds(own, np.flatnonzero(self.mask))
            return self._cast(values, rows) if is_held else values
        if self.kind.form == "string" and are_strings(self.column._replace(mask=self.mask)):
            return [v if has else None for v, has in zip(values, self.mask.tolist(), strict=True)]
        made: list[Any] = [None] * len(values)
        for i in np.flatnonzero(self.mask).tolist():
            value: Any = values[i]
            if not self._holds(kind_of_entry(self.column, value), np.array([i])):
                continue
            if self.kind.form == "number":
                whole = value if self.per_atom else value[None]
                cast = self._cast(whole, np.array([0, len(whole)]), i)
                value = cast if self.per_atom else cast[0, ...]
            made[i] = value if self.mask[i] else None
        fitted = self.column._replace(values=made, mask=self.mask)
        return stack(fitted, np.diff(self.ptr)).values

    def _holds(self, own: Kind | str, molecules: Array) -> bool:
        """True if values of a kind can be stored; otherwise those of the molecules are omitted."""
        if holds(self.kind, own, self.column):
            return True
        self._leave_out(own, molecules)
        return False

    def _cast(self, values: Array, rows: Array, first: int = 0) -> Array:
        """Casts values to the type of the kind; rows[i] to rows[i + 1] belong to one molecule."""
        if values.dtype == self.kind.dtype:
            return values
        self._note_cast(values.dtype)
        with np.errstate(invalid="ignore"):
            cast = values.astype(self.kind.dtype)
            back = cast.astype(values.dtype)
        if values.dtype.kind in "iu":
            in_range = (
                np.abs(cast) < 2.0**63 if cast.dtype.kind == "f" else (cast >= 0) | (values < 0)
            )
            exact = in_range & (back == values)
            if exact.all():
                return cast
            lossy = [
                first + i
                for i in range(len(rows) - 1)
                if self.mask[first + i] and not exact[rows[i] : rows[i + 1]].all()
            ]
            self._leave_out(f"an integer that {cast.dtype} cannot hold", np.array(lossy, int))
        return cast

    def _note_cast(self, dtype: np.dtype[Any]) -> None:
        if dtype.kind == "b":
            text = f"booleans stored as 0 and 1 ({self.kind.dtype})"
        elif self.kind.shape == () and dtype.kind == np.dtype(self.kind.dtype).kind:
            return  # the format has one width for scalars
        else:
            text = f"{dtype} stored as {self.kind.dtype}"
        self.report.note(f"{label_of(self.column)}: {text}")

    def _leave_out(self, got: object, molecules: Array) -> None:
        if len(molecules):
            why = f"expected {self.kind} as in other molecules, got {got}"
            self.report.skip(label_of(self.column), why, len(molecules))
            self.mask[molecules] = False


def _lengths(column: Column) -> Array | None:
    """Returns the lengths (B,) of arrays of molecules, -1 for other values; None without any."""
    values = column.values
    if isinstance(values, np.ndarray):
        return np.full(len(values), values.shape[1]) if values.ndim > 1 else None
    found = [len(value) if isinstance(value, np.ndarray) and value.ndim else -1 for value in values]
    return np.array(found) if max(found, default=-1) >= 0 else None


def _refusal(column: Column) -> str | None:
    """Reason why the format cannot represent a field at all; None if it can."""
    if column.scope == BUILTIN:
        return None
    try:
        n_bytes = len(column.key.encode())
    except UnicodeEncodeError:
        return "the key is no valid text"
    if n_bytes > _MAX_KEY_BYTES:
        return f"the key is longer than {_MAX_KEY_BYTES} bytes"
    if column.key == "stress":
        return "the format keeps this name for the label stress"
    return None


def _kind_of_spec(spec: FieldSpec) -> Kind:
    if isinstance(spec.dtype, str):
        return Kind(spec.dtype)
    return Kind("number", _dtype(spec.dtype), spec.shape)


def _dtype(dtype: Any) -> np.dtype[Any]:
    return np.dtype(str(dtype).removeprefix("torch."))


class Kind(NamedTuple):
    """Type of a field's values.

    Attributes:
        form: None, strings or numbers.
        dtype: dtype of numbers: int32, int64, float32 or float64; bool for ``pbc``.
        shape: shape of a molecule's value or of an atom's row; None: tensors of various shapes.
    """

    form: Literal["none", "string", "number"]
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = ()

    def __str__(self) -> str:
        if self.form != "number":
            return "None" if self.form == "none" else "a string"
        if self.shape == ():
            return str(self.dtype)
        return f"{self.dtype} tensors" if self.shape is None else f"{self.dtype} {self.shape}"


def kinds(column: Column) -> list[Kind | str]:
    """Returns the kinds of all values of a column, each once, or descriptions of those without."""
    values, mask = column.values, column.mask
    if isinstance(values, np.ndarray):
        is_there = mask is None or mask.any()
        return [kind_of_array(column, values.dtype, values.shape[1:])] if is_there else []
    if are_strings(column):
        return [Kind("string")]
    there = values if mask is None else compress(values, mask)
    return [*dict.fromkeys(kind_of_entry(column, value) for value in there)]


def are_strings(column: Column) -> bool:
    """True if a column of molecules has values, all of them strings that UTF-8 can represent."""
    values = column.values
    if isinstance(values, np.ndarray) or is_per_atom(column):
        return False
    present = [*values] if column.mask is None else [*compress(values, column.mask)]
    if {*map(type, present)} != {str}:
        return False
    try:
        "".join(map(str, present)).encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_of_entry(column: Column, value: Array | str | None) -> Kind | str:
    """Returns the kind of one molecule's value, or a description if it has none."""
    if value is None:
        return "None for atoms" if is_per_atom(column) else Kind("none")
    if isinstance(value, str):
        if is_per_atom(column):
            return "a string for atoms"
        try:
            value.encode()
        except UnicodeEncodeError:
            return "no valid text"
        return Kind("string")
    return kind_of_array(
        column, value.dtype, value.shape[1:] if is_per_atom(column) else value.shape
    )


def kind_of_array(column: Column, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Kind | str:
    """Returns the kind for a dtype and row shape, or a description if no kind fits."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        return f"{dtype} values" + (" for each atom" if is_per_atom(column) else "")
    if column.scope == BUILTIN and BUILTINS[column.key].dtype == "bool":
        return Kind("number", np.dtype(bool), shape)
    known = stored(dtype, is_scalar=shape == () and not is_per_atom(column))
    if column.scope == BUILTIN and known.kind == "i":
        known = np.dtype(np.float64)
    return Kind("number", known, shape)


def stored(dtype: np.dtype[Any], *, is_scalar: bool) -> np.dtype[Any]:
    """Returns the narrowest type of the format; lossless except for uint64 and long doubles."""
    name = "float64" if dtype.kind == "f" and dtype.itemsize > 8 else dtype.name
    return np.dtype(stored_dtype(name, is_scalar))


def widest(a: np.dtype[Any] | None, b: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type that holds both (int64 beyond 2**53 may not fit into float64)."""
    if a is None or a == b:
        return b
    if a.kind != b.kind:
        return np.dtype(np.float64)
    return a if a.itemsize > b.itemsize else b


def joined(known: Kind, new: Kind, column: Column) -> Kind:
    """Returns the kind that holds both; ``known`` if missing."""
    if known.form == "none":
        return new
    if known.form != new.form or known.dtype is None or new.dtype is None:
        return known
    dtype = widest(known.dtype, new.dtype)
    if known.shape == new.shape:
        return Kind("number", dtype, known.shape)
    shapes = [shape for shape in (known.shape, new.shape) if shape is not None]
    if all(_is_tensor(shape, dtype, column) for shape in shapes):
        return Kind("number", dtype, None)
    return known


def holds(kind: Kind, own: Kind | str, column: Column) -> bool:
    """True if values of one kind can be stored as another."""
    if isinstance(own, str) or own.form != kind.form:
        return False
    if kind.shape is None and own.shape is not None and own.dtype is not None:
        dtype = widest(kind.dtype, own.dtype)
        return dtype == kind.dtype and _is_tensor(own.shape, dtype, column)
    return own.shape == kind.shape and joined(kind, own, column) == kind


def _is_tensor(shape: tuple[int, ...], dtype: np.dtype[Any], column: Column) -> bool:
    """True for tensors, whose shape may vary between molecules, unlike arrays and rows of three."""
    return has_own_shape(shape, "atom" if is_per_atom(column) else "molecule", dtype.name)
