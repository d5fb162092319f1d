"""Values from arrays, such as predictions, added to molecules on their way to the target."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from atompack_torch.batch.columns import Column, Columns, array_of
from atompack_torch.conversion.sources.rows import HeldRows, Rows, npz_rows, opened_npz
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    FieldId,
    check_target,
    prefixed_id,
)
from atompack_torch.formats.records import is_per_atom
from atompack_torch.options import PathLike

Values = PathLike | Mapping[str, object] | Sequence[PathLike]


class Add(Stage):
    """Adds arrays to molecules, as fields of their names.

    Args:
        values: an ``.npz`` file, a list of them, or a dict from names to arrays or tensors.
        replace: replace fields that exist already.

    Raises:
        ValueError: a name occurs twice, or is that of a part of every molecule; or no name is
            given.
        FieldError: an array has a type or shape that a field cannot have.
        CorruptFileError: a file is no ``.npz``.
    """

    needs_count = True

    def __init__(self, values: Values, *, replace: bool) -> None:
        self._values, self._replace = values, replace
        self._rows = _rows_of(values)
        if not self._rows:
            raise ValueError("add: expected at least one array, got none")
        for name, array in self._rows.items():
            check_target(name, name)
            _check_array(name, array)

    def begin(self, run: Run) -> None:
        """Starts with the first row of each array, and notes what each is added to."""
        assert run.n_molecules is not None
        self._n_molecules = run.n_molecules
        self._rows = _rows_of(self._values)
        self._fields = {n: _field(n, array, run.n_molecules) for n, array in self._rows.items()}
        self._structures = self._atoms = 0
        for name, field in self._fields.items():
            unit = "atom" if is_per_atom(field) else "molecule"
            run.report.note(f"{name}: added, one row per {unit}")

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Adds the rows of a block."""
        structures = self._structures + len(columns.ptr) - 1
        atoms = self._atoms + len(columns.positions)
        kept = [column for column in columns.fields if not self._is_replaced(column)]
        for name, field in self._fields.items():
            first, last = self._structures, structures
            if is_per_atom(field):
                first, last = self._atoms, atoms
            if last > self._rows[name].shape[0]:
                self._refuse(name, f"at least {atoms:,}")
            values = self._rows[name].read(first, last)
            texts = values.dtype.kind == "U"
            kept.append(Column(*field, [*map(str, values)] if texts else values))
        self._structures, self._atoms = structures, atoms
        return columns.with_fields(kept)

    def _is_replaced(self, column: Column) -> bool:
        new = [
            name
            for name, field in self._fields.items()
            if field.key == column.key and (field.scope == BUILTIN) == (column.scope == BUILTIN)
        ]
        if new and not self._replace and (column.mask is None or column.mask.any()):
            raise FieldError(
                f"add: {new[0]!r} exists already: choose another name such as '{column.key}_pred', "
                "or ask to replace labels"
            )
        return bool(new)

    def finish(self, run: Run) -> None:
        """Checks that there is no row left."""
        for name, field in self._fields.items():
            done = self._atoms if is_per_atom(field) else self._structures
            if self._rows[name].shape[0] != done:
                self._refuse(name, f"{self._atoms:,}")

    def _refuse(self, name: str, atoms: str) -> None:
        raise FieldError(
            f"add: {name!r}: expected {self._n_molecules:,} rows, one per molecule, or {atoms}, "
            f"one per atom, got {self._rows[name].shape[0]:,}"
        )


def _rows_of(values: Values) -> dict[str, Rows]:
    """Returns the arrays by name."""
    rows: dict[str, Rows] = {}
    if isinstance(values, Mapping):
        for name, value in values.items():
            if not isinstance(name, str):
                raise TypeError(f"add: expected names (str), got {name!r}")
            array = array_of(value) if isinstance(value, torch.Tensor) else np.asarray(value)
            rows[name] = HeldRows(array)
        return rows
    for path in [values] if isinstance(values, (str, os.PathLike)) else values:
        file = os.fspath(path)
        for name, found in npz_rows(file, opened_npz(file)).items():
            if name in rows:
                raise ValueError(f"add: expected each name once, got {name!r} twice")
            rows[name] = found
    return rows


def _check_array(name: str, array: Rows) -> None:
    if array.dtype.kind not in "biufU":
        raise FieldError(f"add: {name!r}: expected numbers or strings, got {array.dtype}")
    if not array.shape:
        raise FieldError(f"add: {name!r}: expected one row per molecule or atom, got one value")
    builtin = BUILTINS.get(name)
    if builtin is not None and array.shape[1:] != builtin.shape:
        expected = ("rows", *builtin.shape)
        raise FieldError(f"add: {name!r}: expected shape {expected}, got {array.shape}")


def _field(name: str, array: Rows, n_structures: int) -> FieldId:
    """Returns the field that an array becomes; its length decides where the name does not."""
    if name in BUILTINS:
        return FieldId(BUILTIN, name)
    scope = MOLECULE_PROPERTY if array.shape[0] == n_structures else ATOM_PROPERTY
    return prefixed_id(name) or FieldId(scope, name)
