"""Files come out byte for byte as the original writes them.

Of compressed records that holds as long as both have the same version of the codec's library, so
there it is the decoded records, and all else, that must be the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.client import AtompackProcess
from reference import plain, strategies
from reference.atp_file import CODECS, AtpFile, Slot, decode_slot
from reference.fixture_files import names_of

import atompack_torch as apt

NewPath = Callable[[], Path]
NAMES = names_of("atp/*", ".atp")

# Made by hand, damaged or cut; or of a writer of before there were schemas.
NOT_WRITTEN_SO = ("bad", "odd", "cut", "legacy", "tail")
# Each has a test of its own below, except for one: we make no commits without molecules.
OWN_TEST = {"batch_written", "v3_f32_energy", "gen2", "gen3", "gen4_idle"}
SINGLE_COMMIT = [
    name for name in NAMES if name.split("_")[0] not in NOT_WRITTEN_SO and name not in OWN_TEST
]
LZ4_LEVEL = 12  # of the original; files do not tell


def codec_of(path: Path) -> dict[str, Any]:
    """Codec and level of a file."""
    slot = AtpFile.open(path).slot
    codec = CODECS[slot.codec]
    return {"codec": codec, "level": LZ4_LEVEL if codec == "lz4" else slot.level}


def molecules_of(path: Path) -> list[apt.Molecule]:
    """All molecules of a file."""
    dataset = apt.AtpDataset(path)
    return [dataset[i] for i in range(len(dataset))]


def assert_same_file(path: Path, source: Path) -> None:
    """Equal bytes; where records are compressed, equal but for their lengths and what follows."""
    ours, theirs = AtpFile.open(path), AtpFile.open(source)
    if theirs.slot.codec == 0:
        assert ours.data == theirs.data
    for at in (0, 4096):
        assert placeless(ours.data[at : at + 4096]) == placeless(theirs.data[at : at + 4096])
    assert schema_bytes(ours) == schema_bytes(theirs)
    assert [e.n_atoms for e in ours.entries] == [e.n_atoms for e in theirs.entries]
    assert [ours.record(i) for i in range(len(ours))] == [
        theirs.record(i) for i in range(len(theirs))
    ]
    assert (ours.slot.index_offset + ours.slot.index_length or 8192) == len(ours.data)


def placeless(raw: bytes) -> Slot | None:
    """A header slot without the places that depend on compressed sizes."""
    slot = decode_slot(raw, 1 << 62)
    return slot and replace(slot, index_offset=bool(slot.index_offset), schema_offset=0)


def schema_bytes(file: AtpFile) -> bytes:
    """The schema as stored."""
    return file.data[file.slot.schema_offset :][: file.slot.schema_length]


def test_most_fixtures_are_of_one_commit(fixtures: Path) -> None:
    assert len(SINGLE_COMMIT) >= 25
    assert set(NAMES) >= OWN_TEST


@pytest.mark.parametrize("form", ["molecules", "one by one", "batch"])
@pytest.mark.parametrize("name", SINGLE_COMMIT)
def test_fixture(fixtures: Path, new_path: NewPath, name: str, form: str) -> None:
    source, path = fixtures / f"{name}.atp", new_path()
    molecules = molecules_of(source)
    with apt.AtpWriter(path, **codec_of(source)) as writer:
        if form == "molecules":
            writer.write(molecules)
        elif form == "one by one":
            for molecule in molecules:
                writer.write(molecule)
        elif molecules:
            writer.write(apt.AtpDataset(source).batch(range(len(molecules))))
        if name != "empty_created":
            writer.flush()
    assert_same_file(path, source)


def test_stacked_float32_energy(fixtures: Path, new_path: NewPath) -> None:
    source, path = fixtures / "v3_f32_energy.atp", new_path()
    batch = apt.AtpDataset(source).batch(range(3))
    assert batch.energy.dtype == torch.float64
    with apt.AtpWriter(path) as writer:
        writer.write_arrays(
            positions=batch.positions.view(3, 2, 3),
            atomic_numbers=batch.atomic_numbers.view(3, 2),
            energy=batch.energy.float(),
            charges=batch.charges.view(3, 2),
        )
    assert_same_file(path, source)


def test_commits(fixtures: Path, new_path: NewPath) -> None:
    """Two commits of one writer and one of the next: the same slots, the same dead space."""
    path, molecules = new_path(), molecules_of(fixtures / "gen3.atp")
    with apt.AtpWriter(path, codec="zstd") as writer:
        writer.write(molecules[:2])
        writer.flush()
        writer.write(molecules[2:5])
        writer.flush()
        assert_same_file(path, fixtures / "gen2.atp")
        writer.flush()  # of nothing new: nothing happens
    assert_same_file(path, fixtures / "gen2.atp")
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(molecules[5:])
    assert_same_file(path, fixtures / "gen3.atp")


@pytest.mark.parametrize("name", ["tail_records", "gen2", "tail_garbage"])
def test_tail_is_cut(fixtures: Path, new_path: NewPath, name: str) -> None:
    path, want = new_path(), fixtures / "tail_recovered.atp"
    shutil.copy(fixtures / f"{name}.atp", path)
    with apt.AtpWriter(path, mode="a") as writer:
        assert path.read_bytes() == (fixtures / f"{name}.atp").read_bytes()
        writer.write(molecules_of(want)[5:])
    assert_same_file(path, want)


@settings(max_examples=60)
@given(st.data())
def test_random_molecules(
    atompack: AtompackProcess, new_path: NewPath, data: st.DataObject
) -> None:
    """The same molecules at the same commit points: the same bytes, in every codec."""
    recipe = data.draw(strategies.recipes())
    plains = data.draw(strategies.contents(recipe))
    codec = data.draw(st.sampled_from(strategies.CODECS))
    may_commit = data.draw(strategies.commits(recipe, len(plains)))
    commits = [n for n in may_commit if 0 < n < len(plains)]
    theirs = atompack.write(new_path(), plains, codec, commits=commits)
    path = new_path()
    with apt.AtpWriter(path, codec=codec, level=LZ4_LEVEL if codec == "lz4" else 3) as writer:
        first = 0
        for last in [*commits, len(plains)]:
            write(writer, plains[first:last], data)
            writer.flush()
            first = last
    assert_same_file(path, theirs)
    plain.assert_file_holds(path, plains)


def write(writer: apt.AtpWriter, plains: Sequence[plain.Plain], data: st.DataObject) -> None:
    """One commit's molecules in some form; the first call settles the record format."""
    form = data.draw(st.sampled_from(("molecules", "batch", "columns", "mixed")))
    if not plains:
        return
    if form == "batch" and plain.fits_a_batch(plains):
        writer.write(plain.batch(plains))
    elif form == "columns":
        writer.write_columns(plain.columns(plains))
    elif form == "mixed" and plain.fits_a_batch(plains):
        batch = plain.batch(plains)  # views of one batch, with one of another in between
        half = len(plains) // 2
        views = list(batch)
        writer.write([*views[:half], plain.molecule(plains[half]), *views[half + 1 :]])
    else:
        writer.write([plain.molecule(p) for p in plains])


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_many_blocks_on_threads(atompack: AtompackProcess, new_path: NewPath, codec: str) -> None:
    """Several MB, so that blocks are compressed out of order and written in order."""
    rng = np.random.default_rng(5)
    recipe = strategies.Recipe("f8", {"forces": "f8", "energy": "f8"})
    plains = [strategies.molecule(rng, recipe, int(n)) for n in rng.integers(0, 90, 2000)]
    level = {"none": 0, "lz4": LZ4_LEVEL, "zstd": 1}[codec]
    theirs = atompack.write(new_path(), plains, codec, level=level)
    path = new_path()
    with apt.AtpWriter(path, codec=codec, level=level) as writer:
        for first in range(0, len(plains), 300):
            writer.write([plain.molecule(p) for p in plains[first : first + 300]])
    assert path.stat().st_size > 2_000_000
    assert_same_file(path, theirs)
