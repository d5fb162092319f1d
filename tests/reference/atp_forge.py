"""A tiny .atp writer that puts together whatever it is told, right or wrong."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import lz4.block  # type: ignore[import-untyped]
import numpy as np
import zstandard
from reference.atp_file import ELEMENT_BYTES, SLOT_BYTES
from reference.atp_record import ATOM, BUILTIN, MOLECULE, PER_ATOM_BUILTINS

CODEC_TAGS = {"none": 0, "lz4": 1, "zstd": 2}
SchemaRow = tuple[int, str, int, int]  # kind, key, tag, slot bytes


def slot(
    generation: int,
    *,
    index: tuple[int, int] = (0, 0),
    n_molecules: int = 0,
    codec: int = 0,
    record_format: int = 2,
    schema: tuple[int, int] = (0, 0),
    data_start: int = 2 * SLOT_BYTES,
    version: int = 2,
) -> bytes:
    """A header slot with a right checksum."""
    raw = struct.pack("<4sIQQQQQ", b"ATPK", version, generation, data_start, *index, n_molecules)
    raw += struct.pack("<BxxxiIQQ", codec, 0, record_format, *schema)
    raw = raw.ljust(SLOT_BYTES - 4, b"\0")
    return raw + struct.pack("<I", zlib.adler32(raw))


def section(kind: int, key: str | bytes, tag: int, payload: bytes) -> bytes:
    """A section of a record."""
    raw = key.encode() if isinstance(key, str) else key
    return (
        struct.pack("<BB", kind, len(raw)) + raw + struct.pack("<BI", tag, len(payload)) + payload
    )


def builtin(key: str, tag: int, payload: bytes) -> bytes:
    """A builtin section."""
    return section(BUILTIN, key, tag, payload)


def atom_property(key: str | bytes, tag: int, payload: bytes) -> bytes:
    """An atom-scope section."""
    return section(ATOM, key, tag, payload)


def molecule_property(key: str | bytes, tag: int, payload: bytes) -> bytes:
    """A molecule-scope section."""
    return section(MOLECULE, key, tag, payload)


def tensor(array: np.ndarray) -> bytes:
    """The payload of a tensor."""
    shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
    return shape + np.ascontiguousarray(array).tobytes()


def record(n_atoms: int, sections: Sequence[bytes] = (), *, wide: bool = False) -> bytes:
    """A record with positions 0, 1, 2, ... and atomic numbers 1, 2, 3, ..."""
    positions = np.arange(3 * n_atoms, dtype="<f8" if wide else "<f4").tobytes()
    numbers = (1 + np.arange(n_atoms)).astype("u1").tobytes()
    head = struct.pack("<I", n_atoms) + positions + numbers
    return head + struct.pack("<H", len(sections)) + b"".join(sections)


def schema_blob(rows: Sequence[SchemaRow] = (), positions_type: int = 4) -> bytes:
    """A schema blob; flag and element bytes follow from kind, key and tag."""
    blob = struct.pack("<IBI", 1, positions_type, len(rows))
    for kind, key, tag, slot_bytes in rows:
        per_atom = kind == ATOM or (kind == BUILTIN and key in PER_ATOM_BUILTINS)
        raw = key.encode()
        blob += struct.pack(
            "<BBBHII", kind, tag, per_atom, len(raw), ELEMENT_BYTES[tag], slot_bytes
        )
        blob += raw
    return blob


@dataclass(frozen=True)
class Lie:
    """What an index entry says instead of the truth, by molecule."""

    molecule: int
    offset: int | None = None
    stored_bytes: int | None = None
    record_bytes: int | None = None
    n_atoms: int | None = None


def compress(codec: str, raw: bytes) -> bytes:
    """One codec unit."""
    if codec == "lz4":
        return bytes(lz4.block.compress(raw, store_size=False))
    return zstandard.compress(raw) if codec == "zstd" else raw


def atp_file(
    records: Sequence[bytes],
    *,
    codec: str = "none",
    record_format: int = 2,
    schema: bytes = b"",
    lies: Sequence[Lie] = (),
    generation: int = 1,
) -> bytes:
    """A whole file with one commit in slot B, slot A as when it was created."""
    body, entries = b"", []
    for raw in records:
        unit = compress(codec, raw)
        n_atoms = struct.unpack_from("<I", raw)[0]
        entries.append([2 * SLOT_BYTES + len(body), len(unit), len(raw), n_atoms])
        body += unit
    for lie in lies:
        told = (lie.offset, lie.stored_bytes, lie.record_bytes, lie.n_atoms)
        entry = entries[lie.molecule]
        entries[lie.molecule] = [e if t is None else t for e, t in zip(entry, told, strict=True)]
    schema_at = 2 * SLOT_BYTES + len(body)
    index = struct.pack("<Q", len(entries)) + b"".join(struct.pack("<QIII", *e) for e in entries)
    newest = slot(
        generation,
        index=(schema_at + len(schema), len(index)),
        n_molecules=len(entries),
        codec=CODEC_TAGS[codec],
        record_format=record_format,
        schema=(schema_at, len(schema)) if schema else (0, 0),
    )
    return slot(0, codec=CODEC_TAGS[codec]) + newest + body + schema + index
