"""apt.verify(): every fault that a file holds, and none that it does not."""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.client import AtompackProcess
from reference import atp_record as rec
from reference import fixture_json, strategies
from reference.atp_file import SLOT_BYTES
from reference.atp_forge import (
    Lie,
    atom_property,
    atp_file,
    builtin,
    molecule_property,
    record,
    schema_blob,
)
from reference.atp_record import BadValueError
from reference.fixture_files import names_of

import atompack_torch as apt
from atompack_torch.formats import verification
from atompack_torch.formats.atp import inspection

NewPath = Callable[[], Path]
NAMES = names_of("atp/*", ".atp")

# What the original reads and a careful reader refuses.
REFUSED_AT_OPEN = {"bad_no_schema_v3", "bad_schema_255_v3", "odd_index_count"}
REFUSED_MOLECULES = {"bad_index_atoms": [0, 1], "odd_dup_custom": [0]}
# What the original refuses and we tell apart by its scope.
READ_ALL_THE_SAME = {"odd_both_scopes"}

TAIL = r"bytes behind the last commit"
WARNINGS = {
    "bad_a_newest": ["header slot A", TAIL],
    "bad_a_older": ["header slot A"],
    "bad_b_magic": ["header slot B"],
    "bad_b_newest": ["header slot B", TAIL],
    "bad_b_older": ["header slot B"],
    "bad_codec_3": ["header slot B", TAIL],
    "bad_index_length": ["header slot B", TAIL],
    "bad_schema_range": ["header slot B", TAIL],
    "custom_edge_values": ["'energy'", "'properties/name'", "'properties/nans'"],
    "cut_index": ["header slot A", TAIL],
    "cut_to_gen1": ["header slot A"],
    "odd_generation_tie": [TAIL],
    "tail_garbage": [TAIL],
    "tail_only": [TAIL],
    "tail_records": [TAIL],
}


def faulty_molecules(path: Path) -> list[int | None]:
    """What the original cannot read, by the values next to the file; [None]: the file itself."""
    expected = fixture_json.load(path)
    if not expected.opens or path.stem in REFUSED_AT_OPEN:
        return [None]
    if path.stem in REFUSED_MOLECULES:
        return [*REFUSED_MOLECULES[path.stem]]
    if path.stem in READ_ALL_THE_SAME:
        return []

    def is_bad(molecule: rec.Molecule | None) -> bool:
        if molecule is None:
            return True
        held = [*molecule.properties.values(), *molecule.atom_properties.values()]
        return any(isinstance(value, BadValueError) for value in held)

    return [i for i, molecule in enumerate(expected.molecules) if is_bad(molecule)]


@pytest.mark.parametrize("name", NAMES)
def test_fixtures(fixtures: Path, name: str) -> None:
    path = fixtures / f"{name}.atp"
    expected = faulty_molecules(fixtures / f"{name}.json")
    found = apt.verify(path)
    assert list(dict.fromkeys(fault.molecule for fault in found.faults)) == expected
    assert found.n_faults == len(found.faults)
    assert found.ok == (not expected)
    for fault in found.faults:
        assert fault.path == str(path)
        assert fault.message.startswith(f"{path}: ")
        if fault.molecule is not None:
            assert f"molecule {fault.molecule}" in fault.message
    if expected != [None]:
        assert found.n_molecules == len(apt.AtpDataset(path))
        texts = WARNINGS.get(name, [])
        assert len(found.warnings) == len(texts)
        for warning, text in zip(found.warnings, texts, strict=True):
            assert warning.startswith(f"{path}: ")
            assert text in warning


def test_there_are_faults_to_find(fixtures: Path) -> None:
    found = [name for name in NAMES if faulty_molecules(fixtures / f"{name}.json")]
    assert len([name for name in found if name.startswith("bad_")]) > 15


def test_shard_folder(fixtures: Path, tmp_path: Path) -> None:
    """A shard that cannot be opened does not hide what is wrong in the others."""
    for name in ("bad_both", "bad_section_cut", "gen3", "tail_only"):
        shutil.copy(fixtures / f"{name}.atp", tmp_path)
    found = apt.verify(tmp_path)
    assert [(Path(f.path).stem, f.molecule) for f in found.faults] == [
        ("bad_both", None),
        ("bad_section_cut", 0),
    ]
    assert [Path(file).name for file in found.files] == sorted(f.name for f in tmp_path.iterdir())
    assert found.n_molecules == 1 + 7 + 0
    assert len(found.warnings) == 1
    with pytest.raises(FileNotFoundError):
        apt.verify(tmp_path / "nothing.atp")


