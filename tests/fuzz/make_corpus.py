"""Write the hand-made part of the fuzz corpus.

Seeds for the record and codec targets are cut out of .atp fixtures; files for the reader target
are small irregular ones that the fixtures do not have, as are extended XYZ files and pickles;
those for Atlas shards are whole small shards of fixtures. Run it again when the layout of a
target's input changes:

    python tests/fuzz/make_corpus.py FIXTURES tests/fuzz/corpus
"""

from __future__ import annotations

import json
import pickle
import random
import struct
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SLOT_BYTES = 4096
DATA_START = 2 * SLOT_BYTES
LARGEST_SEED = 1024
EMPTY_LAYER = 108
ZSTD_MAGIC = struct.pack("<I", 0xFD2FB528)


@dataclass(frozen=True)
class Slot:
    """What a header slot says, as far as it matters here."""

    generation: int
    index_offset: int
    n_molecules: int
    codec: int
    record_format: int
    schema_offset: int
    schema_length: int

    @classmethod
    def decode(cls, raw: bytes) -> Slot | None:
        """The slot, or None where it is not whole."""
        whole = len(raw) == SLOT_BYTES and raw[:4] == b"ATPK"
        if not whole or struct.unpack_from("<I", raw, 4092)[0] != zlib.adler32(raw[:4092]):
            return None
        generation, _, index_offset, _, n_molecules = struct.unpack_from("<QQQQQ", raw, 8)
        record_format, schema_offset, schema_length = struct.unpack_from("<IQQ", raw, 56)
        return cls(
            generation,
            index_offset,
            n_molecules,
            raw[48],
            record_format,
            schema_offset,
            schema_length,
        )

    def encode(self) -> bytes:
        """A slot of one 4 KiB page with a right checksum."""
        index_length = 8 + 20 * self.n_molecules if self.index_offset else 0
        raw = struct.pack("<4sIQQ", b"ATPK", 2, self.generation, DATA_START)
        raw += struct.pack("<QQQ", self.index_offset, index_length, self.n_molecules)
        raw += struct.pack("<Bxxxi", self.codec, 0)
        raw += struct.pack("<IQQ", self.record_format, self.schema_offset, self.schema_length)
        raw = raw.ljust(SLOT_BYTES - 4, b"\0")
        return raw + struct.pack("<I", zlib.adler32(raw))


