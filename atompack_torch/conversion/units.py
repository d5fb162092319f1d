"""Units of labels: their names in options and in sources, and factors to eV and Å."""

from __future__ import annotations

import re

from atompack_torch.fields import BUILTINS

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
_QUANTITIES = {"positions": "length", "cell": "length", "forces": "force"}
# Names in statements of sources, in lower case, that options do not have.
_ALIASES = {
    **dict.fromkeys(("a", "angstroms", "ångström", "ångstrom"), "Ang"),
    **dict.fromkeys(("eh", "hartrees"), "Ha"),
    **{"a0": "Bohr", "electronvolt": "eV", "rydberg": "Ry"},
}
# Words in names of custom properties.
_WITH_UNIT = re.compile(
    r"energ|enthalp|force|grad|stress|virial|pressure|dipol|quadrupol|polari[sz]"
    r"|(^|_)(e\d?|u0|homo|lumo|gap)(_|$)",
    re.IGNORECASE,
)


def has_unit(field: str) -> bool:
    """True if a field is named like an energy, a force, a stress or a dipole."""
    scope, _, key = field.rpartition("/")
    is_named = bool(scope or field in BUILTINS)
    return field == "velocities" or (is_named and _WITH_UNIT.search(key) is not None)


def known_unit(label: str, text: str) -> str | None:
    """Returns the name of a unit that a source states in its own spelling.

    Args:
        label: the label that is in the unit.
        text: the unit as the source spells it.

    Returns:
        The name as options of ``Changes`` have it; None if it is not known.
    """
    names = [name for units in _UNITS.values() for name in units] + [*_SCALES]
    known = {name.lower(): name for name in names} | _ALIASES
    spelled = "".join(text.split()).lower().replace("**", "^").replace("(", "").replace(")", "")
    spelled = spelled.replace("kcal/mol", "kcal:mol").replace("kj/mol", "kj:mol")
    parts = [part.partition("^") for part in spelled.split("/")]
    unit = "/".join(
        known.get(name.replace(":", "/"), name) + power + number for name, power, number in parts
    )
    try:
        factor(label, unit)
    except ValueError:
        return None
    return unit


def factor(label: str, unit: str) -> float:
    """Returns the factor from a unit to that of a label here, of eV and Å.

    Args:
        label: the label, or ``positions``.
        unit: name of the unit, as options of ``Changes`` have it.

    Returns:
        The factor.

    Raises:
        ValueError: the label has no such unit.
    """
    return _factor(_QUANTITIES.get(label, label), unit)


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

    for base, power in known[name].items():
        scale *= getattr(ase.units, base) ** power
    return scale


def _choices(quantity: str) -> str:
    names = [*_UNITS.get(quantity, {})]
    names += [name for name, (_, base) in _SCALES.items() if base in names]
    forms = {"force": "ENERGY/LENGTH such as kcal/mol/Ang", "stress": "ENERGY/LENGTH^3 or one of "}
    return forms.get(quantity, "one of ") + ", ".join(names)