@pytest.mark.parametrize("codec", strategies.CODECS)
def test_sound_files(atompack: AtompackProcess, new_path: NewPath, codec: str) -> None:
    """Whatever the original writes."""
    rng = np.random.default_rng(5)
    recipe = strategies.Recipe(
        "f4",
        {"energy": "f8", "forces": "f4", "pbc": "f8", "name": "f8", "charges": "f8"},
        {"id": strategies.Kind("int"), "t": strategies.Kind("tensor", "f4", ((2, 2), (0, 1)))},
        {"q": strategies.Kind("array", "f8")},
    )
    molecules = [strategies.molecule(rng, recipe, n, present=0.8) for n in rng.integers(0, 9, 40)]
    found = apt.verify(atompack.write(new_path(), molecules, codec, commits=[10]))
    assert found.ok
    assert (found.n_molecules, found.faults) == (40, [])


def damaged_file(path: Path, n: int, damaged: Sequence[int]) -> Path:
    """A file with an energy that is too short in some molecules."""
    energy = builtin("energy", rec.F64, struct.pack("<d", 1.0))
    good, bad = record(2, [energy]), record(2, [energy[:-1]])
    rows = schema_blob([(0, "energy", rec.F64, 8)])
    path.write_bytes(atp_file([bad if i in damaged else good for i in range(n)], schema=rows))
    return path


def test_all_faults_in_order(new_path: NewPath) -> None:
    damaged = [0, 1, 2047, 2048, 3000, 8191, 19_999]
    path = damaged_file(new_path(), 20_000, damaged)
    found = apt.verify(path)
    assert [fault.molecule for fault in found.faults] == damaged
    assert (found.n_molecules, found.n_faults) == (20_000, len(damaged))
    assert found.n_bytes == sum(2 * 13 + 6 + 21 for _ in range(20_000 - len(damaged)))
    first = apt.verify(path, max_faults=3)
    assert [fault.molecule for fault in first.faults] == damaged[:3]
    assert first.n_faults == len(damaged)
    assert not apt.verify(path, max_faults=0).ok


class InSteps:
    """What a native pass over a large file would find, two molecules at a time."""

    def __init__(self, source: object, n_threads: int) -> None:
        self.done = 0

    def __len__(self) -> int:
        return 7

    def advance(self) -> int:
        self.done = min(self.done + 2, 7)
        return self.done

    def take(self) -> tuple[int, list[tuple[int, str]], int, list[tuple[int, str, int]]]:
        return 3, [(self.done - 1, "a"), (self.done - 1, "b")], 10, [(2, "k", 1), (0, "energy", 1)]


def test_findings_of_all_steps(new_path: NewPath, monkeypatch: pytest.MonkeyPatch) -> None:
    path = damaged_file(new_path(), 7, [])
    monkeypatch.setattr(verification, "Verifier", InSteps)
    reported: list[int] = []
    found = apt.verify(path, max_faults=5, progress=reported.append)
    assert reported == [2, 2, 2, 1]
    assert (found.n_molecules, found.n_bytes, found.n_faults) == (7, 40, 12)
    assert [fault.molecule for fault in found.faults] == [1, 1, 3, 3, 5]
    assert [warning.rsplit(": ", 1)[1] for warning in found.warnings] == [
        "4 molecules store NaN or infinite values (field 'energy')",
        "4 molecules store NaN or infinite values (field 'properties/k')",
    ]


def test_many_faults_of_one_molecule(new_path: NewPath) -> None:
    sections = [molecule_property(f"k{i}", rec.F64, b"123") for i in range(250)]
    path = new_path()
    path.write_bytes(atp_file([record(1, sections), record(1)], schema=schema_blob()))
    found = apt.verify(path)
    assert found.n_faults == 250
    assert [fault.molecule for fault in found.faults] == [0] * 100
    assert "field 'k99'" in found.faults[-1].message


