"""Warnings about names of fields that may be labels, and about the order of stresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.formats.records import label_rows

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


def missing_label_warnings(fields: Iterable[str], skipped: Iterable[tuple[str, str]]) -> list[str]:
    """Returns a warning for each label that a source lacks, where other names suggest it.

    Args:
        fields: fields of the source, properties with their scope.
        skipped: (what, why) of values that were dropped.

    Returns:
        The warnings; none if there are no labels at all, which is a warning of its own.
    """
    fields = [*fields]
    if not any(label in fields for label in _LABELS):
        return []
    names = [(field, *field.partition("/")[::2]) for field in fields if "/" in field]
    names += [(w, "", w.partition(" ")[2].strip("'")) for w, _ in skipped if _ARRAY.match(w)]
    lines = []
    for label, pattern, scope in _SIMILAR:
        if label in fields:
            continue
        found = [name for _, own, name in names if own in (scope, "") and pattern.search(name)]
        if found:
            listed = ", ".join(map(repr, found))
            key = next((name for name in found if not _PER_ATOM.search(name)), None)
            cure = (
                f": key_map={{{key!r}: {label!r}}} (--key {key}={label}) reads it"
                if key is not None
                else ""
            )
            lines.append(f"{label}: none was found, but there is {listed}{cure}")
    return lines


def no_labels_warning(
    fields: Iterable[str], skipped: Iterable[tuple[str, str]], *, is_arrays: bool
) -> str | None:
    """Returns a warning that a source has no labels, or no energy, with what it has instead.

    Args:
        fields: fields of the source, properties with their scope.
        skipped: (what, why) of values that were dropped.
        is_arrays: True for NPZ and HDF5, where labels may have any name; in other sources,
            molecules without any fields are normal.

    Returns:
        The warning; None if there are labels, or nothing at all.
    """
    fields = [*fields]
    is_without_energy = "forces" in fields and "energy" not in fields
    if any(label in fields for label in _LABELS) and not is_without_energy:
        return None
    there = [field for field in fields if field not in ("pbc", "cell", "name")]
    there += [what for what, _ in skipped if what.startswith(("array ", "column ", "info "))]
    if is_without_energy:
        others = ", ".join(field for field in there if field not in _LABELS)
        found = f": map it by key_map (--key) if it is one of {others}" if others else ""
        return f"forces were taken, but no energy{found}"
    if not there and not is_arrays:
        return None
    found = f"found {', '.join(there)}" if there else "nothing else was found"
    return f"no energy, forces or stress was taken; {found}: name labels by key_map (--key)"


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
    """Collects the names of the fields of a source.

    Args:
        fields: receives the names as keys, in the order in which they occur.
    """

    def __init__(self, fields: dict[str, None]) -> None:
        self._fields = fields

    def begin_source(self, run: Run) -> None:
        """Forgets the fields of other sources."""
        self._fields.clear()

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Adds the fields of a block."""
        if run.is_inside:
            self._fields.update((label_of(column), None) for column in columns.fields)
        return columns


class CheckNames(ListNames):
    """Warns of labels that a source lacks, where its names suggest that it has them.

    Args:
        fields: names of fields, to which other stages may add.
    """

    def end_source(self, run: Run) -> None:
        """Warns of the source."""
        report, source = run.report, run.source
        if not run.n_inside:
            return
        warnings = missing_label_warnings(self._fields, report.skipped)
        none = no_labels_warning(self._fields, report.skipped, is_arrays=source.is_arrays)
        for warning in (*warnings, none):
            if warning is not None:
                report.warn(f"{source.path}: {warning}")
