"""A slow, obvious .atp encoder written from the format description alone.

It turns plain molecules (the dicts of ``strategies``) into the bytes that a writer must make of
them: records, the schema, and with the codec none the whole file of a single commit.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from reference import atp_forge as forge
from reference.atp_record import (
    ARRAYS,
    ATOM,
    BOOL3,
    BUILTIN,
    F64,
    I64,
    MATRICES,
    MOLECULE,
    NONE,
    PER_ATOM_BUILTINS,
    STRING,
    TENSORS,
    VECTORS,
    Section,
)
from reference.names import BUILTINS

BUILTIN_ORDER = ("charges", "cell", "energy", "forces", "name", "pbc", "stress", "velocities")
AS_PROPERTIES = tuple(key for key, builtin in BUILTINS.items() if builtin.is_property)
UNUSUAL_TAGS = {6, 7, 11, 12}  # of builtins: only record format 3 has them

Plain = dict[str, Any]


def _tag_of(dtype: np.dtype, tags: dict[int, str]) -> int:
    return next(tag for tag, name in tags.items() if np.dtype(name) == dtype)


def _custom(value: Any) -> tuple[int, bytes]:
    """Tag and payload of a custom value."""
    if value is None:
        return NONE, b""
    if isinstance(value, str):
        return STRING, value.encode()
    if isinstance(value, int):
        return I64, struct.pack("<q", value)
    if isinstance(value, float):
        return F64, np.float64(value).tobytes()
    if value.ndim == 1:
        return _tag_of(value.dtype, ARRAYS), value.tobytes()
    if value.ndim == 2 and value.shape[1] == 3 and value.dtype.kind == "f":
        return _tag_of(value.dtype, VECTORS), value.tobytes()
    return _tag_of(value.dtype, TENSORS), forge.tensor(value)


def _builtin(key: str, value: Any) -> tuple[int, bytes]:
    if key == "energy":
        return F64, np.float64(value).tobytes()
    if key == "name":
        return STRING, value.encode()
    if key == "pbc":
        return BOOL3, bytes(map(bool, value))
    tags = {"charges": ARRAYS, "cell": MATRICES, "stress": MATRICES}.get(key, VECTORS)
    return _tag_of(value.dtype, tags), value.tobytes()


def sections_of(plain: Plain) -> list[Section]:
    """The sections of a molecule in the order of a writer."""
    sections = [
        Section(BUILTIN, key.encode(), *_builtin(key, plain[key]))
        for key in BUILTIN_ORDER
        if plain.get(key) is not None
    ]
    for kind, scope in ((ATOM, "atom_properties"), (MOLECULE, "properties")):
        values = {key.encode(): value for key, value in plain.get(scope, {}).items()}
        if kind == MOLECULE:
            values |= {k.encode(): plain[k] for k in AS_PROPERTIES if plain.get(k) is not None}
        sections += [Section(kind, key, *_custom(values[key])) for key in sorted(values)]
    return sections


def record_of(plain: Plain) -> bytes:
    """The record of a molecule."""
    numbers = np.asarray(plain["atomic_numbers"]).astype("u1")
    sections = [forge.section(s.kind, s.key, s.tag, s.payload) for s in sections_of(plain)]
    head = struct.pack("<I", len(numbers)) + plain["positions"].tobytes() + numbers.tobytes()
    return head + struct.pack("<H", len(sections)) + b"".join(sections)


def schema_of(plains: Sequence[Plain]) -> bytes:
    """The schema of a file that holds these molecules."""
    found: dict[tuple[int, bytes], forge.SchemaRow] = {}
    for plain in plains:
        for section in sections_of(plain):
            row = (section.kind, section.key.decode(), section.tag, _slot_bytes(section))
            assert found.setdefault((section.kind, section.key), row) == row
    wide = plains[0]["positions"].dtype == np.float64
    return forge.schema_blob([found[place] for place in sorted(found)], 7 if wide else 4)


def _slot_bytes(section: Section) -> int:
    if section.tag in TENSORS or section.tag in (STRING, NONE):
        return 0
    per_atom = section.kind == ATOM or (
        section.kind == BUILTIN and section.key.decode() in PER_ATOM_BUILTINS
    )
    return forge.ELEMENT_BYTES[section.tag] if per_atom else len(section.payload)


def record_format_of(plains: Sequence[Plain]) -> int:
    """2 where that holds these molecules, else 3."""
    wide = plains[0]["positions"].dtype == np.float64
    unusual = any(
        section.kind == BUILTIN and section.tag in UNUSUAL_TAGS
        for plain in plains
        for section in sections_of(plain)
    )
    return 3 if wide or unusual else 2


def file_of(plains: Sequence[Plain]) -> bytes:
    """The whole file that one commit of these molecules makes, with the codec none."""
    return forge.atp_file(
        [record_of(plain) for plain in plains],
        schema=schema_of(plains),
        record_format=record_format_of(plains),
    )