def test_repeated_keys(new_path: NewPath) -> None:
    value = molecule_property("k", rec.F64, struct.pack("<d", 1.0))
    energy = builtin("energy", rec.F64, struct.pack("<d", 1.0))
    for rows in ([], [(2, "k", rec.F64, 8)]):
        path = new_path()
        records = [record(1, [value, energy, energy]), record(1, [value, value])]
        path.write_bytes(atp_file(records, schema=schema_blob(rows)))
        (fault,) = apt.verify(path).faults
        assert fault.molecule == 1
        assert "duplicate key (molecule 1, field 'k'" in fault.message


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("width", [4, 8])
def test_values_that_are_not_finite(new_path: NewPath, special: float, width: int) -> None:
    dtype = np.dtype(f"<f{width}")
    n = 11  # an odd number: what is compared four at a time has a rest
    tag, positions_type = (rec.F32_ARRAY, 4) if width == 4 else (rec.F64_ARRAY, 7)
    records = []
    for i in range(n + 1):
        values = np.full(n, np.finfo(dtype).max, dtype)
        if i < n:
            values[i] = special
        positions = np.zeros(3 * n, dtype)
        positions[-1] = special if i == 5 else -np.finfo(dtype).max
        head = struct.pack("<I", n) + positions.tobytes() + bytes(n) + struct.pack("<H", 1)
        records.append(head + atom_property("q", tag, values.tobytes()))
    path = new_path()
    rows = schema_blob([(1, "q", tag, width)], positions_type=positions_type)
    path.write_bytes(atp_file(records, schema=rows, record_format=3))
    found = apt.verify(path)
    assert found.ok
    assert found.warnings == [
        f"{path}: {n} molecules store NaN or infinite values (field 'atom_properties/q')",
        f"{path}: 1 molecules store NaN or infinite values (field 'positions')",
    ]


def test_records_that_lie_over_one_another(new_path: NewPath) -> None:
    """Reading the same bytes for every entry could take forever, so that is refused."""
    start = time.process_time()
    records = [record(2000), *(record(0) for _ in range(2000))]
    first = 2 * SLOT_BYTES
    size = len(records[0])

    def lies(molecules: Sequence[int]) -> list[Lie]:
        return [Lie(i, offset=first, stored_bytes=size, record_bytes=size) for i in molecules]

    path = new_path()
    path.write_bytes(atp_file(records, schema=schema_blob(), lies=lies(range(1, 2001))))
    found = apt.verify(path)
    assert [fault.molecule for fault in found.faults] == [None]
    assert "records lie over one another" in found.faults[0].message
    assert found.n_molecules == 0
    path.write_bytes(atp_file(records, schema=schema_blob(), lies=lies([7])))
    found = apt.verify(path)
    assert [fault.molecule for fault in found.faults] == [7]  # 2000 atoms, where the index says 0
    assert "records lie over one another" in found.warnings[0]
    assert found.n_molecules == 2001
    assert time.process_time() - start < 30


def test_a_file_that_shrinks(new_path: NewPath, monkeypatch: pytest.MonkeyPatch) -> None:
    path = damaged_file(new_path(), 50, [])
    seen = inspection.describe_slots

    def cut(place: Any) -> list[tuple[int, int, None] | tuple[None, None, str]]:
        slots = seen(place)
        os.truncate(place[0], 9000)
        return slots

    monkeypatch.setattr(inspection, "describe_slots", cut)
    (fault,) = apt.verify(path).faults
    assert "shrank" in fault.message
    assert fault.molecule is None


@pytest.mark.parametrize("codec", strategies.CODECS)
def test_agrees_with_reading(new_path: NewPath, codec: str) -> None:
    """For each damaged byte: faults if, and only if, something cannot be read."""
    energy = builtin("energy", rec.F64, struct.pack("<d", -1.25))
    name = molecule_property("name", rec.STRING, "grün".encode())
    rows = [(0, "energy", rec.F64, 8), (2, "name", rec.STRING, 0)]
    data = atp_file(
        [record(2, [energy, name]), record(0, [energy])], codec=codec, schema=schema_blob(rows)
    )
    path = new_path()
    outcomes = set()
    for offset in range(2 * SLOT_BYTES, len(data)):
        for xor in (0x01, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[offset] ^= xor
            path.write_bytes(damaged)
            found = apt.verify(path)
            assert found.ok == reads(path), f"offset {offset}, xor {xor}: {found.faults}"
            assert found.ok == has_statistics(path), f"offset {offset}, xor {xor}"
            outcomes.add(found.ok)
    assert outcomes == {True, False}


def reads(path: Path) -> bool:
    """Whether every value of every molecule can be read."""
    try:
        dataset = apt.AtpDataset(path)
        for i in range(len(dataset)):
            molecule = dataset[i]
            for key in molecule.keys():
                molecule[key]
    except apt.AtompackError:
        return False
    return True


def has_statistics(path: Path) -> bool:
    """Whether a pass over the dataset comes to its end."""
    try:
        apt.AtpDataset(path).statistics()
    except apt.AtompackError:
        return False
    return True


def test_as_dict_and_progress(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[int] = []
    found = apt.verify(fixtures / "bad_section_cut.atp", progress=steps.append)
    assert sum(steps) == found.n_molecules == 1
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert plain["ok"] is False
    assert plain["faults"][0]["molecule"] == 0
    assert plain["n_faults"] == 1
    assert capsys.readouterr().err == ""
    apt.verify(fixtures / "gen3.atp", progress=True)
    assert "7 molecules" in capsys.readouterr().err
