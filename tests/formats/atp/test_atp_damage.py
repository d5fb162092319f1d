"""Truncation at every byte and damage of every byte: right data or a named error.

Right data is what was there before the damage, or what the reference reads from the damaged file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
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

NewPath = Callable[[], Path]
XORS = (0x01, 0x80, 0xFF)
CASES = [(codec, schema) for codec in strategies.CODECS for schema in (True, False)]
FEW = {(("zstd", True), 0x01), (("lz4", False), 0x80), (("none", True), 0xFF)}
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


@pytest.fixture
def content(case: tuple[str, bool], atompack: AtompackProcess, new_path: NewPath) -> bytes:
    """The bytes of a small sound file with one or two commits."""
    codec, schema = case
    if not schema:
        return legacy_file(codec)
    rng = np.random.default_rng(4)
    molecules = [strategies.molecule(rng, RECIPE, n, present=0.8) for n in (2, 0, 3)]
    return atompack.write(new_path(), molecules, codec, commits=[2]).read_bytes()


class Reading:
    """What the reference reads from some bytes: each molecule, and all as one batch."""

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


class Readings:
    """The readings that count as right; that of the damaged bytes is slow and seldom needed."""

    def __init__(self, damaged: bytes, sound: Reading) -> None:
        self.damaged = damaged
        self.known = [sound]

    def any(self, agrees: Callable[[Reading], bool]) -> bool:
        """Whether one of them agrees with something that the package read."""
        if any(agrees(reading) for reading in self.known):
            return True
        if len(self.known) == 1:
            self.known.append(Reading(self.damaged))
            return agrees(self.known[1])
        return False


def check(path: Path, damaged: bytes, sound: Reading) -> str:
    """Read a damaged file through the package; returns how it went."""
    path.write_bytes(damaged)
    try:
        dataset = apt.AtpDataset(path)
    except apt.AtompackError:
        return "refused"
    readings = Readings(damaged, sound)
    outcome = "read"
    n = len(dataset)
    assert readings.any(lambda r: r.opens and len(r.molecules) == n), f"{n} molecules"
    for i in range(n):
        try:
            molecule = dataset[i]
            got = {key: molecule[key] for key in molecule.keys()}
        except apt.AtompackError:
            outcome = "error"
            continue
        for key, value in got.items():
            right = readings.any(partial(molecule_holds, i=i, key=key, value=value))
            assert right, f"molecule {i}, {key!r} gave {value!r}"
    try:
        batch = dataset.batch(range(n))
        values = {key: batch[key] for key in batch.keys()}
    except apt.AtompackError:
        outcome = "error"
    else:
        for key, value in values.items():
            right = readings.any(partial(batch_holds, key=key, value=value))
            # A damaged schema may promise a field that no record has: then all of it is masked.
            masked = key not in STRUCTURE and not batch.mask(key).any()
            assert right or masked, f"{key!r} gave {value!r}"
    dataset.close()
    return outcome


def molecule_holds(reading: Reading, i: int, key: str, value: Any) -> bool:
    """Whether a reading has this value for this molecule."""
    known = reading.molecules[i] if i < len(reading.molecules) else None
    values = {} if known is None else _flat(known)
    return key in values and same_bits(value, values[key])


def batch_holds(reading: Reading, key: str, value: Any) -> bool:
    """Whether a reading has this field in the batch of all molecules."""
    expected = reading.batch
    return (
        expected is not None and key in expected.values and same_bits(value, expected.values[key])
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


def offsets(size: int, step: int = 64) -> Iterator[int]:
    """Every offset, but in the zero padding of the two header slots only some."""
    for offset in range(size):
        inside = offset % SLOT_BYTES
        padding = offset < 2 * SLOT_BYTES and 80 <= inside < SLOT_BYTES - 4
        if not padding or inside % step == 0:
            yield offset


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.exhaustive] * (c[0] == "lz4")) for c in CASES]
)
def test_truncation_at_every_byte(content: bytes, new_path: NewPath) -> None:
    path, sound = new_path(), Reading(content)
    outcomes = {check(path, content[:size], sound) for size in offsets(len(content))}
    assert "refused" in outcomes
    assert check(path, content, sound) == "read"


@pytest.mark.parametrize(
    ("case", "xor"),
    [
        pytest.param(*each, marks=[pytest.mark.exhaustive] * (each not in FEW))
        for each in product(CASES, XORS)
    ],
)
def test_damage_of_every_byte(content: bytes, new_path: NewPath, xor: int) -> None:
    path, sound = new_path(), Reading(content)
    outcomes = []
    for offset in offsets(len(content)):
        damaged = bytearray(content)
        damaged[offset] ^= xor
        outcomes.append(check(path, bytes(damaged), sound))
    assert {"refused", "error", "read"} <= set(outcomes)
