"""Stages that check molecules of all formats: their labels, cells, names of fields, and NaN."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns, have_volume
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.schema_unification import are_strings
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, BUILTINS
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import is_per_atom, label_rows, present, select

_MAX_ATOMIC_NUMBER = 255
_LABELS = ("energy", "forces", "stress")
_SHEARS = ([1, 0, 0], [2, 2, 1])  # yz, xz, xy of a matrix
_LEAST_SHEAR = 1e-4  # of the shortest edge
_ENOUGH = 5
_ARRAY = re.compile(r"(array|column|info|key|data) '")
_PER_ATOM = re.compile(r"per_?atom", re.IGNORECASE)
# Label, names of fields that may be it, scope of those fields.
_SIMILAR = (
    ("energy", re.compile(r"energ|^e$|^u0$", re.IGNORECASE), "properties"),
    ("forces", re.compile(r"(^|_)forces?(_|$)|gradient", re.IGNORECASE), "atom_properties"),
    ("stress", re.compile(r"stress|virial", re.IGNORECASE), "properties"),
)


class CheckLabels(Stage):
    """Refuses molecules whose labels do not have the shapes required by the format."""

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Returns the block without those molecules."""
        return checked(columns, run.source.path, run.first, run.block_report)


class CheckCells(Stage):
    """Marks molecules with a cell as periodic where they have no ``pbc``, unless it means open.

    That is what ASE does. The stage refuses molecules whose cell is unusable: one with NaN, or
    without ``pbc`` fewer than three independent vectors. A run that keeps no molecule is an error
    if some were refused.
    """

    def begin(self, run: Run) -> None:
        """Counts from 0."""
        self._n_kept = 0

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Returns the block without molecules that are refused."""
        if not run.source.keeps_open:
            columns = self._with_periodicity(columns, run)
        self._n_kept += len(columns.ptr) - 1
        return columns

    def finish(self, run: Run) -> None:
        """Checks that not all molecules were refused."""
        if not self._n_kept and not run.is_part:
            run.report.check_not_all_refused()

    def _with_periodicity(self, columns: Columns, run: Run) -> Columns:
        report = run.block_report
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
            where = f"(molecule {run.first + i})"
            report.refuse(FieldError(f"{run.source.path}: cell: expected {fault} {where}"))
        if bare.any():
            report.note("pbc: T T T where it was absent next to a cell")
            made = Column(BUILTIN, "pbc", pbc | bare[:, None], has_pbc | bare)
            fields = [column for column in columns.fields if column[:2] != made[:2]]
            columns = columns.with_fields([*fields, made])
        return select(columns, ~wrong) if wrong.any() else columns


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


class CheckOrder(Stage):
    """Warns if stresses of six numbers seem to be in a different order than the one assumed.

    It counts sheared cells by the order that their stresses suggest.

    A right cell that was sheared in one plane has its largest shear stress in that plane. VASP's
    xy, yz, zx are in the positions of Voigt's yz, xz, xy, so no cell can agree with both.
    """

    def begin_source(self, run: Run) -> None:
        """Counts from 0."""
        self._voigt = self._vasp = self._sheared = 0

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Counts the cells of a block, if its stresses were read in Voigt's order."""
        if run.report.is_order_assumed:
            self._count(columns)
        return columns

    def end_source(self, run: Run) -> None:
        """Warns unless the cells confirm the order."""
        if run.report.is_order_assumed and (warning := self._warning()):
            run.report.warn(f"{run.source.path}: {warning}")

    def _count(self, columns: Columns) -> None:
        (cells, has_cell), (stresses, has_stress) = (
            label_rows(columns, key) for key in ("cell", "stress")
        )
        for i in np.flatnonzero(has_cell & has_stress).tolist():
            strain, shear = cells[i], np.abs(stresses[i][_SHEARS])
            scale = np.abs(np.diagonal(strain)).min()
            planes = np.abs(strain + strain.T)[_SHEARS] > _LEAST_SHEAR * scale
            if planes.sum() != 1 or not np.isfinite(shear).all() or not shear.any():
                continue
            plane, largest = int(planes.argmax()), int(shear.argmax())
            self._sheared += 1
            self._voigt += largest == plane
            self._vasp += largest == (plane + 1) % 3

    def _warning(self) -> str | None:
        if self._voigt >= _ENOUGH and not self._vasp:
            return None
        text = (
            "stress: six numbers were read as xx, yy, zz, yz, xz, xy; if they are in VASP's order, "
            "xx, yy, zz, xy, yz, zx, stress_order='vasp' reads them, and 'voigt' ends this warning"
        )
        if self._vasp > self._voigt:
            text += (
                f": the largest shear stress says so in {self._vasp:,} of {self._sheared:,} "
                "molecules whose cell is sheared in one plane"
            )
        return text


