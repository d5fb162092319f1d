"""Rows and metadata of ASE databases, as their writers store them, and the fields they become."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from atompack_torch._native import LmdbFile
from atompack_torch.batch.conversions import NO_MASS, OF_ATOMS, Parts, has_mass
from atompack_torch.errors import AtompackError, CorruptFileError, FieldError
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
from atompack_torch.formats.conversion_report import Report, described
from atompack_torch.formats.extxyz.keys import FoundKey, NativeTarget

BOOKKEEPING = "ids, times, users and calculator settings of the rows are not carried over"
_PICKLE = b"\x80"  # first byte, of protocol 2 and later


def is_pickled(path: str) -> bool:
    """True if an LMDB file has pickles instead of rows; also False if it cannot be read."""
    try:
        first = LmdbFile(path).get(b"0")
    except (AtompackError, OSError):
        return False  # the reader chosen next reports the problem
    return first is not None and first[:1] == _PICKLE


def take_metadata(path: str, stored: Callable[[], Any], report: Report) -> None:
    """Reports the metadata of a database, of which units alone are kept.

    Args:
        path: the database, for messages.
        stored: reads the metadata.
        report: receives the units and what is dropped.

    Raises:
        CorruptFileError: they cannot be read, unless ``on_error="skip"``.
    """
    try:
        metadata = dict(stored())
    except Exception as error:  # whatever the database stumbles over
        fault = CorruptFileError(f"{path}: its metadata: {described(error)}")
        if report.on_error == "raise":
            raise fault from error
        report.skip("metadata", str(fault))
        return
    for key, value in metadata.items():
        found = _units(key, value)
        units = {own: unit for own, unit in found.items() if isinstance(unit, str)}
        report.units.update({own: unit for own, unit in units.items() if unit})
        if key == "key_descriptions" or not units or len(units) < len(found):
            report.skip(f"metadata {key!r}", "of the whole database")


def _units(key: str, value: Any) -> dict[str, Any]:
    """Returns field → unit of an entry of metadata: as ASE, or SchNetPack, has them."""
    if key == "key_descriptions" and isinstance(value, dict):
        triples = {own: texts for own, texts in value.items() if isinstance(texts, (list, tuple))}
        return {own: texts[2] for own, texts in triples.items() if len(texts) == 3}
    if isinstance(value, dict) and "unit" in key.lower():
        return value
    is_distance = re.search(r"(distance|length|position)s?_units?$", key, re.IGNORECASE)
    return {"positions": value} if is_distance else {}


# Arrays of a row, and the spin (next to the charge) that fairchem looks for in ``data``.
_ONLY_DATA = ("initial_magmoms", "initial_charges", "tags", "masses", "spin")


class Row(NamedTuple):
    """The fields of a molecule where an ASE database keeps them.

    Attributes:
        labels: those that ASE has a place for.
        arrays: arrays of ``ase.Atoms``.
        pairs: key-value pairs: numbers and strings that ASE accepts there.
        data: everything else, by the names that ``ase_db.read`` knows.
    """

    labels: dict[str, Any]
    arrays: dict[str, Any]
    pairs: dict[str, Any]
    data: dict[str, Any]


def row_of(parts: Parts, report: Report, *, holds_nan: bool) -> Row:
    """Places the fields of a molecule.

    Labels are placed where ASE keeps them, numbers and strings among the key-value pairs where ASE
    allows it, everything else in ``data``: atom properties as ``atom_properties/KEY``, properties
    named like a scope or a label, or by a name that ASE would change, as ``properties/KEY``.

    Args:
        parts: the molecule.
        report: receives what a row cannot represent.
        holds_nan: True if the database can hold an energy of NaN, and forces of no atoms.

    Returns:
        The row.
    """
    row = Row({}, {}, {}, {})
    row.labels.update(_held_labels(parts.labels, row.data, report, holds_nan=holds_nan))
    if "name" in row.labels:
        _file("name", row.labels.pop("name"), row)
    for key, value in parts.atom_properties.items():
        if key == "masses" and _are_masses(value, len(parts.positions)):
            row.arrays[key] = value  # the row's own masses: ASE divides the momenta by them
        else:
            row.data[PREFIXES[ATOM_PROPERTY] + key] = value
    if "velocities" in row.labels and not has_mass(row.arrays.get("masses", np.ones(1))).all():
        report.skip("velocities", NO_MASS)
    for key, value in parts.properties.items():
        is_taken = key in BUILTINS or prefixed_id(key) is not None or _is_changed(key)
        prefix = PREFIXES[MOLECULE_PROPERTY] if is_taken else ""
        _file(prefix + key, value, row)
    return row


def _held_labels(
    labels: Mapping[str, Any], data: dict[str, Any], report: Report, *, holds_nan: bool
) -> dict[str, Any]:
    """Returns the labels that ASE can hold; moves the rest to ``data`` where possible."""
    held = dict(labels)
    if "velocities" in held:
        report.note("velocities: kept as momenta, so their last digits may change")
    if "pbc" not in held:
        report.note("pbc: F F F where it was absent, as ASE has no other word for it")
    if "cell" in held and not np.any(held["cell"]):
        report.skip("cell", "a cell of zeros means none to ASE")
        del held["cell"]
    if "energy" in held and np.isnan(held["energy"]) and not holds_nan:
        report.skip("energy", "SQLite cannot hold NaN")
        del held["energy"]
    if not holds_nan and not len(held.get("forces", "x")):
        data["forces"] = held.pop("forces")  # the largest of none is an error in ase.db
    stress = held.get("stress")
    if stress is not None and not np.array_equal(stress, stress.T, equal_nan=True):
        data["stress"] = held.pop("stress")  # ASE keeps only six numbers of a symmetric tensor
    for key in held.keys() - OF_ATOMS - {*RESULTS}:
        data[key] = held.pop(key)
    return held


def _are_masses(value: Any, n_atoms: int) -> bool:
    """True if an ASE row can hold the values as its masses, without changing their type."""
    return np.shape(value) == (n_atoms,) and value.dtype == np.float64 and n_atoms > 0


def _is_changed(key: str) -> bool:
    """True if ASE's JSON would read the key as another: integers, and names of its objects."""
    if key.startswith("__") and key.endswith("__"):
        return True
    try:
        int(key)
    except ValueError:
        return False
    return True


def _file(key: str, value: Any, row: Row) -> None:
    """Stores a value among the key-value pairs if ASE accepts it there, else in ``data``."""
    from ase.db.core import check
    from ase.db.row import AtomsRow

    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    fits = isinstance(value, (int, float, str)) and key not in _ONLY_DATA
    fits &= not hasattr(AtomsRow, key)  # such an attribute hides a pair, such as that of a charge
    if fits:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a key that looks like a formula breaks queries
            try:
                check({key: value})
            except (ValueError, UserWarning):
                fits = False
    (row.pairs if fits else row.data)[key] = value


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


def arrays_among_text(fields: list[NativeTarget]) -> list[str]:
    """Returns the keys of molecules of which arrays are omitted: their field is text elsewhere."""
    with_text = {field[2:4] for field in fields if field[4] == "text"}
    return [
        key
        for level, key, *field, kind, shape, _, _ in fields
        if level == "molecule" and tuple(field) in with_text and shape != () and kind != "null"
    ]


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
        field = prefixed_id(name) or FieldId(scope, name)
        if field.scope != scope:
            has, lacks = (found.key, name)[:: 1 if scope == ATOM_PROPERTY else -1]
            raise FieldError(f"{path}: key_map: {has!r} has rows for atoms, {lacks!r} has none")
        return field
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
