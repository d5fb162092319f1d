"""Options of AtpDataset, wrong arguments, damaged files made by hand, messages."""

from __future__ import annotations

import pickle
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.client import AtompackProcess
from reference import atp_record as rec
from reference import strategies
from reference.atp_file import SLOT_BYTES, AtpFile, decode_slot
from reference.atp_forge import (
    Lie,
    atom_property,
    atp_file,
    builtin,
    molecule_property,
    record,
    schema_blob,
    slot,
    tensor,
)
from reference.collate import ReferenceDataset
from reference.compare import assert_batch, assert_molecule
from reference.names import reserved_names

import atompack_torch as apt

NewPath = Callable[[], Path]
ENERGY = builtin("energy", rec.F64, struct.pack("<d", 2.5))
RECIPE = strategies.Recipe(
    "f4", {"energy": "f8", "forces": "f4", "cell": "f8"}, {"gap": strategies.Kind("float")}
)


@pytest.fixture
def path(atompack: AtompackProcess, new_path: NewPath) -> Path:
    """Ten molecules with most labels, each absent here and there."""
    rng = np.random.default_rng(11)
    molecules = [strategies.molecule(rng, RECIPE, n, present=0.7) for n in range(10)]
    return atompack.write(new_path(), molecules, "zstd")


@pytest.fixture
def reference(path: Path) -> ReferenceDataset:
    """The reference's reading of ``path``."""
    return ReferenceDataset([AtpFile.open(path)], reserved_names())


@pytest.mark.parametrize("access", ["auto", "populate", "random", "sequential"])
def test_ways_of_mapping(path: Path, reference: ReferenceDataset, access: Any) -> None:
    dataset = apt.AtpDataset(path, access=access)
    assert_batch(dataset.batch(range(10)), reference.batch(range(10)))


