"""Names under which labels of MACE are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from atompack_torch.errors import FieldError
from atompack_torch.fields import FieldSpec, similar_names
from atompack_torch.trainers._labels import STATES

# Label -> names under which it is looked for: MACE's default key, then that of this package.
KEYS = {
    "energy": ("REF_energy", "energy"),
    "forces": ("REF_forces", "forces"),
    "stress": ("REF_stress", "stress"),
    "virials": ("REF_virials", "virials"),
    "dipole": ("dipole", "REF_dipole"),
    "charges": ("REF_charges", "charges"),
    "polarizability": ("polarizability",),
    "elec_temp": ("elec_temp",),
    "total_charge": ("total_charge", "charge", "properties/charge"),
    "total_spin": ("total_spin", "spin", "properties/spin"),
}


def labels_of(key_map: Mapping[str, str] | None) -> dict[str, str]:
    """Returns label → field, given field → label.

    Args:
        key_map: name in the data → label; None: no names.

    Returns:
        The inverse.

    Raises:
        ValueError: two names are one label.
    """
    labels = {label: name for name, label in (key_map or {}).items()}
    if len(labels) < len(key_map or {}):
        raise ValueError("key_map: expected each label once, got one twice")
    return labels


def first_field(candidates: Sequence[str], schema: Mapping[str, FieldSpec]) -> str | None:
    """Returns the first of some names that a field has.

    Args:
        candidates: names; ``charge`` and ``spin`` of atoms are other values than those of MACE.
        schema: name → type of each field.

    Returns:
        The name, or None.
    """
    for name in candidates:
        if name in schema and (name not in STATES or schema[name].level == "molecule"):
            return name
    return None


def found_keys(schema: Mapping[str, FieldSpec], named: Mapping[str, str]) -> dict[str, str]:
    """Finds the fields of all labels.

    Args:
        schema: name → type of each field.
        named: label → field, as given by the user.

    Returns:
        Label → field, of those that there are.

    Raises:
        FieldError: a named field does not exist.
    """
    for label, given in named.items():
        if given not in schema:
            similar = " or ".join(map(repr, similar_names(given, schema)))
            hint = f": did you mean {similar}?" if similar else ""
            raise FieldError(f"{label}: no field {given!r}{hint} (field {given!r})")
    found = {}
    for label, candidates in KEYS.items():
        key = named.get(label) or first_field(candidates, schema)
        if key is not None:
            found[label] = key
    return found | dict(named)
