"""Changes of values on request, and of units that a source states; the stage that makes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.conversion.units import factor, has_unit, known_unit
from atompack_torch.conversion.virials import (
    count_stresses,
    take_virial,
    with_own_stress,
    with_stress,
)
from atompack_torch.errors import FieldError, molecules
from atompack_torch.fields import BUILTIN, BUILTINS, MOLECULE_PROPERTY, prefixed_id
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.label_hints import name_warnings
from atompack_torch.options import ChangeOptions, short_list

_OF_DTYPE = ("positions", "forces", "velocities")
_UNIT = re.compile(r"(^|_)units?$", re.IGNORECASE)


@dataclass(frozen=True)
class Changes(ChangeOptions):
    """Changes of values in a conversion. ``convert`` takes each of them as an option, too.

    Attributes:
        stress_sign: ``"flip"`` changes the sign of ``stress``.
        energy_unit: unit of the source's ``energy``, which is converted to eV. One of eV, meV, Ha,
            Hartree, mHa, Ry, kcal/mol, kJ/mol, J.
        length_unit: unit of ``positions`` and ``cell``, which are converted to Å. One of Angstrom,
            Ang, Å, Bohr, nm, m.
        force_unit: unit of ``forces`` as ENERGY/LENGTH; they are converted to eV/Å.
        stress_unit: unit of ``stress`` as ENERGY/LENGTH^3 or GPa, MPa, Pa, kbar, bar; it is
            converted to eV/Å³. A virial is in ``energy_unit``.
        dtype: ``"float32"`` or ``"float64"`` for positions, forces and velocities.
        force_sign: ``"flip"`` changes the sign of ``forces``: a gradient dE/dr becomes -dE/dr.
        stress_from: ``"virial"``: what ``key_map`` maps to ``stress``, or without that the field
            ``virial`` or ``virials``, is an energy; -virial / volume becomes the stress. A stress
            that the molecule also has is dropped. See ``virials``.
        stress_order: order of six numbers that are a stress: ``"voigt"``, xx yy zz yz xz xy, which
            is assumed by default, or ``"vasp"``, xx yy zz xy yz zx.
        keep_units: keep values in a unit that the source states, or that a known dataset is
            published in; False: they are converted, unless another option names their unit.

    Only the labels named here change; custom properties never do. Factors come from
    ``ase.units``; they are applied in float64, and the dtype of the values is preserved.

    Raises:
        ValueError: an unknown choice or unit.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stress_from is not None and self.stress_unit is not None:
            raise ValueError("stress_unit: a virial is an energy, give energy_unit instead")
        self._factors()

    def _factors(self) -> dict[str, float]:
        """Label → factor for its values."""
        virial = {"stress": "energy"} if self.stress_from is not None else {}
        factors = {
            label: factor(virial.get(label, label), unit)
            for label, _, unit, _ in self._units()
            if unit is not None
        }
        for label, sign in (("forces", self.force_sign), ("stress", self.stress_sign)):
            if sign == "flip":
                factors[label] = -factors.get(label, 1.0)
        return factors

    def _units(self) -> list[tuple[str, str, str | None, str]]:
        """(label, option, unit, target unit) of each unit conversion."""
        virial = self.stress_from is not None
        return [
            ("energy", "energy_unit", self.energy_unit, "eV"),
            ("positions", "length_unit", self.length_unit, "Å"),
            ("cell", "length_unit", self.length_unit, "Å"),
            ("forces", "force_unit", self.force_unit, "eV/Å"),
            ("stress", "energy_unit", self.energy_unit, "eV (as a virial)")
            if virial
            else ("stress", "stress_unit", self.stress_unit, "eV/Å³"),
        ]

    def unit(self, label: str) -> str | None:
        """Finds the unit from which a label is converted.

        Args:
            label: the label, or ``positions``.

        Returns:
            The unit; None if the label is not converted.
        """
        return next((unit for own, _, unit, _ in self._units() if own == label), None)

    def _effects(self) -> list[tuple[str, str, str | None, str]]:
        """(label, option, choice, effect) of each change but that of dtypes."""
        factors = self._factors()
        units = [
            (label, option, unit, f"{unit} to {target}, times {abs(factors.get(label, 1.0))!r}")
            for label, option, unit, target in self._units()
        ]
        return [
            *units,
            ("forces", "force_sign", self.force_sign, "sign flipped"),
            ("stress", "stress_from", self.stress_from, "virial to stress, -virial / volume"),
            ("stress", "stress_sign", self.stress_sign, "sign flipped"),
        ]

    def with_units(self, stated: Mapping[str, str]) -> Changes:
        """Adds conversions of units that a source states, where no option names another unit.

        Args:
            stated: label → unit, of labels with ``known_unit``.

        Returns:
            The changes.
        """
        added: dict[str, Any] = {}
        for label, option, unit, _ in self._units():
            name = known_unit(label, stated[label]) if label in stated else None
            if unit is not None or name is None or self.keep_units:
                continue
            if factor(label, name) != 1.0:
                added[option] = name
        if self.stress_from is not None:
            added.pop("stress_unit", None)
        return replace(self, **added) if added else self

    def describe(self, changed: Mapping[str, int], asked: Changes) -> list[str]:
        """Describes each change that was made in one line, for a report.

        Args:
            changed: label (including ``positions``, and ``virial`` for stresses made of one) →
                number of molecules that have it, and ``"dtype LABEL"`` → number of those whose
                dtype changed.
            asked: the changes that the user asked for; units of others are those that the source
                states.

        Returns:
            A line for each change.
        """
        lines = []
        for label, option, choice, effect in self._effects():
            n = changed.get(self._counted(label), 0)
            if choice is not None and n:
                is_stated = getattr(asked, option) is None
                why = ", as the source states (keep_units keeps it)" if is_stated else ""
                lines.append(f"{label}: {effect}, in {molecules(n)}{why}")
        cast = [label for label in _OF_DTYPE if changed.get(f"dtype {label}")]
        if cast and self.dtype is not None:
            lines.append(f"{', '.join(cast)}: to {self.dtype}")
        return lines

    def _counted(self, label: str) -> str:
        """Key of the number of molecules whose label changes."""
        return "virial" if label == "stress" and self.stress_from is not None else label

    def unused(self, changed: Mapping[str, int]) -> list[str]:
        """Describes each option without effect in one line, for a report.

        Args:
            changed: label (including ``positions``) → number of molecules that have it.

        Returns:
            A line for each option.
        """
        options: dict[str, list[str]] = {}
        for label, option, choice, _ in self._effects():
            if choice is not None:
                options.setdefault(option, []).append(self._counted(label))
        return [
            f"{option}: no molecule has {labels[0]}, so nothing was changed"
            + (": key_map={KEY: 'stress'} names its key" if labels[0] == "virial" else "")
            for option, labels in options.items()
            if not any(changed.get(label) for label in labels)
        ]

    def source_units(self, fields: Collection[str]) -> list[str]:
        """Lists fields named like energies, forces, stresses or dipoles left in the source's units.

        Args:
            fields: labels, and properties with their scope as ``properties/KEY``.

        Returns:
            Those of the fields.
        """
        converted = {label for label, _, unit, _ in self._units() if unit is not None}
        return [field for field in fields if field not in converted and has_unit(field)]

    def unit_warnings(self, fields: Collection[str]) -> list[str]:
        """Warns of fields left in the source's units although others were converted.

        Args:
            fields: labels, and properties with their scope as ``properties/KEY``.

        Returns:
            A line for each field.
        """
        if all(unit is None for _, _, unit, _ in self._units()):
            return []
        return [
            f"{field}: left in the unit of the source, "
            + ("only labels are converted" if "/" in field else "no unit was given for it")
            for field in self.source_units(fields)
        ]

    def apply(
        self, columns: Columns, report: Report | None = None, *, is_virial: bool = True
    ) -> Columns:
        """Applies the changes to a block.

        Args:
            columns: the block.
            report: receives notes about virials; None: they are not reported.
            is_virial: with ``stress_from``, the label ``stress`` is the virial; False: a property
                of that name is.

        Returns:
            The changed block.

        Raises:
            FieldError: a finite value does not fit into float32, or a virial is not 3 x 3 numbers.
        """
        if self == Changes():
            return columns
        report = Report() if report is None else report
        own = None
        if self.stress_from is not None and not is_virial:
            columns, own = take_virial(columns, report)
        factors = self._factors()
        positions = self._changed("positions", columns.positions, factors)
        fields = [self._changed_column(column, factors) for column in columns.fields]
        changed = columns._replace(positions=positions, fields=fields)
        if self.stress_from is None:
            return changed
        changed = with_stress(changed, report)
        report.changed[self]["virial"] += count_stresses(changed)
        return with_own_stress(changed, own, report)

    def _changed_column(self, column: Column, factors: dict[str, float]) -> Column:
        if column.scope != BUILTIN:
            return column
        if isinstance(column.values, np.ndarray):
            return column.with_values(self._changed(column.key, column.values, factors))
        values = [
            self._changed(column.key, value, factors) if isinstance(value, np.ndarray) else value
            for value in column.values
        ]
        return column.with_values(values)

    def _changed(self, label: str, values: Array, factors: dict[str, float]) -> Array:
        dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        if self.dtype is not None and label in _OF_DTYPE:
            dtype = np.dtype(self.dtype)
        if (label not in factors and dtype == values.dtype) or label in ("pbc", "name"):
            return values
        with np.errstate(over="ignore"):
            exact = values.astype(np.float64) * factors.get(label, 1.0)
            changed: Array = exact.astype(dtype)
        if (np.isfinite(values) & ~np.isfinite(changed)).any():
            raise FieldError(f"{label}: a value is too large for {dtype}")
        return changed


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
    """Counts the molecules that have each label, and those whose label got a different type."""
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
