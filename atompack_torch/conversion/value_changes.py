"""The stage that changes values: on request, and from units that a source states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np

from atompack_torch.batch.columns import Column, Columns
from atompack_torch.conversion.changes import Changes
from atompack_torch.conversion.hints import name_warnings
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.conversion.units import known_unit
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, BUILTINS, MOLECULE_PROPERTY, prefixed_id
from atompack_torch.options import short_list

_UNIT = re.compile(r"(^|_)units?$", re.IGNORECASE)


class ChangeValues(Stage):
    """Makes changes of values, those asked for and those to units that the source states.

    Args:
        changes: the changes that the user asked for.
        keys: name in the source → name here.
    """

    def __init__(self, changes: Changes, keys: Mapping[str, str]) -> None:
        self._changes, self._keys = changes, keys
        self._is_virial = "stress" in keys.values()

    def begin_source(self, run: Run) -> None:
        """Forgets the units of labels in the blocks before."""
        self._units: dict[str, str | None] = {}

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Changes the values of a block."""
        path, report = run.source.path, run.block_report
        changes, stated = self._of_source(run)
        if not stated and (said := _said_units(columns)):
            report.warn(f"{path}: {said}: units are those of the source unless one is given")
        labels = [column.key for column in columns.fields if column.scope == BUILTIN]
        for label in ("positions", *labels):
            unit = changes.unit(label)
            if self._units.setdefault(label, unit) != unit:
                raise FieldError(
                    f"{path}: {label}: expected one unit, got {unit or 'none'} after "
                    f"{self._units[label] or 'none'}: keep_units=True keeps the values"
                )
        changed = changes.apply(columns, report, is_virial=self._is_virial)
        _count(columns, changed, report.changed[changes])
        return changed

    def end_source(self, run: Run) -> None:
        """Names the units that the source states and that were not converted."""
        path, report = run.source.path, run.report
        changes, stated = self._of_source(run)
        left = dict(report.units)
        for label, (key, unit) in stated.items():
            own = self._changes.unit(label)
            if changes.unit(label) is not None:
                left.pop(key, None)
            if own is not None and own != known_unit(label, unit):
                report.warn(f"{label}: converted from {own}, but {path} states {unit!r}")
            elif own is None and known_unit(label, unit) is None:
                report.warn(
                    f"{label}: {path} states the unit {unit!r}, which is not known: values "
                    "stay as they are"
                )
        if left:
            listed = short_list((f"{key!r} in {unit}" for key, unit in left.items()), len(left))
            report.note(f"{path} states units that were kept: {listed}")

    def finish(self, run: Run) -> None:
        """Describes the changes, and warns of values that may need others."""
        report = run.report
        total: Counter[str] = Counter()
        for made, counts in report.changed.items():
            assert isinstance(made, Changes)
            report.changes += made.describe(counts, self._changes)
            total += counts
            for field in made.source_units(report.labels):
                if field not in report.source_units:
                    report.source_units.append(field)
            is_stated = made != self._changes  # not asked for, so a note is not enough
            for text in made.unit_warnings(report.labels):
                (report.warn if is_stated and "/" not in text else report.note)(text)
        for warning in (
            *name_warnings(report.sources, self._changes),
            *(self._changes.unused(total) if report.structures_written else ()),
        ):
            report.warn(warning)

    def _of_source(self, run: Run) -> tuple[Changes, dict[str, tuple[str, str]]]:
        """Returns the changes, and label → its field in the source and the unit stated so far."""
        units = run.report.units
        keys = {name: key for key, name in run.source.other_keys(self._keys).items()}
        stated = {}
        for label in ("positions", *BUILTINS):
            scoped = prefixed_id(keys.get(label, label))
            for key in (label, keys.get(label, label) if scoped is None else scoped.key):
                if key in units:
                    stated[label] = key, units[key]
        by_label = {label: unit for label, (_, unit) in stated.items()}
        return self._changes.with_units(by_label), stated


def _said_units(columns: Columns) -> str:
    """Returns what texts of molecules say about units; empty if they say nothing."""
    for column in columns.fields:
        if column.scope == MOLECULE_PROPERTY and _UNIT.search(column.key):
            texts = [value for value in column.values if isinstance(value, str)]
            if texts:
                return f"{column.key!r} says {texts[0]!r}"
    return ""


def _count(before: Columns, after: Columns, counts: Counter[str]) -> None:
    """Counts the molecules that have each label, and those whose label got another type."""
    n = len(after.ptr) - 1
    counts["positions"] += n
    if after.positions.dtype != before.positions.dtype:
        counts["dtype positions"] += n
    old = {column[:2]: column for column in before.fields}
    for column in after.fields:
        if column.scope == BUILTIN:
            count = n if column.mask is None else int(np.sum(column.mask))
            counts[column.key] += count
            if column[:2] in old and _dtypes(column) != _dtypes(old[column[:2]]):
                counts[f"dtype {column.key}"] += count


def _dtypes(column: Column) -> set[str]:
    values = [column.values] if isinstance(column.values, np.ndarray) else column.values
    return {str(value.dtype) for value in values if isinstance(value, np.ndarray)}
