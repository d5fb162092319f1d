"""Checks of molecules that apply to all source and target formats; labels that are all NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns, have_volume
from atompack_torch.conversion.schema_unification import are_strings
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, BUILTINS
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import is_per_atom, label_rows, present, select

_MAX_ATOMIC_NUMBER = 255


class CheckLabels(Stage):
    """Refuses molecules whose labels do not have the shapes required by the format."""

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Returns the block without those molecules."""
        return checked(columns, run.source.path, run.first, run.block_report)


class CheckCells(Stage):
    """Marks molecules with a cell as periodic where they have no ``pbc``, unless it means open.

    It refuses those whose cell is unusable; a run that keeps no molecule is an error if some were
    refused.
    """

    def begin(self, run: Run) -> None:
        """Counts from 0."""
        self._n_kept = 0

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Returns the block without molecules that are refused."""
        if not run.source.keeps_open:
            columns = with_periodicity(columns, run.source.path, run.first, run.block_report)
        self._n_kept += len(columns.ptr) - 1
        return columns

    def finish(self, run: Run) -> None:
        """Checks that not all molecules were refused."""
        if not self._n_kept and not run.is_part:
            run.report.check_not_all_refused()


class MaskNan(Stage):
    """Marks labels as missing in molecules where all their values are NaN, and counts them.

    Labels with only some NaN values are counted; they and custom properties stay.
    """

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Masks the labels of a block, which have their standard shapes."""
        report = run.block_report
        fields = [_without_nan(column, columns.ptr, report) for column in columns.fields]
        if all(new is old for new, old in zip(fields, columns.fields, strict=True)):
            return columns
        return columns.with_fields([column for column in fields if column is not None])


def checked(columns: Columns, source: str, first: int, report: Report) -> Columns:
    """Selects the molecules of a block whose labels have the shapes required by the format.

    Args:
        columns: a block.
        source: path of the source, for messages.
        first: index of its first molecule in the source.
        report: handles the others (raises, or counts them).

    Returns:
        The block without the others.

    Raises:
        FieldError: a label has a different shape or type, or an atomic number is out of range.
    """
    faults: dict[int, str] = {}
    _find_wrong_numbers(columns, faults)
    for column in columns.fields:
        if column.scope == BUILTIN:
            _find_wrong_values(column, columns.ptr, faults)
    if not faults:
        return columns
    keep = np.ones(len(columns.ptr) - 1, dtype=bool)
    for i, fault in sorted(faults.items()):
        report.refuse(FieldError(f"{source}: {fault} (molecule {first + i})"))
        keep[i] = False
    return select(columns, keep)


def with_periodicity(columns: Columns, source: str, first: int, report: Report) -> Columns:
    """Marks molecules as periodic that have a cell of full rank and no ``pbc``, as ASE does.

    Args:
        columns: a block that ``checked`` has accepted.
        source: path of the source, for messages.
        first: index of its first molecule in the source.
        report: receives a note; handles molecules whose cell is unusable (raises, or counts them).

    Returns:
        The block without those.

    Raises:
        FieldError: a cell has NaN, or without ``pbc`` fewer than three independent vectors.
    """
    cells, has_cell = label_rows(columns, "cell")
    pbc, has_pbc = label_rows(columns, "pbc")
    has_cell &= cells.any(axis=(1, 2))  # one of zeros means none
    if (pbc.any(axis=1) & ~has_cell).any():
        report.warn("pbc: true for molecules without a cell, which have no periodic neighbors")
    is_finite: Array = np.asarray(np.isfinite(cells).all(axis=(1, 2)))
    bare = has_cell & ~has_pbc
    wrong = has_cell & (~is_finite | (bare & ~have_volume(cells)))
    for i in np.flatnonzero(wrong).tolist():
        fault = "finite numbers, got others"
        if is_finite[i]:
            fault = "three independent vectors where there is no pbc, got others"
        report.refuse(FieldError(f"{source}: cell: expected {fault} (molecule {first + i})"))
    if bare.any():
        report.note("pbc: T T T where it was absent next to a cell")
        made = Column(BUILTIN, "pbc", pbc | bare[:, None], has_pbc | bare)
        fields = [column for column in columns.fields if column[:2] != made[:2]]
        columns = columns.with_fields([*fields, made])
    return select(columns, ~wrong) if wrong.any() else columns


