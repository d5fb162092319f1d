"""Changes of values that a conversion makes on request, and on request only."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np

from atompack_torch.columns import Array, Column, Columns
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN

# Dimension → name of a unit → its names in ase.units, as a product of powers.
_UNITS: dict[str, dict[str, dict[str, int]]] = {
    "energy": {
        "eV": {"eV": 1},
        "Ha": {"Hartree": 1},
        "Hartree": {"Hartree": 1},
        "Ry": {"Rydberg": 1},
        "kcal/mol": {"kcal": 1, "mol": -1},
        "kJ/mol": {"kJ": 1, "mol": -1},
        "J": {"J": 1},
    },
    "length": {
        "Angstrom": {"Angstrom": 1},
        "Ang": {"Angstrom": 1},
        "Å": {"Angstrom": 1},
        "Bohr": {"Bohr": 1},
        "nm": {"nm": 1},
        "m": {"m": 1},
    },
    "stress": {"GPa": {"GPa": 1}, "Pa": {"Pascal": 1}, "bar": {"bar": 1}},
}
_SCALES = {"meV": (1e-3, "eV"), "mHa": (1e-3, "Ha"), "MPa": (1e6, "Pa"), "kbar": (1e3, "bar")}
_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Changes:
    """What to change on the way.

    Attributes:
        stress_sign: ``"flip"`` changes the sign of ``stress``.
        energy_unit: unit of the source's ``energy``; it becomes eV. One of eV, meV, Ha, Hartree,
            mHa, Ry, kcal/mol, kJ/mol, J.
        length_unit: of ``positions`` and ``cell``; they become Å. Angstrom, Ang, Å, Bohr, nm, m.
        force_unit: of ``forces``, as ENERGY/LENGTH; they become eV/Å.
        stress_unit: of ``stress``, as ENERGY/LENGTH^3 or GPa, MPa, Pa, kbar, bar; it becomes eV/Å³.
        dtype: ``"float32"`` or ``"float64"`` for positions, forces and velocities.

    Only the labels named here change; custom properties never do. Factors are those of
    ``ase.units``; they are applied in float64, and the type of the values stays.

    Raises:
        ValueError: a choice or unit that is not known.
    """

    stress_sign: Literal["flip"] | None = None
    energy_unit: str | None = None
    length_unit: str | None = None
    force_unit: str | None = None
    stress_unit: str | None = None
    dtype: Literal["float32", "float64"] | None = None

    def __post_init__(self) -> None:
        if self.stress_sign not in (None, "flip"):
            raise ValueError(f"stress_sign: expected flip or None, got {self.stress_sign!r}")
        if self.dtype not in (None, *_DTYPES):
            raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, got {self.dtype!r}")
        self._factors()

    def _factors(self) -> dict[str, float]:
        """Label → what its values are multiplied by."""
        factors: dict[str, float] = {}
        if self.energy_unit is not None:
            factors["energy"] = _factor("energy", self.energy_unit)
        if self.length_unit is not None:
            factors["positions"] = factors["cell"] = _factor("length", self.length_unit)
        if self.force_unit is not None:
            factors["forces"] = _factor("force", self.force_unit)
        if self.stress_unit is not None:
            factors["stress"] = _factor("stress", self.stress_unit)
        if self.stress_sign == "flip":
            factors["stress"] = -factors.get("stress", 1.0)
        return factors

    def describe(self) -> list[str]:
        """One line for each change, for a report."""
        factors = self._factors()
        lines = []
        for label, unit, target in (
            ("energy", self.energy_unit, "eV"),
            ("positions", self.length_unit, "Å"),
            ("cell", self.length_unit, "Å"),
            ("forces", self.force_unit, "eV/Å"),
            ("stress", self.stress_unit, "eV/Å³"),
        ):
            if unit is not None:
                lines.append(f"{label}: {unit} to {target}, times {abs(factors[label])!r}")
        if self.stress_sign == "flip":
            lines.append("stress: sign flipped")
        if self.dtype is not None:
            lines.append(f"positions, forces, velocities: to {self.dtype}")
        return lines

    def cautions(self, labels: Collection[str]) -> list[str]:
        """What a reader of the report should know: labels with a related unit that stayed."""
        others = {
            "forces": (self.force_unit, self.energy_unit or self.length_unit),
            "stress": (self.stress_unit, self.energy_unit or self.length_unit),
            "velocities": (None, self.length_unit),
        }
        return [
            f"{label}: left in the unit of the source, no unit was given for it"
            for label, (own, related) in others.items()
            if label in labels and related is not None and own is None
        ]

    def apply(self, columns: Columns) -> Columns:
        """A block with the changes made.

        Raises:
            FieldError: a finite value does not fit into float32.
        """
        if self == Changes():
            return columns
        factors = self._factors()
        positions = self._changed("positions", columns.positions, factors)
        fields = [self._changed_column(column, factors) for column in columns.fields]
        return columns._replace(positions=positions, fields=fields)

    def _changed_column(self, column: Column, factors: dict[str, float]) -> Column:
        if column.scope != BUILTIN:
            return column
        if isinstance(column.values, np.ndarray):
            return column._replace(values=self._changed(column.key, column.values, factors))
        values = [
            self._changed(column.key, value, factors) if isinstance(value, np.ndarray) else value
            for value in column.values
        ]
        return column._replace(values=values)

    def _changed(self, label: str, values: Array, factors: dict[str, float]) -> Array:
        dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        if self.dtype is not None and label in ("positions", "forces", "velocities"):
            dtype = np.dtype(self.dtype)
        if (label not in factors and dtype == values.dtype) or label in ("pbc", "name"):
            return values
        with np.errstate(over="ignore"):
            exact = values.astype(np.float64) * factors.get(label, 1.0)
            changed: Array = exact.astype(dtype)
        if (np.isfinite(values) & ~np.isfinite(changed)).any():
            raise FieldError(f"{label}: a value is too large for {dtype}")
        return changed


def _factor(quantity: str, unit: str) -> float:
    if quantity == "force":
        energy, _, length = unit.rpartition("/")
        if energy:
            return _factor("energy", energy) / _factor("length", length)
    volume = re.fullmatch(r"(.+)/([^/^]+)(?:\^3|³)", unit)
    if quantity == "stress" and volume:
        return _factor("energy", volume[1]) / _factor("length", volume[2]) ** 3
    scale, name = _SCALES.get(unit, (1.0, unit))
    known = _UNITS.get(quantity, {})
    if name not in known:
        raise ValueError(f"{quantity}_unit: expected {_choices(quantity)}, got {unit!r}")
    import ase.units

    factor = scale
    for base, power in known[name].items():
        factor *= getattr(ase.units, base) ** power
    return factor


def _choices(quantity: str) -> str:
    names = [*_UNITS.get(quantity, {})]
    names += [name for name, (_, base) in _SCALES.items() if base in names]
    forms = {"force": "ENERGY/LENGTH such as kcal/mol/Ang", "stress": "ENERGY/LENGTH^3 or one of "}
    return forms.get(quantity, "one of ") + ", ".join(names)