def newest_slot(data: bytes) -> Slot | None:
    """The slot that counts."""
    decoded = (Slot.decode(data[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES))
    slots = [slot for slot in decoded if slot is not None]
    return max(slots, key=lambda slot: slot.generation, default=None)


def stored_units(data: bytes, slot: Slot) -> Iterator[bytes]:
    """The stored bytes of each molecule, wherever an entry says they lie."""
    for i in range(slot.n_molecules):
        entry = data[slot.index_offset + 8 + 20 * i :][:20]
        if len(entry) == 20:
            offset, stored_bytes = struct.unpack_from("<QI", entry)
            yield data[offset : offset + stored_bytes]


def record_seed(slot: Slot, schema: bytes, record: bytes) -> bytes:
    """An input of the record target: flags, schema length, schema, record."""
    return struct.pack("<BH", slot.record_format == 3, len(schema)) + schema + record


def seeds_from(path: Path) -> Iterator[tuple[str, bytes]]:
    """Pairs of target and input that one fixture gives."""
    data = path.read_bytes()
    slot = newest_slot(data)
    if slot is None:
        return
    schema = data[slot.schema_offset : slot.schema_offset + slot.schema_length]
    for unit in stored_units(data, slot):
        if slot.codec == 0:
            yield "atp_record", record_seed(slot, schema, unit)
        else:
            yield ("lz4_bound" if slot.codec == 1 else "zstd_bound"), unit


def zstd_block(kind: int, size: int, body: bytes, *, last: bool = True) -> bytes:
    """A block with its three header bytes."""
    return struct.pack("<I", size << 3 | kind << 1 | last)[:3] + body


def zstd_seeds() -> Iterator[tuple[str, bytes]]:
    """Frames of kinds that the fixtures do not have."""
    raw = zstd_block(0, 3, b"abc")
    yield "window", ZSTD_MAGIC + b"\x00\x38" + raw
    yield "repeat", ZSTD_MAGIC + b"\x00\x38" + zstd_block(1, 1000, b"x")
    yield "repeat_too_long", ZSTD_MAGIC + b"\x00\x38" + zstd_block(1, (1 << 21) - 1, b"x")
    yield "size_lies", ZSTD_MAGIC + b"\xe0" + struct.pack("<Q", 1 << 40) + raw
    yield "dictionary", ZSTD_MAGIC + b"\x23\x01\x00\x00\x00\x03" + raw
    yield "legacy_magic", struct.pack("<I", 0xFD2FB527) + b"\x00\x31\xfc\x2f\x00"
    yield "skippable", struct.pack("<II", 0x184D2A50, 2) + b"zz" + ZSTD_MAGIC + b"\x20\x03" + raw
    yield (
        "two_blocks",
        (ZSTD_MAGIC + b"\x00\x38" + zstd_block(0, 1, b"a", last=False) + zstd_block(1, 9, b"b")),
    )


def schema_with(key: bytes, tag: int, element: int, slot_bytes: int) -> bytes:
    """A schema of one molecule property."""
    entry = struct.pack("<BBBHII", 2, tag, 0, len(key), element, slot_bytes)
    return struct.pack("<IBI", 1, 4, 1) + entry + key


def one_molecule(schema: bytes, record: bytes, *, schema_last: bool = False) -> bytes:
    """A file of one uncompressed molecule without atoms, its schema before or behind the index."""
    entry = struct.pack("<QIII", DATA_START, len(record), len(record), 0)
    index = struct.pack("<Q", 1) + entry
    end = DATA_START + len(record)
    index_offset = end if schema_last else end + len(schema)
    schema_offset = end + len(index) if schema_last else end
    slot = Slot(1, index_offset, 1, 0, 2, schema_offset, len(schema))
    tail = index + schema if schema_last else schema + index
    return slot.encode() * 2 + record + tail


def reader_seeds() -> Iterator[tuple[str, bytes]]:
    """Irregular files."""
    section = struct.pack("<BB", 2, 1) + b"k" + struct.pack("<BIq", 1, 8, 7)
    record = struct.pack("<IH", 0, 1) + section
    schema = schema_with(b"k", 1, 8, 8)
    yield "schema_behind_index", one_molecule(schema, record, schema_last=True)
    no_index = Slot(1, 0, 0, 0, 2, DATA_START + 4096, len(schema))
    yield "schema_without_index", no_index.encode() * 2 + bytes(4096) + schema
    yield "large_slot", one_molecule(schema_with(b"k", 3, 8, 0xFFFFFFF8), record)
    # A key of 256 bytes does not fit a section's length byte, which then says 0.
    long_key = b"\0" * 256
    destroyed = struct.pack("<IH", 0, 1) + b"\x02\0" + long_key + struct.pack("<BIq", 1, 8, 7)
    yield "key_too_long", one_molecule(schema_with(long_key, 1, 8, 8), destroyed)


ROWS = {
    "plain": {"numbers": [1, 8], "positions": [[0, 0, 0.5], [1, 2, 3]], "pbc": [True, False, True]},
    "values": {
        "numbers": {"__ndarray__": [[2], "int64", [1, 8]]},
        "positions": {"__ndarray__": [[2, 3], "float64", [0.0, 1.5, 2.0, 3.0, 4.0, 5e-7]]},
        "cell": {"__ndarray__": [[3, 3], "float64", [4.0, 0, 0, 0, 4.0, 0, 0, 0, 4.0]]},
        "energy": -1.5,
        "forces": {"__ndarray__": [[2, 3], "float32", [1, 2, 3, 4, 5, 6]]},
        "stress": [1, 2, 3, 4, 5, 6],
        "tags": [0, 1],
        "constraints": [{"name": "FixAtoms", "kwargs": {"indices": [0]}}],
        "key_value_pairs": {"a": 1, "b": True, "c": "x"},
        "data": {"d": None, "e": [[1], [2.5]], "f": {"g": 1}, "atom_properties/q": [1, 2]},
    },
}


def row_seeds() -> Iterator[tuple[str, bytes]]:
    """Rows of an ASE database, and a database of them."""
    import tempfile

    import lmdb

    rows = {name: json.dumps(row).encode() for name, row in ROWS.items()}
    yield from rows.items()
    yield "special_numbers", rows["plain"].replace(b"0.5", b"NaN").replace(b"2,", b"-Infinity,")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        with (
            lmdb.open(str(path), subdir=False, lock=False, map_size=1 << 20) as environment,
            environment.begin(write=True) as transaction,
        ):
            for number, row in enumerate(rows.values(), 1):
                packed = zlib.compress(row) if number % 2 else row
                transaction.put(b"%d" % number, packed)
            transaction.put(b"nextid", zlib.compress(b"5"))
            transaction.put(b"deleted_ids", zlib.compress(b"[3, 4]"))
        yield "database", path.read_bytes()


def extxyz_seeds() -> Iterator[tuple[str, bytes]]:
    """Extended XYZ files that have something of everything."""
    columns = "Properties=species:S:1:pos:R:3:forces:R:3:Z:I:1:on:L:1:site:S:1"
    lattice = 'Lattice="1 0 0 0 2 0 0 0 3.5" pbc="T F T"'
    yield (
        "frames",
        f"2\n{lattice} {columns} energy=-1.5\nH 0 0 0.5 1 2 3 1 T a\nX 1 2 3 nan inf -0 255 F b\n"
        f'1\nenergy=2 name="a \\"b\\"" stress="1 2 3 4 5 6 7 8 9"\nhe 1e-3 1.5D2 +7\n'.encode(),
    )
    yield (
        "values",
        b'0\na=5 b="1 2.5" c=T d={T F} e=[[1,2],[3,4]] f="_JSON [[1.5], [2]]" g uid=7 h=\'x y\' '
        rb'i="_JSON \"\u00e9\n\"" j="_JSON {}" k=1e400 l="" m=x=y "n o"=[] virial=1' + b"\n",
    )
    yield "plain", b"1\r\nA remark\r\nFe 1 2 3 4\r\n\r\n1\n\nH 0 0 0"
    yield (
        "differs",
        b"".join(
            f"1\na={a} Properties=species:S:1:pos:R:3:q:{kind}:{width}\nH 0 0 0{words}\n".encode()
            for a, kind, width, words in (
                ("1", "R", 1, " 1"),
                ("x", "I", 2, " 1 2"),
                ('"1 2"', "S", 1, " s"),
            )
        ),
    )
    yield "cut", b"3\na=1\nH 0 0 0\nH 0"


def neighbor_seeds() -> Iterator[tuple[str, bytes]]:
    """Structures: open and periodic, ordinary and out of all proportion."""
    open_, all_, full, vectors, itself, wide = 0, 7, 8, 16, 32, 64

    def structure(flags: int, cutoff: float, cell: list[float], positions: list[float]) -> bytes:
        numbers = [cutoff, *cell, *positions]
        if flags & wide:
            return struct.pack(f"<B{len(numbers)}d", flags, *numbers)
        return struct.pack(f"<B{len(numbers)}h", flags, *(round(256 * x) for x in numbers))

    cube, skewed = [4, 0, 0, 0, 4, 0, 0, 0, 4], [3, 0, 0, 1.5, 3.2, 0, -1, -1.5, 2.8]
    some = [0, 0, 0, 1, 2, 3, -2, 1, 7, 3.5, 3.5, 3.5, 20, -30, 1]
    yield "open", structure(open_ | full | vectors, 2.5, cube, some)
    yield "cube", structure(all_ | full | itself, 4, cube, some)
    yield "half", structure(all_ | vectors, 5, skewed, some)
    yield "slab", structure(3 | full, 3, skewed, some * 2)
    yield "left_handed", structure(all_ | wide, 3, cube[3:6] + cube[:3] + cube[6:], some)
    yield "speck", structure(all_ | full | wide, 5, [x * 1e-3 for x in cube], [0, 0, 0])
    yield "wire", structure(1 | full | wide, 2.5, cube, [0, 0, 0, 1e5, 0, 0, 3e6, 1e-3, 0])
    yield "huge", structure(all_ | full | wide, 2, [x * 1e15 for x in cube], some)
    yield (
        "many",
        structure(all_ | full, 3, [12, 0, 0, 0, 12, 0, 0, 5, 12], [k * 7 % 12 for k in range(300)]),
    )


def heap_collection(*objects: tuple[int, bytes]) -> bytes:
    """A collection of the global heap of HDF5, with free space at its end."""
    body = b"".join(
        struct.pack("<HHIQ", number, 1, 0, len(payload)) + payload + bytes(-len(payload) % 8)
        for number, payload in objects
    )
    free = 256 - 16 - len(body)
    return (
        b"GCOL\1\0\0\0"
        + struct.pack("<Q", 256)
        + body
        + struct.pack("<QQ", 0, free)
        + bytes(free - 16)
    )


def vlen_seeds() -> Iterator[tuple[str, bytes]]:
    """Rows of variable length, in the order of the heap and in another."""
    heap = heap_collection((1, struct.pack("<4q", 0, 1, 2, 0)), (2, b"abcde"), (4, b"12345678"))
    references = [(4, 0, 1), (0, 0, 0), (1, 0, 4), (5, 0, 2), (1, 7, 9)]
    for name, kind, order in (("int64", 2, 1), ("uint8", 0, -1), ("float32", 3, 1)):
        packed = b"".join(struct.pack("<IQI", *r) for r in references[::order])
        yield name, bytes([kind, 0, len(references)]) + packed + heap
    packed = struct.pack("<IQI", 8, 0, 4) * 2
    yield "with_base", bytes([0, 9, 2]) + packed + bytes(9) + heap


def chunk_seeds() -> Iterator[tuple[str, bytes]]:
    """Chunks through each filter, of deflate streams through each kind of block."""
    rows, size = 40, 24
    raw = b"".join(struct.pack("<qqii", i, 3 * i, 5, 18) for i in range(rows))
    shuffled = bytes(raw[i * size + k] for k in range(size) for i in range(rows))
    for filters, data in ((0, raw), (1, shuffled), (2, raw), (3, shuffled)):
        head = bytes([0, rows, size - 1, filters, 3, 30, 8, 0])
        for level in (0, 1, 9) if filters & 2 else (None,):
            stored = data if level is None else zlib.compress(data, level)
            yield f"filters_{filters}_level_{level}", head + stored
    fixed = zlib.compressobj(9, strategy=zlib.Z_FIXED)
    yield "fixed", bytes([0, rows, size - 1, 2, 0, 9, 0, 0]) + fixed.compress(raw) + fixed.flush()
    yield "zeros", bytes([255, 0, 3, 3, 0, 9, 0, 0]) + zlib.compress(bytes(65280 * 4))


def pickle_seeds() -> Iterator[tuple[str, bytes]]:
    """Pickles that no program writes, but that can be read."""
    yield (
        "repeated_keys",
        b"\x80\x04}(\x8c\x01aK\x01\x88K\x02K\x01K\x03G\x3f\xf0" + bytes(6) + b"NuK\x01N\x86Ns.",
    )
    yield "sparse_memo", b"\x80\x02]r\x14\x00\x00\x00j\x14\x00\x00\x00\x94h\x01q\x00\x87."
    yield "list_grows", b"\x80\x04](]\x94K\x01ah\x00K\x02a](K\x03K\x04eK\x05ah\x00(K\x06K\x07ee."
    dtype = b"\x8c\x05numpy\x94\x8c\x05dtype\x94\x93\x94\x8c\x02%s\x89\x88\x87R(K\x03\x8c\x01%sN"
    plain = dtype + b"NNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    buffer = b"cnumpy._core.numeric\n_frombuffer\n(\x96" + struct.pack("<Q", 12) + bytes(12)
    axes = b"K\x03K\x02K\x01\x87\x8c\x01KK\x02K\x00K\x01\x87tR."
    yield "other_axes", b"\x80\x05" + buffer + plain % (b"i2", b">") + axes
    record = dtype % (b"V3", b"|") + b"\x8c\x01a\x85}\x8c\x01a" + plain % (b"u2", b">")
    yield "one_field", b"\x80\x04" + record + b"K\x01\x86sK\x03K\x01K\x10tb."


def structure_seeds() -> Iterator[tuple[str, bytes]]:
    """Structures with lists instead of arrays."""
    head = b"\x80\x05caenet.torch_training.config\nStructure\n)\x81}(\x8c\tpositions]"
    rows = b"(](K\x01K\x02K\x03e](K\x04K\x05\x88ee\x8c\x07species\x8c\x01H\x8c\x01H\x86"
    rest = b"\x8c\x03pbc\x88\x89K\x01\x87\x8c\x06energyK\x05\x8c\x04nameN"
    yield "lists", head + rows + rest + b"ub."
    yield "no_atoms", head + b"\x8c\x07species)ub."


def shard_seed(shard: Path, dictionary: bytes = b"") -> bytes:
    """A whole shard as the target takes it."""
    meta = json.loads((shard / "meta.json").read_text())
    n_blocks = -(-meta["stored_examples"] // meta["block_size"])
    index = (shard / "index.npy").read_bytes()
    flags = (meta["compression_strategy"] == 0) + 2 * bool(dictionary)
    head = bytes([flags, n_blocks, len(index)]) + index
    data = (shard / "data.bin").read_bytes()
    return head + struct.pack("<H", len(dictionary)) + dictionary + data


def shard_seeds(datasets: Path) -> Iterator[tuple[str, bytes]]:
    """Small shards of every strategy and kind of index."""
    for name in ("index_255", "index_256", "s0_mixed", "s1_atoms", "odd_index_be"):
        yield name, shard_seed(max((datasets / name).glob("*/"), key=lambda folder: folder.name))
    for name in ("odd_trailing", "strings", "nested", "torch_tensors", "s2_fallback", "aliases"):
        yield name, shard_seed(datasets / name / "0")
    for name, owner in (("odd_raw_dict", "0"), ("s2_late_short", "")):
        dictionary = (datasets / name / owner / "zstd_dict.bin").read_bytes()
        yield name, shard_seed(datasets / name / (owner or "1"), dictionary)


def shard_change_seeds() -> Iterator[tuple[str, bytes]]:
    """Choices of examples to write."""
    chooser = random.Random(4)
    for n in range(4):
        yield f"examples_{n}", chooser.randbytes(60 << n)


def plan_seeds() -> Iterator[tuple[str, bytes]]:
    """Lists of nested values, of arrays that differ in their rows, and of molecules."""
    plain = [{"n": i, "x": i / 2, "t": ["a", b"b"], "in": {"k": (True, i)}} for i in range(3)]
    yield "plain", b"\0" + pickle.dumps(plain, protocol=4)
    array = numpy_array("u1", (2,), bytes(2))
    for flags in (1, 3):
        rows = b"".join(numpy_array("f4", (n, 2), bytes(8 * n)) for n in range(3))
        yield f"rows_{flags}", bytes([flags]) + b"\x80\x04](" + rows + b"e."
        atoms = b"}(\x8c\x0eatomic_numbers" + array + b"\x8c\x09positions"
        atoms += numpy_array("f4", (2, 3), bytes(24)) + b"\x8c\x06energyG" + bytes(8)
        atoms += b"\x8c\x04spin" + array + b"\x8c\x04nameX\1\0\0\0au"
        yield f"molecules_{flags}", bytes([flags]) + b"\x80\x04](" + 2 * atoms + b"e."


def numpy_array(dtype: str, shape: tuple[int, ...], data: bytes) -> bytes:
    """The opcodes of an array of NumPy."""
    extents = b"(" + b"".join(b"K" + bytes([n]) for n in shape) + b"t"
    kind = b"cnumpy\ndtype\n(\x8c\x02" + dtype.encode() + b"\x89\x88tR"
    kind += b"(K\x03\x8c\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    made = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR"
    return made + b"(K\x01" + extents + kind + b"\x89C" + bytes([len(data)]) + data + b"tb"


def shard_meta_seeds() -> Iterator[tuple[str, bytes]]:
    """Both kinds of meta.json, and numbers of other kinds in them."""
    root = b'{"version": 1, "shard_sizes": [%s], "compression_strategy": %s}'
    shard = b'{"version":1,"block_size":%s,"stored_examples":%s,"compression_strategy":3,'
    shard += b'"compression_level":-7,"compression_dict_size":%s}'
    yield "root", root % (b"3, 0, 18446744073709551615", b"2")
    yield "root_of_reals", root % (b"3.0, -1, 1e999", b"true")
    yield "shard", shard % (b"4", b"9223372036854775807", b"0.01")
    yield "shard_of_texts", shard % (b'"\\ud800"', b"[[1]]", b"null")


def array_file_seeds(fixtures: Path) -> Iterator[tuple[str, bytes]]:
    """Layers of small array files, one alone and each on the one before."""
    known = set()
    for folder in sorted(path.parent for path in fixtures.glob("atlas/*/*/data.af")):
        layers = sorted(folder.glob("data*.af"), key=lambda path: (len(path.name), path.name))
        files = [path.read_bytes() for path in layers]
        for i, data in enumerate(files):
            below = files[i - 1] if i > 1 else b""
            if (
                len(data) > EMPTY_LAYER
                and len(below) + len(data) <= LARGEST_SEED
                and (below, data) not in known
            ):
                known.add((below, data))
                name = f"{folder.parent.name}_{folder.name}_{i}".replace(" ", "_")
                yield name, struct.pack("<H", len(below)) + below + data


def store_metadata_seeds(fixtures: Path) -> Iterator[tuple[str, bytes]]:
    """Metadata of small stores, of damaged ones too, and what they do not show."""
    for form in ("json", "msgpack"):
        for path in sorted(fixtures.glob(f"atlas/**/atlas.{form}")):
            data = path.read_bytes()
            if len(data) <= 2 * LARGEST_SEED:
                yield f"{path.parent.name}_{form}", data
    lists = (
        b'{"type":"list","args":{"child":{"type":"fixed_size_list",'
        b'"args":{"size":2,"child":{"type":"int8"}}}}}'
    )
    array = b'{"dtype":%b,"shape":[1],"chunk_shape":[1],"dimension_names":["x"],"codec":"Zstd"}'
    datasets = b'{"d":{"arrays":{"v":%b}}}' % (array % lists)
    yield "lists", b'{"version":0,"datasets":%b}' % datasets
    yield (
        "escapes",
        b'{"version":1,"datasets":{"\\u00e9\\ud83d\\ude42\\n":{"attributes":{"a":-0.5e-3}}}}',
    )


def array_change_seeds() -> Iterator[tuple[str, bytes]]:
    """Choices of changes of an array file."""
    chooser = random.Random(3)
    for n in range(4):
        yield f"changes_{n}", chooser.randbytes(100 << n)


def address_seeds() -> Iterator[tuple[str, bytes]]:
    """Addresses, and redirects."""
    yield "s3", b"s3://bucket/a folder/x+y=z%25.atp"
    yield "https", b"https://user:password@host.example:8443/a/../b?sig=1%2F2&x=#end"
    yield "relative", b"http://127.0.0.1:80/a/b.atp../c%20d?e=f"
    yield "no_host", b"http://:80/a"
    yield "two", b"http://one.example/123https://two.example/"


def answer_seeds() -> Iterator[tuple[str, bytes]]:
    """Answers to requests for ranges."""

    def answer(offset: int, length: int, lines: list[bytes], body: bytes, pinned: int = 0) -> bytes:
        request = bytes([offset, 1, length - 1, 255, 10, pinned, len(lines)])
        head = b"".join(bytes([len(line)]) + line for line in lines)
        pieces = (body[i : i + 100] for i in range(0, len(body), 100))
        return request + head + b"".join(bytes([len(piece)]) + piece for piece in pieces)

    part = [b"HTTP/1.1 206 Partial Content", b"Content-Range: bytes 5-104/115", b'ETag: "v"']
    yield "part", answer(5, 100, part, b"x" * 100)
    yield "pinned_part", answer(5, 100, part, b"x" * 100, 1)
    yield "cut", answer(5, 100, part, b"x" * 40)
    yield "long", answer(5, 100, part, b"x" * 140)
    yield "other", answer(6, 100, part, b"x" * 100)
    yield "whole", answer(5, 10, [b"HTTP/1.1 200 OK", b"Content-Length: 25"], b"y" * 25)
    yield "whole_of_unknown_size", answer(5, 30, [b"HTTP/1.1 200 OK"], b"y" * 25)
    yield "busy", answer(5, 10, [b"HTTP/1.1 503 Slow Down", b"Retry-After: 7"], b"later")


def main(fixtures: Path, corpus: Path) -> None:
    """Write everything."""
    inputs = {("zstd_bound", name): data for name, data in zstd_seeds()}
    inputs |= {("atp_reader", name): data for name, data in reader_seeds()}
    inputs |= {("extxyz", name): data for name, data in extxyz_seeds()}
    inputs |= {
        ("lmdb_rows" if name == "database" else "lmdb_row", name): data
        for name, data in row_seeds()
    }
    inputs |= {("neighbors", name): data for name, data in neighbor_seeds()}
    inputs |= {("vlen_rows", name): data for name, data in vlen_seeds()}
    inputs |= {("hdf5_chunk", name): data for name, data in chunk_seeds()}
    inputs |= {("pickle", name): data for name, data in pickle_seeds()}
    inputs |= {("structure", name): data for name, data in structure_seeds()}
    inputs |= {("array_format", name): data for name, data in array_file_seeds(fixtures)}
    inputs |= {("array_writer", name): data for name, data in array_change_seeds()}
    inputs |= {("atlas_metadata", name): data for name, data in store_metadata_seeds(fixtures)}
    inputs |= {("atlas_shard_meta", name): data for name, data in shard_meta_seeds()}
    datasets = fixtures / "atlas_shards" / "data"
    inputs |= {("atlas_shard", name): data for name, data in shard_seeds(datasets)}
    inputs |= {("atlas_shard_writer", name): data for name, data in shard_change_seeds()}
    inputs |= {("example_plan", name): data for name, data in plan_seeds()}
    inputs |= {("http_address", name): data for name, data in address_seeds()}
    inputs |= {("http_answer", name): data for name, data in answer_seeds()}
    known = set(inputs.values())
    for path in sorted(fixtures.glob("atp/**/*.atp")):
        for i, (target, data) in enumerate(seeds_from(path)):
            if data not in known and len(data) <= LARGEST_SEED:
                known.add(data)
                inputs[target, f"{path.stem}_{i}"] = data
    fronts = {"lz4_bound": b"\x01\x64\x00", "zstd_bound": b"\x02\x64\x00"}
    for (target, name), data in list(inputs.items()):
        if target in fronts:
            inputs["decompress_front", name] = fronts[target] + data
    for (target, name), data in inputs.items():
        folder = corpus / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    print(f"{len(inputs)} inputs of {sum(map(len, inputs.values()))} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
