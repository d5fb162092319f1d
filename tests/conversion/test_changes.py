"""Changes on request: factors, signs, types, and that nothing else moves."""

from __future__ import annotations

import ase.units
import numpy as np
import pytest

from atompack_torch.batch.columns import Column, Columns
from atompack_torch.conversion import Changes
from atompack_torch.errors import FieldError
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY


def columns(dtype: str = "f8") -> Columns:
    rng = np.random.default_rng(1)
    fields = [
        Column(BUILTIN, "energy", rng.normal(size=2)),
        Column(BUILTIN, "forces", rng.normal(size=(5, 3)).astype(dtype)),
        Column(BUILTIN, "stress", [rng.normal(size=(3, 3)), None], np.array([True, False])),
        Column(BUILTIN, "cell", rng.normal(size=(2, 3, 3))),
        Column(BUILTIN, "pbc", np.ones((2, 3), dtype=bool)),
        Column(BUILTIN, "name", ["a", "b"]),
        Column(MOLECULE_PROPERTY, "energy", rng.normal(size=2)),
        Column(ATOM_PROPERTY, "forces", rng.normal(size=(5, 3))),
    ]
    positions = rng.normal(size=(5, 3)).astype(dtype)
    return Columns(positions, np.ones(5, dtype=int), np.array([0, 2, 5]), fields)


UNITS = {
    "energy_unit": {
        "eV": 1.0,
        "meV": 1e-3,
        "Ha": ase.units.Hartree,
        "Hartree": ase.units.Hartree,
        "Ry": ase.units.Rydberg,
        "kcal/mol": ase.units.kcal / ase.units.mol,
        "kJ/mol": ase.units.kJ / ase.units.mol,
    },
    "length_unit": {"Å": 1.0, "Ang": 1.0, "Bohr": ase.units.Bohr, "nm": 10.0},
    "force_unit": {
        "eV/Ang": 1.0,
        "Ha/Bohr": ase.units.Hartree / ase.units.Bohr,
        "kcal/mol/Ang": ase.units.kcal / ase.units.mol,
    },
    "stress_unit": {
        "GPa": ase.units.GPa,
        "kbar": 1e3 * ase.units.bar,
        "Ha/Bohr^3": ase.units.Hartree / ase.units.Bohr**3,
        "eV/Å³": 1.0,
    },
}
CHANGED = {
    "energy_unit": {"energy"},
    "length_unit": {"positions", "cell"},
    "force_unit": {"forces"},
    "stress_unit": {"stress"},
}


@pytest.mark.parametrize(("option", "unit"), [(o, u) for o, units in UNITS.items() for u in units])
def test_units(option: str, unit: str) -> None:
    before = columns()
    after = Changes(**{option: unit}).apply(before)  # type: ignore[arg-type]
    factor = UNITS[option][unit]
    want = factor if "positions" in CHANGED[option] else 1.0
    assert np.allclose(after.positions, before.positions * want, rtol=1e-14, atol=0)
    for old, new in zip(before.fields, after.fields, strict=True):
        changed = old.scope == BUILTIN and old.key in CHANGED[option]
        for x, y in zip(old.values, new.values, strict=True):
            if changed and x is not None:
                assert np.allclose(np.asarray(y), np.asarray(x) * factor, rtol=1e-14, atol=0)
            else:
                assert np.array_equal(x, y)  # type: ignore[arg-type]


def test_factors_are_applied_in_float64_and_the_type_stays() -> None:
    before = columns("f4")
    after = Changes(force_unit="kcal/mol/Ang").apply(before)
    forces = before.fields[1].values.astype("f8")  # type: ignore[union-attr]
    want = (forces * (ase.units.kcal / ase.units.mol)).astype("f4")
    assert np.array_equal(after.fields[1].values, want)  # type: ignore[arg-type]
    assert after.positions is before.positions


def test_dtype() -> None:
    after = Changes(dtype="float32").apply(columns())
    assert after.positions.dtype == np.float32
    dtypes = {f.key: f.values.dtype for f in after.fields[:2]}  # type: ignore[union-attr]
    assert dtypes == {"energy": np.float64, "forces": np.float32}
    assert Changes(dtype="float64").apply(columns("f4")).positions.dtype == np.float64


def test_a_value_that_does_not_fit_is_an_error() -> None:
    large = columns()._replace(positions=np.full((5, 3), 1e300))
    with pytest.raises(FieldError, match="positions: a value is too large for float32"):
        Changes(dtype="float32").apply(large)
    infinite = columns()._replace(positions=np.full((5, 3), np.inf))
    assert np.isinf(Changes(dtype="float32").apply(infinite).positions).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"energy_unit": "A"},  # an ampere to ase.units
        {"energy_unit": "GPa"},
        {"length_unit": "eV"},
        {"force_unit": "eV"},
        {"force_unit": "Ang/eV"},
        {"stress_unit": "eV/Ang"},
        {"stress_sign": "minus"},
        {"dtype": "float16"},
        {"force_sign": "minus"},
        {"stress_from": "energy"},
        {"stress_from": "virial", "stress_unit": "GPa"},
    ],
    ids=str,
)
def test_wrong_choices(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"expected|energy_unit"):
        Changes(**wrong)  # type: ignore[arg-type]
