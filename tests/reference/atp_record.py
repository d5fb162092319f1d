"""Decode one .atp record, slowly and obviously: bytes in, NumPy values out.

The layout is that of ``csrc/formats/atp/FORMAT.md#record``; nothing is shared with the package.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference.names import BUILTINS, Builtin

BUILTIN, ATOM, MOLECULE = 0, 1, 2

F64, I64, STRING, F64_ARRAY, F32_VECTORS, I64_ARRAY, F32_ARRAY, F64_VECTORS, I32_ARRAY = range(9)
BOOL3, F64_MATRIX, F32, F32_MATRIX, NONE = 9, 10, 11, 12, 13
F32_TENSOR, F64_TENSOR, I32_TENSOR, I64_TENSOR = 14, 15, 16, 17

SCALARS = {F64: "<f8", I64: "<i8", F32: "<f4"}
ARRAYS = {F64_ARRAY: "<f8", F32_ARRAY: "<f4", I64_ARRAY: "<i8", I32_ARRAY: "<i4"}
VECTORS = {F32_VECTORS: "<f4", F64_VECTORS: "<f8"}
MATRICES = {F64_MATRIX: "<f8", F32_MATRIX: "<f4"}
TENSORS = {F32_TENSOR: "<f4", F64_TENSOR: "<f8", I32_TENSOR: "<i4", I64_TENSOR: "<i8"}


def _tags_of(builtin: Builtin) -> set[int]:
    """The tags of a builtin field that has sections of its own."""
    if builtin.kind != "real":
        return {STRING} if builtin.kind == "text" else {BOOL3}
    return {
        ("molecule", ()): {F64, F32},
        ("molecule", (3, 3)): {F64_MATRIX, F32_MATRIX},
        ("atom", ()): {F64_ARRAY, F32_ARRAY},
        ("atom", (3,)): {F32_VECTORS, F64_VECTORS},
    }[builtin[:2]]


LEGAL_BUILTINS = {key: _tags_of(b) for key, b in BUILTINS.items() if not b.is_property}
PER_ATOM_BUILTINS = {key for key, b in BUILTINS.items() if b.level == "atom"}
LEGAL_ATOM = set(ARRAYS) | set(VECTORS) | set(TENSORS)
LEGAL_MOLECULE = LEGAL_ATOM | {F64, I64, STRING, NONE}


class BadFileError(Exception):
    """The bytes contradict the format."""


class BadValueError(Exception):
    """One value contradicts its tag, its place or its atom count; the record around it is sound."""


@dataclass(frozen=True)
class Section:
    """One section as stored; ``key`` is bytes."""

    kind: int
    key: bytes
    tag: int
    payload: bytes


@dataclass(frozen=True)
class Value:
    """A decoded value: a NumPy array (0-d for a scalar), a str, or None for tag 13."""

    tag: int
    data: Any


@dataclass
class Molecule:
    """Everything that one record holds. Custom values may be a ``BadValueError`` instance."""

    positions: np.ndarray
    atomic_numbers: np.ndarray
    builtins: dict[str, Value] = field(default_factory=dict)
    atom_properties: dict[str, Value | BadValueError] = field(default_factory=dict)
    properties: dict[str, Value | BadValueError] = field(default_factory=dict)

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.atomic_numbers)

    def custom(self, scope: str) -> dict[str, Value | BadValueError]:
        """The custom properties of one scope, "atom" or "molecule"."""
        return self.atom_properties if scope == "atom" else self.properties


class Cursor:
    """Takes bytes from the front and refuses to run past the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, n: int, what: str) -> bytes:
        """The next ``n`` bytes."""
        if n > len(self.data) - self.position:
            raise BadFileError(f"{what}: {n} bytes at {self.position} of {len(self.data)}")
        start, self.position = self.position, self.position + n
        return self.data[start : self.position]

    def number(self, code: str, what: str) -> int:
        """One little-endian integer of a struct code."""
        return int(struct.unpack("<" + code, self.take(struct.calcsize("<" + code), what))[0])