class ListNames(Stage):
    """Collects the names of the fields of a source."""

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Adds the fields of a block."""
        if run.is_inside:
            run.names.update((label_of(column), None) for column in columns.fields)
        return columns


class CheckNames(ListNames):
    """Warns of labels that a source lacks, and of names which suggest that it has them."""

    def end_source(self, run: Run) -> None:
        """Warns of the source."""
        if run.n_inside:
            is_arrays = run.source.is_arrays
            for warning in _label_warnings([*run.names], run.report.skipped, is_arrays=is_arrays):
                run.report.warn(f"{run.source.path}: {warning}")


def _label_warnings(
    fields: list[str], skipped: Iterable[tuple[str, str]], *, is_arrays: bool
) -> list[str]:
    """Returns warnings about labels that a source lacks, with what it has instead.

    Args:
        fields: fields of the source, properties with their scope.
        skipped: (what, why) of values that were dropped.
        is_arrays: True for NPZ and HDF5, where labels may have any name; in other sources,
            molecules without any fields are normal.
    """
    lines = []
    has_labels = any(label in fields for label in _LABELS)
    names = [(field, *field.partition("/")[::2]) for field in fields if "/" in field]
    names += [(w, "", w.partition(" ")[2].strip("'")) for w, _ in skipped if _ARRAY.match(w)]
    for label, pattern, scope in _SIMILAR if has_labels else ():
        found = [name for _, own, name in names if own in (scope, "") and pattern.search(name)]
        if label not in fields and found:
            key = next((name for name in found if not _PER_ATOM.search(name)), None)
            cure = f": key_map={{{key!r}: {label!r}}} (--key {key}={label}) reads it"
            listed = ", ".join(map(repr, found)) + (cure if key is not None else "")
            lines.append(f"{label}: none was found, but there is {listed}")
    there = [field for field in fields if field not in ("pbc", "cell", "name")]
    there += [what for what, _ in skipped if what.startswith(("array ", "column ", "info "))]
    if "forces" in fields and "energy" not in fields:
        others = ", ".join(field for field in there if field not in _LABELS)
        found_instead = f": map it by key_map (--key) if it is one of {others}" if others else ""
        lines.append(f"forces were taken, but no energy{found_instead}")
    elif not has_labels and (there or is_arrays):
        what = f"found {', '.join(there)}" if there else "nothing else was found"
        lines.append(
            f"no energy, forces or stress was taken; {what}: name labels by key_map (--key)"
        )
    return lines


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
    numbers = columns.atomic_numbers
    for atom in np.flatnonzero((numbers < 0) | (numbers > _MAX_ATOMIC_NUMBER)).tolist():
        i = int(np.searchsorted(columns.ptr, atom, side="right")) - 1
        expected = f"expected 0 to {_MAX_ATOMIC_NUMBER}"
        faults.setdefault(i, f"atomic_numbers: {expected}, got {numbers[atom]}")
    for column in columns.fields:
        if column.scope == BUILTIN:
            _find_wrong_values(column, columns.ptr, faults)
        elif column.scope == ATOM_PROPERTY:
            _find_wrong_rows(column, columns.ptr, source, faults)
    if not faults:
        return columns
    keep = np.ones(len(columns.ptr) - 1, dtype=bool)
    for i, fault in sorted(faults.items()):
        report.refuse(FieldError(f"{source}: {fault} (molecule {first + i})"))
        keep[i] = False
    return select(columns, keep)


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


def _find_wrong_rows(column: Column, ptr: Array, source: str, faults: dict[int, str]) -> None:
    """Finds molecules whose values of a property of atoms are not one row for each atom."""
    expected = f"{label_of(column)}: expected a row for each of"
    if isinstance(column.values, np.ndarray):
        if len(column.values) != ptr[-1]:
            raise FieldError(f"{source}: {expected} {ptr[-1]} atoms, got {len(column.values)}")
        return
    counts = np.diff(ptr).tolist()
    for i in np.flatnonzero(present(column, len(counts))).tolist():
        value = column.values[i]
        if isinstance(value, np.ndarray) and value.shape[:1] != (counts[i],):
            faults.setdefault(i, f"{expected} {counts[i]} atoms, got shape {value.shape}")


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
