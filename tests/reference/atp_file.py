"""A slow, obvious .atp reader written from the format description alone.

It reads a file into ``Molecule`` objects and is what the package is compared with. Where the
format description says that a reader *should* refuse, this one refuses.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import lz4.block  # type: ignore[import-untyped]
import zstandard
from reference import atp_record as rec
from reference.atp_record import BadFileError, BadValueError, Cursor, Molecule

SLOT_BYTES = 4096
CODECS = {0: "none", 1: "lz4", 2: "zstd"}
ELEMENT_BYTES = {0: 8, 1: 8, 2: 0, 3: 8, 4: 12, 5: 8, 6: 4, 7: 24, 8: 4, 9: 3, 10: 72, 11: 4}
ELEMENT_BYTES |= {12: 36, 13: 0, 14: 4, 15: 8, 16: 4, 17: 8}
ARRAY_TAGS = set(rec.ARRAYS) | set(rec.VECTORS)


class UnsupportedFileError(BadFileError):
    """A sound file of a version that nobody here reads."""


@dataclass(frozen=True)
class Slot:
    """One header slot."""

    generation: int
    data_start: int
    index_offset: int
    index_length: int
    n_molecules: int
    codec: int
    level: int
    record_format: int
    schema_offset: int
    schema_length: int


@dataclass(frozen=True)
class SchemaEntry:
    """One field of a file: where it lives, its type, its payload length where that is fixed.

    ``shape`` of a tensor stands in no schema; it is known where all records were looked through
    and every molecule-scope value of that key has the same.
    """

    kind: int
    key: str
    tag: int
    slot_bytes: int
    shape: tuple[int, ...] | None = None

    @property
    def scope(self) -> str:
        """Of the field: builtin, atom or molecule."""
        if rec.is_label(self.kind, self.key, self.tag, self.slot_bytes):
            return "builtin"
        return ("builtin", "atom", "molecule")[self.kind]

    @property
    def per_atom(self) -> bool:
        """Whether the value has one row per atom."""
        return _per_atom(self.kind, self.key)


@dataclass(frozen=True)
class IndexEntry:
    """Where a record lies."""

    offset: int
    stored_bytes: int
    record_bytes: int
    n_atoms: int


def decode_slot(raw: bytes, file_size: int) -> Slot | None:
    """The slot, or None where it does not count."""
    if raw[:4] != b"ATPK" or struct.unpack_from("<I", raw, 4)[0] != 2:
        return None
    if struct.unpack_from("<I", raw, 4092)[0] != zlib.adler32(raw[:4092]):
        return None
    generation, start, index_at, index_length, n = struct.unpack_from("<QQQQQ", raw, 8)
    level, record_format, *schema = struct.unpack_from("<iIQQ", raw, 52)
    slot = Slot(
        generation, start, index_at, index_length, n, raw[48], level, record_format, *schema
    )
    if slot.codec not in CODECS or not 2 * SLOT_BYTES <= slot.data_start <= file_size:
        return None
    if not _range_is_sound(slot.schema_offset, slot.schema_length, slot.data_start, file_size):
        return None
    if not _range_is_sound(slot.index_offset, slot.index_length, slot.data_start, file_size):
        return None
    empty = slot.index_length == 0
    if slot.n_molecules != 0 if empty else slot.index_length != 8 + 20 * slot.n_molecules:
        return None
    return slot


def _range_is_sound(offset: int, length: int, data_start: int, file_size: int) -> bool:
    if offset == 0 and length == 0:
        return True
    return length > 0 and offset >= data_start and offset + length <= file_size


def choose_slot(data: bytes) -> Slot:
    """The newest sound slot; of two with one generation, the first."""
    if data[:4] != b"ATPK":
        raise BadFileError("no magic at the start of the file")
    if len(data) < 2 * SLOT_BYTES:
        raise BadFileError("shorter than the two header slots")
    if data[4:8] != b"\2\0\0\0":
        raise UnsupportedFileError(f"file version {int.from_bytes(data[4:8], 'little')}")
    raw = (data[:SLOT_BYTES], data[SLOT_BYTES : 2 * SLOT_BYTES])
    slots = [slot for slot in (decode_slot(r, len(data)) for r in raw) if slot is not None]
    if not slots:
        raise BadFileError("no sound header slot")
    slot = max(slots, key=lambda s: s.generation)  # max keeps the first of equals
    if slot.record_format not in (2, 3):
        raise UnsupportedFileError(f"record format {slot.record_format}")
    return slot


def decode_schema(blob: bytes) -> tuple[int, list[SchemaEntry]]:
    """Positions type and entries of a schema blob."""
    cursor = Cursor(blob)
    if cursor.number("I", "blob version") != 1:
        raise BadFileError("schema blob version")
    positions_type = cursor.number("B", "positions type")
    if positions_type not in (4, 7, 255):
        raise BadFileError(f"positions type {positions_type}")
    entries = [_schema_entry(cursor) for _ in range(cursor.number("I", "entry count"))]
    if cursor.position != len(blob):
        raise BadFileError("bytes after the schema")
    return positions_type, entries


def _schema_entry(cursor: Cursor) -> SchemaEntry:
    kind, tag, flag = cursor.take(3, "schema entry")
    key_bytes = cursor.number("H", "key length")
    element_bytes = cursor.number("I", "element bytes")
    slot_bytes = cursor.number("I", "slot bytes")
    try:
        key = cursor.take(key_bytes, "schema key").decode()
    except UnicodeDecodeError as error:
        raise BadFileError("schema key is not UTF-8") from error
    per_atom = _per_atom(kind, key)
    if flag != per_atom or ELEMENT_BYTES.get(tag) != element_bytes:
        raise BadFileError(f"schema entry {key!r}: tag {tag}, flag {flag}, element {element_bytes}")
    if not _slot_bytes_possible(tag, per_atom, slot_bytes):
        raise BadFileError(f"schema entry {key!r}: slot bytes {slot_bytes}")
    return SchemaEntry(kind, key, tag, slot_bytes)


def _per_atom(kind: int, key: str) -> bool:
    return kind == rec.ATOM or (kind == rec.BUILTIN and key in rec.PER_ATOM_BUILTINS)


def _slot_bytes_possible(tag: int, per_atom: bool, slot_bytes: int) -> bool:
    element = ELEMENT_BYTES[tag]
    if tag in (rec.STRING, rec.NONE) or tag in rec.TENSORS:
        return slot_bytes == 0
    if per_atom or tag in ARRAY_TAGS:
        return slot_bytes % element == 0
    return slot_bytes == element


def decompress(codec: int, stored: bytes, record_bytes: int) -> bytes:
    """Undo the codec of one record; the result has exactly ``record_bytes``."""
    try:
        raw = _decompress(CODECS[codec], stored, record_bytes)
    except (lz4.block.LZ4BlockError, zstandard.ZstdError, ValueError) as error:
        raise BadFileError(f"{CODECS[codec]}: {error}") from error
    if len(raw) != record_bytes:
        raise BadFileError(f"record of {len(raw)} bytes, the index says {record_bytes}")
    return raw


def _decompress(codec: str, stored: bytes, record_bytes: int) -> bytes:
    if codec == "none":
        return stored
    if record_bytes > 1 << 26:
        raise BadFileError(f"{record_bytes} bytes are no sensible size for a test file")
    if codec == "lz4":
        return bytes(lz4.block.decompress(stored, uncompressed_size=record_bytes))
    whole = b""
    while stored:
        frame = zstandard.ZstdDecompressor().decompressobj()
        whole += frame.decompress(stored)
        if not frame.eof:
            raise BadFileError("zstd: the frame does not end")
        stored = frame.unused_data
    return whole


class AtpFile:
    """One .atp file in memory.

    Attributes:
        slot: the header slot that counts.
        schema: its fields by (scope, key); for files without a schema, found by reading all.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.slot = choose_slot(data)
        self.positions_type = 255
        self.schema: dict[tuple[str, str], SchemaEntry] = {}
        if self.slot.schema_length:
            end = self.slot.schema_offset + self.slot.schema_length
            self.positions_type, entries = decode_schema(data[self.slot.schema_offset : end])
            self.schema = {(e.scope, e.key): e for e in entries if e.kind <= 2}
        self.entries = self._read_index()
        if self.slot.record_format == 3 and self.positions_type == 255 and self.entries:
            raise BadFileError("record format 3 without a positions type")

    @classmethod
    def open(cls, path: str | Path) -> AtpFile:
        """Read a whole file."""
        return cls(Path(path).read_bytes())

    @property
    def wide(self) -> bool:
        """Whether positions are float64."""
        return self.slot.record_format == 3 and self.positions_type == 7

    def _read_index(self) -> list[IndexEntry]:
        slot = self.slot
        if slot.index_length == 0:
            return []
        index = self.data[slot.index_offset : slot.index_offset + slot.index_length]
        if struct.unpack_from("<Q", index)[0] != slot.n_molecules:
            raise BadFileError("the index and the header count differently")
        return [IndexEntry(*e) for e in struct.iter_unpack("<QIII", index[8:])]

    def __len__(self) -> int:
        return len(self.entries)

    def record(self, i: int) -> bytes:
        """The decompressed record of molecule ``i``."""
        entry = self.entries[i]
        end = entry.offset + entry.stored_bytes
        if entry.offset < self.slot.data_start or end > len(self.data):
            raise BadFileError("index entry outside the file")
        return decompress(self.slot.codec, self.data[entry.offset : end], entry.record_bytes)

    def molecule(self, i: int) -> Molecule:
        """Decode molecule ``i``."""
        raw = self.record(i)
        self.check_atom_count(i, raw)
        return rec.decode_record(raw, self.wide)

    def check_atom_count(self, i: int, raw: bytes) -> None:
        """Compare the atom count of a record with that of the index."""
        if len(raw) < 6 or struct.unpack_from("<I", raw)[0] != self.entries[i].n_atoms:
            raise BadFileError("record and index disagree on the number of atoms")

    def molecules(self) -> Iterator[Molecule]:
        """All molecules in order."""
        return (self.molecule(i) for i in range(len(self)))

    def scanned_schema(self) -> dict[tuple[str, str], SchemaEntry]:
        """The schema, or what the records hold where the file has none."""
        if self.slot.schema_length:
            return self.schema
        found: dict[tuple[str, str], SchemaEntry] = {}
        for i in range(len(self)):
            try:
                for entry in self._stored_entries(i):
                    known = found.setdefault((entry.scope, entry.key), entry)
                    if known.shape != entry.shape:
                        found[entry.scope, entry.key] = replace(known, shape=None)
            except BadFileError:
                continue  # what stands before the damage counts
        return found

    def _stored_entries(self, i: int) -> Iterator[SchemaEntry]:
        """What each sound section of a record would have in a schema."""
        raw = self.record(i)
        self.check_atom_count(i, raw)
        cursor = Cursor(raw)
        n_atoms = len(rec.decode_geometry(cursor, self.wide)[1])
        for section in rec.sections_of(cursor):
            try:
                key = section.key.decode()
            except UnicodeDecodeError as error:
                raise BadFileError("key is not UTF-8") from error
            if section.kind > rec.MOLECULE or (
                section.kind == rec.BUILTIN and key not in rec.LEGAL_BUILTINS
            ):
                continue
            try:
                value = rec.decode_value(section, key, n_atoms)
            except BadValueError as error:
                if section.kind == rec.BUILTIN:
                    raise BadFileError(str(error)) from error
                continue
            fixed = section.kind == rec.MOLECULE and section.tag in rec.TENSORS
            shape = value.data.shape if fixed else None
            yield SchemaEntry(section.kind, key, section.tag, len(section.payload), shape)
