"""Mapping between the keys of ASE databases and fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atompack_torch.batch.conversions import OF_ATOMS
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    RESULTS,
    FieldId,
    check_targets,
    is_value_of,
    prefixed_id,
)
from atompack_torch.formats.extxyz.keys import FoundKey, NativeTarget

_SECTIONS = ("key_value_pairs/", "data/")


def fields_of_rows(
    path: str, found: Iterable[FoundKey], key_map: Mapping[str, str]
) -> list[NativeTarget]:
    """Returns the fields of all keys in the form that the native core expects.

    Results of calculators and arrays of the atoms keep their names; so do key-value pairs and data,
    where those of the former come first. An entry named after a scope (``atom_properties/KEY``)
    is that field. Momenta become velocities.

    Args:
        path: the database, for messages.
        found: keys of the rows, as the native core names them.
        key_map: name of a field, with or without its scope → label or custom property.

    Returns:
        The fields.

    Raises:
        FieldError: no row has a key of ``key_map``, or a label belongs to atoms and the key does
            not.
        ValueError: a key is mapped to positions or atomic numbers, or two keys to one name.
    """
    check_targets(key_map)
    missing = set(key_map)
    fields: list[NativeTarget] = []
    for key in found:
        field, is_momenta = _field_of(key)
        source = field.key if field.key in key_map else PREFIXES.get(field.scope, "") + field.key
        if source in key_map:
            missing.discard(source)
            field, is_momenta = _asked(path, key, key_map[source]), False
        elif _is_taken(field, key_map):
            continue
        fields.append((*key[:2], *field, *key[2:], is_momenta))
    for name in sorted(missing):
        raise FieldError(f"{path}: key_map: no row has a field {name!r}")
    return fields


def _field_of(found: FoundKey) -> tuple[FieldId, bool]:
    name = found.key
    for section in _SECTIONS:
        if name.startswith(section):
            own = name[len(section) :]
            is_written = own == "stress" or (own in BUILTINS and own not in (*RESULTS, *OF_ATOMS))
            is_written |= own in BUILTINS and not BUILTINS[own].owns_key and found.kind == "real"
            is_label = (own == "name" and found.kind == "text") or (
                is_written and found.shape == BUILTINS[own].shape and found.kind != "text"
            )
            scope = BUILTIN if is_label else MOLECULE_PROPERTY
            return prefixed_id(own) or FieldId(scope, own), False
    if name == "momenta":
        return FieldId(BUILTIN, "velocities"), True
    is_number = found.kind in ("integer", "real")
    if name in RESULTS and is_value_of(name, found.shape, is_number=is_number):
        return FieldId(BUILTIN, name), False
    return FieldId(ATOM_PROPERTY if found.level == "atom" else MOLECULE_PROPERTY, name), False


def _asked(path: str, found: FoundKey, name: str) -> FieldId:
    if name not in BUILTINS:
        scope = ATOM_PROPERTY if found.level == "atom" else MOLECULE_PROPERTY
        return prefixed_id(name) or FieldId(scope, name)
    if name in ("cell", "pbc"):
        raise FieldError(f"{path}: {name}: expected under its own key, got {found.key!r}")
    if found.level == "atom" and BUILTINS[name].level != "atom":
        raise FieldError(f"{path}: key_map: {found.key!r} has rows for atoms, {name!r} has none")
    return FieldId(BUILTIN, name)


def _is_taken(field: FieldId, key_map: Mapping[str, str]) -> bool:
    """True if another key is mapped to this field."""
    asked = (
        FieldId(BUILTIN, name)
        if name in BUILTINS
        else prefixed_id(name) or FieldId(field.scope, name)
        for name in key_map.values()
    )
    return field in asked