def _find_wrong_numbers(columns: Columns, faults: dict[int, str]) -> None:
    numbers = columns.atomic_numbers
    wrong = np.flatnonzero((numbers < 0) | (numbers > _MAX_ATOMIC_NUMBER))
    for atom in wrong:
        i = int(np.searchsorted(columns.ptr, atom, side="right")) - 1
        faults.setdefault(
            i, f"atomic_numbers: expected 0 to {_MAX_ATOMIC_NUMBER}, got {numbers[atom]}"
        )


def _find_wrong_values(column: Column, ptr: Array, faults: dict[int, str]) -> None:
    molecules = np.flatnonzero(present(column, len(ptr) - 1)).tolist()
    if isinstance(column.values, np.ndarray):
        fault = _fault(column.key, column.values.dtype, column.values.shape[1:], None)
        if fault is not None:
            faults.update((i, fault) for i in molecules if i not in faults)
        return
    if BUILTINS[column.key].dtype == "string" and are_strings(column):
        return
    for i in molecules:
        value = column.values[i]
        rows = int(ptr[i + 1] - ptr[i]) if is_per_atom(column) else None
        if value is None or isinstance(value, str):
            expected = BUILTINS[column.key].dtype
            is_right = expected == ("none" if value is None else "string")
            fault = None if is_right else f"{column.key}: expected {expected}, got {value!r:.40}"
        else:
            fault = _fault(column.key, value.dtype, value.shape, rows)
        if fault is not None:
            faults.setdefault(i, fault)


def _fault(key: str, dtype: Any, shape: tuple[int, ...], rows: int | None) -> str | None:
    builtin = BUILTINS[key]
    expected = builtin.shape if rows is None else (rows, *builtin.shape)
    if builtin.dtype == "string":
        return f"{key}: expected string, got {dtype}"
    if shape != expected or dtype.kind not in "biuf":
        return f"{key}: expected {expected} numbers, got {shape} {dtype}"
    return None


def _without_nan(column: Column, ptr: Array, report: Report) -> Column | None:
    if column.scope != BUILTIN:
        return column
    counts = _nan_counts(column, ptr)
    if counts is None:
        return column
    n_nan, n_values = counts
    mask = present(column, len(ptr) - 1)
    partly = mask & (n_nan > 0) & (n_nan < n_values)
    if partly.any():
        report.partly_nan[column.key] += int(partly.sum())
    whole = mask & (n_nan > 0) & (n_nan == n_values)
    if not whole.any():
        return column
    report.nan_as_missing[column.key] += int(whole.sum())
    kept = mask & ~whole
    return column._replace(mask=kept) if kept.any() else None


def _nan_counts(column: Column, ptr: Array) -> tuple[Array, Array] | None:
    """Counts NaN values (B,) and all values (B,) per molecule; None if nothing is NaN."""
    values, n = column.values, len(ptr) - 1
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f" or not np.isnan(values).any():
            return None
        rows = np.isnan(values).reshape(len(values), -1)
        width = rows.shape[1]
        if not is_per_atom(column):
            return rows.sum(axis=1), np.full(n, width)
        sums = np.concatenate([[0], np.cumsum(rows.sum(axis=1))])
        return sums[ptr[1:]] - sums[ptr[:-1]], np.diff(ptr) * width
    if {*map(type, values)} <= {str, type(None)}:
        return None
    arrays = [
        value if isinstance(value, np.ndarray) and value.dtype.kind == "f" else np.zeros(0)
        for value in values
    ]
    n_nan = np.array([np.isnan(array).sum() for array in arrays])
    return (n_nan, np.array([array.size for array in arrays])) if n_nan.any() else None