def test_transform_sees_every_batch(path: Path, reference: ReferenceDataset) -> None:
    def double(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch.energy.mul_(2)
        return batch

    dataset = apt.AtpDataset(path, transform=double)
    want = reference.batch([1, 2])
    want.values["energy"] = want.values["energy"] * 2
    assert_batch(dataset.batch([1, 2]), want)
    assert_batch(dataset[1:3], want)
    assert_batch(dataset.__getitems__([1, 2])[0], want)
    assert_batch(dataset.subset([0, 1, 2]).batch([1, 2]).clone(), want)
    assert_molecule(dataset[1], reference.molecule(1), apt.CorruptFileError)


def test_subset_of_a_subset_and_its_errors(path: Path, reference: ReferenceDataset) -> None:
    subset = apt.AtpDataset(path).subset([9, 4, 4, -1]).subset([3, 1])
    assert_batch(subset.batch([0, 1, -1]), reference.batch([9, 4, 4]))
    assert len(pickle.loads(pickle.dumps(subset))) == 2
    with pytest.raises(IndexError):
        subset[2]
    with pytest.raises(IndexError):
        apt.AtpDataset(path).subset([10])


@pytest.mark.parametrize(
    "options",
    [
        {"missing": "zero"},
        {"access": "fast"},
        {"num_threads": 0},
        {"dtype": torch.int64},
        {"dtype": {"energy": torch.int64}},
        {"num_threads": -1},
    ],
)
def test_wrong_values_are_refused(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        apt.AtpDataset(path, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "float32"},
        {"fields": "energy"},
        {"exclude": "energy"},
        {"transform": 3},
        {"features": 3},
    ],
)
def test_wrong_types_are_refused(path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        apt.AtpDataset(path, **options)


def test_unknown_fields(path: Path) -> None:
    with pytest.raises(apt.FieldError, match="'nope'"):
        apt.AtpDataset(path, fields=["energy", "nope"]).batch([0])
    for item in (apt.AtpDataset(path).batch([0]), apt.AtpDataset(path)[0]):
        for key in ("nope", "properties/energy", "atom_properties/gap"):
            with pytest.raises(apt.FieldError, match=re.escape(key)) as caught:
                item[key]
            assert isinstance(caught.value, KeyError)
        with pytest.raises(AttributeError, match="nope"):
            item.nope  # noqa: B018


def test_numbers_in_messages_are_those_within_the_file(path: Path, new_path: NewPath) -> None:
    second = new_path()
    second.write_bytes(atp_file([record(2, [ENERGY]), record(2, [ENERGY])[:-3]]))
    dataset = apt.AtpDataset([path, second])
    with pytest.raises(apt.CorruptFileError, match=rf"^{second}: .*\(molecule 1\b"):
        dataset[11]
    with pytest.raises(apt.CorruptFileError, match=rf"^{second}: .*\(molecule 1\b"):
        dataset.batch([0, 11])


def forge(new_path: NewPath, *args: Any, **options: Any) -> Path:
    """Write a hand-made file."""
    path = new_path()
    path.write_bytes(atp_file(*args, **options))
    return path


@pytest.mark.parametrize("codec", strategies.CODECS)
@pytest.mark.parametrize(
    "lie",
    [
        Lie(1, offset=0),
        Lie(1, offset=2**64 - 1),
        Lie(1, stored_bytes=2**32 - 1),
        Lie(1, stored_bytes=0),
        Lie(1, record_bytes=2**32 - 1),
        Lie(1, record_bytes=3),
        Lie(1, n_atoms=0),
        Lie(1, n_atoms=2**32 - 1),
    ],
)
def test_lies_in_the_index(new_path: NewPath, codec: str, lie: Lie) -> None:
    """Claims of an entry are checked before memory is taken for them."""
    records = [record(2, [ENERGY]), record(3, [ENERGY]), record(1, [ENERGY])]
    schema = schema_blob([(0, "energy", rec.F64, 8)])
    path = forge(new_path, records, codec=codec, schema=schema, lies=[lie])
    dataset = apt.AtpDataset(path)
    assert len(dataset) == 3
    with pytest.raises(apt.CorruptFileError, match="molecule 1"):
        dataset[1]
    with pytest.raises(apt.CorruptFileError, match="molecule 1"):
        dataset.batch([0, 1, 2])
    assert dataset.batch([0, 2]).energy.tolist() == [2.5, 2.5]


HOSTILE_HEADERS: list[dict[str, Any]] = [
    {"n_molecules": 2**62 + 1},  # 8 + 20 n wraps round to the true index length
    {"n_molecules": 2**64 - 1},
    {"index": (2**64 - 28, 28)},
    {"index": (8192, 2**64 - 1)},
    {"index": (8192, 0)},
    {"index": (0, 28)},
    {"schema": (2**64 - 1, 57)},
    {"schema": (8192, 2**64 - 1)},
    {"schema": (8192, 0)},
    {"schema": (0, 57)},
    {"data_start": 0},
    {"data_start": 2**64 - 1},
    {"codec": 255},
]


@pytest.mark.parametrize("claims", HOSTILE_HEADERS, ids=str)
def test_lies_in_a_header_with_a_right_checksum(new_path: NewPath, claims: dict[str, Any]) -> None:
    """Such a slot does not count: the other one, empty as it was created, does."""
    sound = atp_file([record(2, [ENERGY])], schema=schema_blob([(0, "energy", rec.F64, 8)]))
    truth = decode_slot(sound[SLOT_BYTES : 2 * SLOT_BYTES], len(sound))
    assert truth is not None
    told: dict[str, Any] = {
        "index": (truth.index_offset, truth.index_length),
        "schema": (truth.schema_offset, truth.schema_length),
        "n_molecules": truth.n_molecules,
    }
    path = new_path()
    header = sound[:SLOT_BYTES] + slot(1, **(told | claims))
    path.write_bytes(header + sound[2 * SLOT_BYTES :])
    assert len(apt.AtpDataset(path)) == 0
    path.write_bytes(header[SLOT_BYTES:] * 2 + sound[2 * SLOT_BYTES :])
    with pytest.raises(apt.CorruptFileError):
        apt.AtpDataset(path)


@pytest.mark.parametrize("slot_bytes", [2**32 - 8, 2**20])
def test_schema_sizes_that_no_record_bears_out(new_path: NewPath, slot_bytes: int) -> None:
    """A batch makes room for absent arrays: not for more than the file could hold."""
    rows = [(2, "k", rec.F64_ARRAY, slot_bytes)]
    path = forge(new_path, [record(1), record(1)], schema=schema_blob(rows))
    with pytest.raises(apt.CorruptFileError, match="'k'"):
        apt.AtpDataset(path).batch([0, 1] * 50)


def test_claims_inside_a_record(new_path: NewPath) -> None:
    """A count of atoms, sections or bytes that the record cannot hold is refused."""
    many_atoms = struct.pack("<I", 2**32 - 1) + bytes(64)
    many_sections = record(1)[:-2] + b"\xff\xff" + ENERGY
    long_payload = record(1, [ENERGY])[:-12] + b"\xff\xff\xff\xff" + bytes(8)
    huge = struct.pack("<B4I", 4, *[2**32 - 1] * 4)
    path = forge(new_path, [many_atoms, many_sections, long_payload])
    dataset = apt.AtpDataset(path)
    for i in range(3):
        with pytest.raises(apt.CorruptFileError, match=f"molecule {i}"):
            dataset[i]
    for tag in rec.TENSORS:
        wild = forge(new_path, [record(1, [molecule_property("t", tag, huge)])])
        with pytest.raises(apt.CorruptFileError, match="'t'"):
            apt.AtpDataset(wild)[0]["t"]
        with pytest.raises(apt.CorruptFileError, match="'t'"):
            apt.AtpDataset(wild).batch([0])


def test_a_dim_of_zero_beside_huge_ones(new_path: NewPath) -> None:
    """The product is 0 and the payload right: refused or delivered, never a crash."""
    payload = struct.pack("<B3I", 3, 2**32 - 1, 0, 2**32 - 1)
    path = forge(new_path, [record(1, [molecule_property("t", rec.F64_TENSOR, payload)])])
    try:
        value = apt.AtpDataset(path).batch([0])["t"]
    except apt.AtompackError:
        return
    assert value.shape == (1, 2**32 - 1, 0, 2**32 - 1)


@pytest.mark.parametrize("rank", [1, 62, 63, 255])
def test_tensors_of_high_rank(new_path: NewPath, rank: int) -> None:
    payload = struct.pack(f"<B{rank}I", rank, *[1] * rank) + struct.pack("<d", 4.0)
    path = forge(new_path, [record(1, [molecule_property("t", rec.F64_TENSOR, payload)])])
    dataset = apt.AtpDataset(path)
    try:
        got = dataset[0]["t"]
    except apt.AtompackError:  # torch has no tensors of so many dimensions
        assert rank > 62
        return
    assert tuple(got.shape) == (1,) * rank
    assert got.flatten().tolist() == [4.0]


def test_many_shapes_of_tensors(new_path: NewPath) -> None:
    values = [np.ones((2, 2)), np.ones((2, 3)), np.ones(4)]
    sections = [[molecule_property("t", rec.F64_TENSOR, tensor(v))] for v in values]
    sections.append([])
    rows = [(2, "t", rec.F64_TENSOR, 0), (2, "u", rec.I32_TENSOR, 0)]
    path = forge(new_path, [record(1, s) for s in sections], schema=schema_blob(rows))
    reference = ReferenceDataset([AtpFile.open(path)], reserved_names())
    dataset = apt.AtpDataset(path)
    for indices in ([0, 1, 2, 3], [0, 3], [3, 0, 0], [3], [3, 3], []):
        assert_batch(dataset.batch(indices), reference.batch(indices))
    assert dataset.batch([3, 3])["t"] == [None, None]
    assert dataset.batch([0, 3])["t"].shape == (2, 2, 2)


def test_sections_that_the_schema_leaves_out(new_path: NewPath) -> None:
    """They come in the batches in which they occur."""
    extra = molecule_property("k", rec.I64, struct.pack("<q", 5))
    q = atom_property("q", rec.F32_ARRAY, struct.pack("<2f", 1.0, 2.0))
    records = [record(2, [ENERGY]), record(2, [ENERGY, extra]), record(2, [q])]
    schema = schema_blob([(0, "energy", rec.F64, 8)])
    path = forge(new_path, records, schema=schema)
    reference = ReferenceDataset([AtpFile.open(path)], reserved_names())
    dataset = apt.AtpDataset(path)
    for indices in ([0], [0, 1], [2, 1], [2, 0, 2]):
        assert_batch(dataset.batch(indices), reference.batch(indices))
    assert "k" not in dataset.batch([0]).keys()


def test_generation_at_its_end(new_path: NewPath) -> None:
    path = forge(new_path, [record(1, [ENERGY])], generation=2**64 - 1)
    assert apt.AtpDataset(path).batch([0]).energy.item() == 2.5


def test_a_schema_that_promises_far_more_than_the_records_hold(new_path: NewPath) -> None:
    """What is absent takes room in a batch, but not more than its records can account for."""
    rows = [(1, f"p{i}", rec.F64_VECTORS, 24) for i in range(4000)]
    dataset = apt.AtpDataset(forge(new_path, [record(2000)], schema=schema_blob(rows)))
    for read in (lambda: dataset[0], lambda: dataset.batch([0, 0])):
        with pytest.raises(apt.CorruptFileError, match=r"promises fields of .*\(molecule 0\)"):
            read()


def test_thousands_of_sections(new_path: NewPath) -> None:
    """Reading time grows with the number of sections, listed or not, not with its square."""
    start = time.process_time()
    sections = [
        molecule_property(f"{i:x}", rec.I64, i.to_bytes(8, "little")) for i in range(20_000)
    ]
    for schema in (schema_blob([]), b""):
        dataset = apt.AtpDataset(forge(new_path, [record(0, sections)], schema=schema))
        assert dataset[0]["4e1f"].item() == 0x4E1F
        assert dataset.batch([0, 0])["4e1f"].tolist() == [0x4E1F] * 2
    assert time.process_time() - start < 30


def test_a_damaged_value_is_lost_nowhere(new_path: NewPath) -> None:
    """It stays an error when its molecule is pickled, and when molecules are joined."""
    sections = [
        molecule_property("k", rec.F64, bytes(12)),
        molecule_property("ok", rec.I64, bytes(8)),
    ]
    molecule = apt.AtpDataset(forge(new_path, [record(1, sections)]))[0]
    for same in (molecule, pickle.loads(pickle.dumps(molecule))):
        assert {"k", "ok"} <= set(same.keys())
        assert same["ok"].item() == 0
        with pytest.raises(apt.CorruptFileError, match="'k'"):
            same["k"]
        with pytest.raises(apt.CorruptFileError, match="'k'"):
            apt.collate([same])
