"""Truncation at every byte and damage of every byte: right data or a named error.

Right data is what was there before the damage, or what the reference reads from the damaged file.
"""

# ruff: noqa: SIM118  (a batch iterates over molecules, its names are its keys())

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.client import AtompackProcess
from reference import atp_record as rec
from reference import strategies
from reference.atp_file import SLOT_BYTES, AtpFile
from reference.atp_forge import atom_property, atp_file, builtin, molecule_property, record
from reference.atp_record import BadFileError, BadValueError
from reference.collate import Expected, FieldClashError, ReferenceDataset
from reference.compare import as_delivered, same_bits, tensor_of
from reference.names import STRUCTURE, reserved_names

import atompack_torch as apt

pytestmark = pytest.mark.timeout(120)

NewPath = Callable[[], Path]
XORS = (0x01, 0x80, 0xFF)
CASES = [(codec, schema) for codec in strategies.CODECS for schema in (True, False)]
RECIPE = strategies.Recipe(
    "f4",
    {"energy": "f8", "forces": "f4", "pbc": "f8", "name": "f8"},
    {"id": strategies.Kind("int"), "t": strategies.Kind("tensor", "f4", ((2, 2),))},
    {"q": strategies.Kind("array", "f8")},
)


def legacy_file(codec: str) -> bytes:
    """A file as release 0.2 wrote it: record format 2, no schema."""
    energy = builtin("energy", rec.F64, struct.pack("<d", -1.25))
    number = molecule_property("id", rec.I64, struct.pack("<q", 7))
    records = []
    for n in (2, 0, 3):
        q = atom_property("q", rec.F64_ARRAY, np.arange(n, dtype="<f8").tobytes())
        forces = builtin("forces", rec.F32_VECTORS, np.ones((n, 3), "<f4").tobytes())
        records.append(record(n, [energy, forces, q, number] if n else [energy]))
    return atp_file(records, codec=codec)


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{'schema' if case[1] else 'legacy'}")
def content(request: pytest.FixtureRequest, atompack: AtompackProcess, new_path: NewPath) -> bytes:
    """The bytes of a small sound file with one or two commits."""
    codec, schema = request.param
    if not schema:
        return legacy_file(codec)
    rng = np.random.default_rng(4)
    molecules = [strategies.molecule(rng, RECIPE, n, present=0.8) for n in (2, 0, 3)]
    return atompack.write(new_path(), molecules, codec, commits=[2]).read_bytes()


class Reading:
    """What the reference reads from some bytes: the whole batch and each molecule."""

    def __init__(self, data: bytes) -> None:
        self.molecules: list[rec.Molecule | None] = []
        self.batch: Expected | None = None
        self.opens = True
        try:
            dataset = ReferenceDataset([AtpFile(data)], reserved_names())
        except BadFileError:
            self.opens = False
            return
        for i in range(len(dataset)):
            try:
                self.molecules.append(dataset.molecule(i))
            except BadFileError:
                self.molecules.append(None)
        try:
            self.batch = dataset.batch(range(len(dataset)))
        except (BadFileError, FieldClashError):
            return


def check(path: Path, damaged: bytes, sound: Reading) -> str:
    """Read a damaged file through the package; returns how it went."""
    path.write_bytes(damaged)
    try:
        dataset = apt.AtpDataset(path)
    except apt.AtompackError:
        return "refused"
    readings = [sound, Reading(damaged)]
    outcome = "read"
    n = len(dataset)
    assert any(r.opens and len(r.molecules) == n for r in readings), f"{n} molecules"
    for i in range(n):
        try:
            molecule = dataset[i]
            got = {key: molecule[key] for key in molecule.keys()}
        except apt.AtompackError:
            outcome = "error"
            continue
        _assert_known_values(got, [r.molecules[i] for r in readings if i < len(r.molecules)], i)
    try:
        batch = dataset.batch(range(n))
        values = {key: batch[key] for key in batch.keys()}
    except apt.AtompackError:
        outcome = "error"
    else:
        _assert_known_batch(batch, values, [r.batch for r in readings if r.batch is not None])
    dataset.close()
    return outcome


def _assert_known_values(got: dict[str, Any], known: list[rec.Molecule | None], i: int) -> None:
    candidates = [_flat(m) for m in known if m is not None]
    for key, value in got.items():
        assert any(key in c and same_bits(value, c[key]) for c in candidates), (
            f"molecule {i}, {key!r} gave {value!r}"
        )


def _flat(molecule: rec.Molecule) -> dict[str, Any]:
    """Every value of a reference molecule under each name it may have."""
    flat: dict[str, Any] = {
        "positions": tensor_of(molecule.positions),
        "atomic_numbers": tensor_of(molecule.atomic_numbers).long(),
    }
    for key, held in molecule.builtins.items():
        flat[key] = as_delivered(held)
    if "energy" in flat:
        flat["energy"] = flat["energy"].double()
    for scope, prefix in (("atom", "atom_properties/"), ("molecule", "properties/")):
        for key, value in molecule.custom(scope).items():
            if not isinstance(value, BadValueError):
                flat[prefix + key] = as_delivered(value)
                if key not in rec.LEGAL_BUILTINS:
                    flat.setdefault(key, flat[prefix + key])
    return flat


def _assert_known_batch(
    batch: apt.MoleculeBatch, values: dict[str, Any], known: list[Expected]
) -> None:
    for key, value in values.items():
        equal = [e for e in known if key in e.values and same_bits(value, e.values[key])]
        if not equal and key not in STRUCTURE:
            # A damaged schema may promise a field that no record has: then all of it is masked.
            assert not batch.mask(key).any(), f"{key!r} gave {value!r}"
        else:
            assert equal, f"{key!r} gave {value!r}"


def offsets(size: int, step: int = 64) -> Iterator[int]:
    """Every offset, but in the zero padding of the two header slots only some."""
    for offset in range(size):
        inside = offset % SLOT_BYTES
        padding = offset < 2 * SLOT_BYTES and 80 <= inside < SLOT_BYTES - 4
        if not padding or inside % step == 0:
            yield offset


def test_truncation_at_every_byte(content: bytes, new_path: NewPath) -> None:
    path, sound = new_path(), Reading(content)
    outcomes = {check(path, content[:size], sound) for size in offsets(len(content))}
    assert "refused" in outcomes
    assert check(path, content, sound) == "read"


@pytest.mark.parametrize("xor", XORS)
def test_damage_of_every_byte(content: bytes, new_path: NewPath, xor: int) -> None:
    path, sound = new_path(), Reading(content)
    outcomes = []
    for offset in offsets(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= xor
        outcomes.append(check(path, bytes(damaged), sound))
    assert {"refused", "error", "read"} <= set(outcomes)