def decode_geometry(cursor: Cursor, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Positions and atomic numbers."""
    n_atoms = cursor.number("I", "atom count")
    width = 8 if wide else 4
    positions = np.frombuffer(cursor.take(3 * width * n_atoms, "positions"), f"<f{width}")
    numbers = np.frombuffer(cursor.take(n_atoms, "atomic numbers"), "u1")
    return positions.reshape(n_atoms, 3), numbers


def sections_of(cursor: Cursor) -> Iterator[Section]:
    """The sections after the geometry, one by one."""
    for _ in range(cursor.number("H", "section count")):
        kind = cursor.number("B", "section kind")
        key = cursor.take(cursor.number("B", "key length"), "key")
        tag = cursor.number("B", "type tag")
        payload = cursor.take(cursor.number("I", "payload length"), "payload")
        yield Section(kind, key, tag, payload)


def decode_record(raw: bytes, wide: bool) -> Molecule:
    """Decode a record; ``wide`` tells float64 positions.

    Raises:
        BadFileError: the structure, a key or a builtin value is damaged.
    """
    cursor = Cursor(raw)
    positions, numbers = decode_geometry(cursor, wide)
    molecule = Molecule(positions, numbers)
    for section in sections_of(cursor):
        try:
            key = section.key.decode()
        except UnicodeDecodeError as error:
            raise BadFileError(f"key {section.key!r} is not UTF-8") from error
        if section.kind == BUILTIN and key in LEGAL_BUILTINS:
            try:
                molecule.builtins[key] = decode_value(section, key, len(numbers))
            except BadValueError as error:
                raise BadFileError(f"builtin {key}: {error}") from error
        elif section.kind in (ATOM, MOLECULE):
            scope = molecule.custom("atom" if section.kind == ATOM else "molecule")
            value = _custom(section, key, numbers)
            if is_label(section.kind, key, section.tag, len(section.payload)):
                molecule.builtins[key] = value
            else:
                scope[key] = BadValueError("repeated") if key in scope else value
    return molecule


def is_label(kind: int, key: str, tag: int, payload_bytes: int) -> bool:
    """Whether a property of a molecule is a label: floats, as many as a row of it has."""
    if kind != MOLECULE or key not in BUILTINS or not BUILTINS[key].is_property:
        return False
    item_bytes = {F64_ARRAY: 8, F32_ARRAY: 4}.get(tag)
    return item_bytes is not None and payload_bytes == item_bytes * BUILTINS[key].shape[0]


def _custom(section: Section, key: str, numbers: np.ndarray) -> Value | BadValueError:
    try:
        return decode_value(section, key, len(numbers))
    except BadValueError as error:
        return error


def decode_value(section: Section, key: str, n_atoms: int) -> Value:
    """Decode one payload by its tag and check it against its place.

    Raises:
        BadValueError: the tag is illegal there, or the payload does not fit tag and atom count.
    """
    tag, payload = section.tag, section.payload
    if tag not in _legal_tags(section.kind, key):
        raise BadValueError(f"tag {tag} is not legal here")
    per_atom = section.kind == ATOM or (section.kind == BUILTIN and key in PER_ATOM_BUILTINS)
    if tag == NONE:
        if payload:
            raise BadValueError("None with a payload")
        return Value(tag, None)
    if tag == STRING:
        try:
            return Value(tag, payload.decode())
        except UnicodeDecodeError as error:
            raise BadValueError("string is not UTF-8") from error
    if tag in TENSORS:
        data = _tensor(payload, TENSORS[tag])
    elif tag in SCALARS:
        data = _shaped(payload, SCALARS[tag], ())
    elif tag in MATRICES:
        data = _shaped(payload, MATRICES[tag], (3, 3))
    elif tag == BOOL3:
        data = _shaped(payload, "u1", (3,)) != 0
    elif tag in VECTORS:
        data = _rows(payload, VECTORS[tag], (3,))
    else:
        data = _rows(payload, ARRAYS[tag], ())
    if per_atom and (data.ndim == 0 or data.shape[0] != n_atoms):
        raise BadValueError(f"shape {data.shape} for {n_atoms} atoms")
    return Value(tag, data)


def _legal_tags(kind: int, key: str) -> set[int]:
    if kind == BUILTIN:
        return LEGAL_BUILTINS[key]
    return LEGAL_ATOM if kind == ATOM else LEGAL_MOLECULE


def _shaped(payload: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if len(payload) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise BadValueError(f"{len(payload)} bytes for shape {shape} of {dtype}")
    return np.frombuffer(payload, dtype).reshape(shape)


def _rows(payload: bytes, dtype: str, suffix: tuple[int, ...]) -> np.ndarray:
    n_rows = len(payload) // (math.prod(suffix) * np.dtype(dtype).itemsize)
    return _shaped(payload, dtype, (n_rows, *suffix))


def _tensor(payload: bytes, dtype: str) -> np.ndarray:
    rank = payload[0] if payload else 0
    if len(payload) < 1 + 4 * rank:
        raise BadValueError("tensor without its dims")
    shape = struct.unpack_from(f"<{rank}I", payload, 1)
    return _shaped(payload[1 + 4 * rank :], dtype, shape)
