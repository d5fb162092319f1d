"""Plain molecules (dicts of ``strategies``) in every form that a writer takes; comparing them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from reference import atp_encode
from reference.atp_file import AtpFile
from reference.atp_record import Molecule
from reference.names import BUILTINS

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, MOLECULE_PROPERTY

Plain = dict[str, Any]
SCOPES = {ATOM_PROPERTY: "atom_properties", MOLECULE_PROPERTY: "properties"}


def molecule(plain: Plain) -> apt.Molecule:
    """As a molecule of the package."""
    return apt.Molecule(**plain)


def batch(plains: Sequence[Plain]) -> apt.MoleculeBatch:
    """As a batch; at least one molecule."""
    return apt.MoleculeBatch.from_molecules([molecule(plain) for plain in plains])


def fits_a_batch(plains: Sequence[Plain]) -> bool:
    """Whether a batch keeps all shapes: a molecule without atoms takes those of the others."""
    return not any(
        len(plain["positions"]) == 0 and value.ndim > 1
        for plain in plains
        for value in plain.get("atom_properties", {}).values()
    )


def columns(plains: Sequence[Plain]) -> Columns:
    """As columns with one entry per molecule; at least one molecule."""
    counts = [len(plain["positions"]) for plain in plains]
    held = [_fields(plain) for plain in plains]
    return Columns(
        np.concatenate([plain["positions"] for plain in plains]),
        np.concatenate([np.asarray(plain["atomic_numbers"]) for plain in plains]),
        np.cumsum([0, *counts]),
        [
            Column(*place, [h.get(place) for h in held], np.array([place in h for h in held]))
            for place in dict.fromkeys(place for h in held for place in h)
        ],
    )


def _fields(plain: Plain) -> dict[tuple[int, str], Any]:
    found: dict[tuple[int, str], Any] = {
        (BUILTIN, key): plain[key] for key in BUILTINS if plain.get(key) is not None
    }
    for scope, name in SCOPES.items():
        found |= {(scope, key): value for key, value in plain.get(name, {}).items()}
    return found


def assert_file_holds(path: Path, plains: Sequence[Plain]) -> None:
    """The newest commit of a file holds these molecules: every record, and the schema, by bytes."""
    file = AtpFile.open(path)
    assert len(file) == len(plains)
    for i, plain in enumerate(plains):
        assert file.record(i) == atp_encode.record_of(plain), f"molecule {i}"
        assert file.entries[i].n_atoms == len(plain["positions"]), f"molecule {i}"
    if plains:
        slot = file.slot
        blob = file.data[slot.schema_offset : slot.schema_offset + slot.schema_length]
        assert blob == atp_encode.schema_of(plains)


def assert_plain(got: Plain, want: Plain) -> None:
    """Two plain molecules agree in type, dtype, shape and every bit."""
    for key in ("positions", *BUILTINS):
        assert bits(got.get(key)) == bits(want.get(key)), key
    assert list(got["atomic_numbers"]) == list(want["atomic_numbers"])
    for scope in SCOPES.values():
        assert got[scope].keys() == want.get(scope, {}).keys()
        for key, value in got[scope].items():
            assert bits(value) == bits(want[scope][key]), f"{scope}/{key}"


def bits(value: Any) -> Any:
    """What equals only the same value: NaN its own bit pattern, 0 not -0, 1 not 1.0."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, dict):
        return {key: bits(entry) for key, entry in value.items()}
    return type(value).__name__, value


def all_bits(molecule: Molecule) -> dict[str, Any]:
    """Tags and bits of all fields that the reference read from a record; it has to be sound."""
    fields: dict[str, dict[str, Any]] = {
        "builtins": molecule.builtins,
        "atom_properties": molecule.atom_properties,
        "properties": molecule.properties,
    }
    held: dict[str, Any] = {
        name: {key: (value.tag, bits(value.data)) for key, value in values.items()}
        for name, values in fields.items()
    }
    return held | {"z": bits(molecule.atomic_numbers), "positions": bits(molecule.positions)}
