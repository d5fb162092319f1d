"""ASE databases, both ways."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import ase
import ase.db
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from reference.batches import assert_same_batches

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.sources.ase_db import count, open_target, read
from atompack_torch.errors import CorruptFileError, UnsupportedFormatError
from atompack_torch.formats.converter import TargetOptions
from atompack_torch.formats.records import BLOCK_STRUCTURES, columns_of, records_of


def make(path: Path, images: list[ase.Atoms]) -> None:
    with ase.db.connect(path, use_lock_file=False) as database:
        for i, atoms in enumerate(images):
            data = {"weights": np.arange(3.0) + i, "nested": {"a": [1, {}]}, "nothing": None}
            database.write(atoms, key_value_pairs={"k": i, "label": f"row {i}"}, data=data)


@pytest.mark.parametrize("suffix", [".db", ".aselmdb", ".json"])
def test_rows_become_molecules(images: list[ase.Atoms], tmp_path: Path, suffix: str) -> None:
    source, target = tmp_path / f"rows{suffix}", tmp_path / "rows.atp"
    make(source, images)
    report = convert(source, target, format="ase-db", progress=False)
    got = apt.AtpDataset(target)[:]
    want = apt.MoleculeBatch.from_ase(images)
    for key in ("positions", "atomic_numbers", "n_atoms", "energy", "forces", "stress", "pbc"):
        assert torch.equal(got[key].nan_to_num(7.0), want[key].nan_to_num(7.0)), key
        assert got.mask(key).tolist() == want.mask(key).tolist(), key
    assert got["k"].tolist() == list(range(len(images)))
    assert got["label"] == [f"row {i}" for i in range(len(images))]
    assert got["weights"].tolist() == [[i, i + 1.0, i + 2.0] for i in range(len(images))]
    assert [what for what, _ in report.skipped] == ["data 'nested'"]
    assert sum(report.skipped.values()) == len(images)
    assert "ids, times" in report.notes[0]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_json_without_its_format(images: list[ase.Atoms], tmp_path: Path, suffix: str) -> None:
    make(tmp_path / "rows.json", images)
    if suffix == ".json.gz":
        (tmp_path / "rows.json.gz").write_bytes(
            gzip.compress((tmp_path / "rows.json").read_bytes())
        )
    report = convert(tmp_path / f"rows{suffix}", tmp_path / "rows.atp", progress=False)
    got = apt.AtpDataset(tmp_path / "rows.atp")[:]
    assert got["k"].tolist() == list(range(len(images)))
    assert got["weights"].tolist() == [[i, i + 1.0, i + 2.0] for i in range(len(images))]
    assert [what for what, _ in report.skipped] == ["data 'nested'"]


@pytest.mark.parametrize("suffix", [".db", ".aselmdb", ".json"])
def test_a_matrix_of_stress(tmp_path: Path, suffix: str) -> None:
    """SQLite returns the nine numbers without their shape."""
    atoms = ase.Atoms("H", cell=[4, 4, 4], pbc=True)
    stress = np.arange(9.0).reshape(3, 3)
    atoms.calc = SinglePointCalculator(atoms, stress=stress)
    source = tmp_path / f"rows{suffix}"
    with ase.db.connect(source, use_lock_file=False) as database:
        database.write(atoms)
    convert(source, tmp_path / "x.atp", format="ase-db", progress=False)
    assert apt.AtpDataset(tmp_path / "x.atp")[0].stress.tolist() == stress.tolist()


def test_rows_come_by_id_in_bounded_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "many.db"
    with ase.db.connect(path, use_lock_file=False) as database:
        for i in range(2 * BLOCK_STRUCTURES + 7):
            database.write(ase.Atoms("H"), k=i)
        database.delete([3, BLOCK_STRUCTURES])
    fetched = []
    select = type(database).select
    monkeypatch.setattr(
        type(database),
        "select",
        lambda *a, **k: fetched.append([*select(*a, **k)]) or iter(fetched[-1]),
    )
    blocks = list(read(path, report=Report()))
    assert list(map(len, fetched)) == [BLOCK_STRUCTURES, BLOCK_STRUCTURES, 5, 0]
    got = [int(r.properties["k"]) for block in blocks for r in records_of(block)]
    assert got == [i for i in range(2 * BLOCK_STRUCTURES + 7) if i + 1 not in (3, BLOCK_STRUCTURES)]


def test_there_and_back(images: list[ase.Atoms], tmp_path: Path) -> None:
    first, database, second = (tmp_path / name for name in ("1.atp", "2.db", "3.atp"))
    apt_images = [*images]
    with apt.AtpWriter(first) as writer:
        writer.write(apt_images)
    report = convert(first, database, progress=False)
    assert not report.skipped
    convert(database, second, progress=False)
    assert_same_batches(apt.AtpDataset(first)[:], apt.AtpDataset(second)[:])
    rows = [row.toatoms() for row in ase.db.connect(database).select(sort="id")]
    for row, image in zip(rows, images, strict=True):
        assert (row.positions == image.positions).all()
        if image.calc is not None:
            assert row.get_potential_energy() == image.get_potential_energy()
    row = ase.db.connect(database).get(1)
    assert row.key_value_pairs["origin"] == "run 0"
    assert row.data["weights"].tolist() == images[0].info["weights"].tolist()


def test_what_a_row_cannot_hold_is_named(tmp_path: Path) -> None:
    labels = {"energy": np.nan, "cell": np.zeros((3, 3)), "velocities": np.ones((1, 3))}
    record = Parts(np.zeros((1, 3)), np.array([1]), labels, {}, {})
    report = Report()
    with open_target(str(tmp_path / "x.db"), TargetOptions(report)) as writer:
        writer.write(columns_of([record]))
    assert {what for what, _ in report.skipped} == {"energy", "cell"}
    assert any("velocities" in note for note in report.notes)
    assert any("pbc" in note for note in report.notes)
    (block,) = read(tmp_path / "x.db", report=report)
    (back,) = records_of(block)
    assert back.labels.keys() == {"pbc", "velocities"}
    assert np.allclose(back.labels["velocities"], 1.0, rtol=1e-15)


@pytest.mark.parametrize("suffix", [".db", ".aselmdb"])
def test_forces_of_no_atoms(tmp_path: Path, suffix: str) -> None:
    molecule = apt.Molecule(np.zeros((0, 3)), np.zeros(0, int), forces=np.zeros((0, 3)))
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write(molecule)
    convert(tmp_path / "1.atp", tmp_path / f"2{suffix}", progress=False)
    convert(tmp_path / f"2{suffix}", tmp_path / "3.atp", progress=False)
    assert apt.AtpDataset(tmp_path / "3.atp")[0].forces.shape == (0, 3)


def test_values_that_clash_are_named(tmp_path: Path) -> None:
    with ase.db.connect(tmp_path / "x.db") as database:
        database.write(ase.Atoms("H"), key_value_pairs={"k": 1}, data={"k": 2})
    report = Report()
    (block,) = read(tmp_path / "x.db", report=report)
    assert next(records_of(block)).properties == {"k": 1}
    assert report.skipped == {("data 'k'", "the row has another value of that name"): 1}


def test_a_row_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    calculated = ase.Atoms("H")
    calculated.calc = SinglePointCalculator(calculated, energy=1.0)
    with ase.db.connect(path, use_lock_file=False) as database:
        for _ in range(3):
            database.write(calculated)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE systems SET positions = x'0102030405' WHERE id = 2")
    with pytest.raises(CorruptFileError, match=rf"{path}: .* \(molecule 1\)"):
        list(read(path, report=Report()))
    report = Report("skip")
    (block,) = read(path, report=report)
    assert len(block.ptr) - 1 == 2
    assert sum(report.skipped.values()) == 1


def test_ids_that_do_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.db"
    with ase.db.connect(path, use_lock_file=False) as database:
        for _ in range(3):
            database.write(ase.Atoms("H"))
    rows = [*database.select()]
    monkeypatch.setattr(type(database), "select", lambda *_, **__: rows)  # as of a damaged file
    with pytest.raises(CorruptFileError, match=rf"{path}: ids: expected one above 3, got 1"):
        list(read(path, report=Report()))
    report = convert(path, tmp_path / "x.atp", on_error="skip", progress=False)
    assert report.structures_written == 3
    assert any("ids: expected" in why for _, why in report.skipped)


def test_no_database(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        count(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no database at all" * 100)
    with pytest.raises(UnsupportedFormatError, match=r"text\.db: ASE's reader for db .* Database"):
        convert(tmp_path / "text.db", tmp_path / "x.atp", progress=False)


@pytest.mark.parametrize("suffix", ["db", "aselmdb"])
def test_metadata_of_a_database_is_listed(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    with ase.db.connect(path) as database:
        database.write(ase.Atoms("H"))
        database.metadata = {
            "title": "atoms",
            "units": "atomic",
            "more_units": {"a": "Ha", "x": 1},
            "_property_unit_dict": {"mu": "Debye"},
        }
    report = convert(path, tmp_path / "x.atp", progress=False)
    lost = {what: n for (what, why), n in report.skipped.items() if why == "of the whole database"}
    assert lost == {"metadata 'title'": 1, "metadata 'units'": 1, "metadata 'more_units'": 1}
    assert any("'a' in Ha, 'mu' in Debye" in note for note in report.notes)


@pytest.mark.parametrize("wrong", [np.ones(3), np.float64(1), np.ones((1, 2))], ids=str)
@pytest.mark.parametrize("suffix", ["db", "aselmdb"])
def test_properties_of_atoms_of_wrong_length(tmp_path: Path, suffix: str, wrong: object) -> None:
    """Also where the rows of two molecules together are as many as their atoms."""
    path = tmp_path / f"x.{suffix}"
    with ase.db.connect(path) as database:
        database.write(ase.Atoms("H2"), data={"atom_properties/q": wrong})
        database.write(ase.Atoms("H3"), data={"atom_properties/q": np.ones(2)})
        database.write(ase.Atoms("H"), data={"atom_properties/q": np.full(1, 7.0)})
    with pytest.raises(
        ValueError, match=rf"{path}: .*expected a row for each of 2 atoms.*molecule 0"
    ):
        convert(path, tmp_path / "x.atp", progress=False)
    report = convert(path, tmp_path / "x.atp", on_error="skip", progress=False)
    assert report.structures_written == 1
    assert apt.AtpDataset(tmp_path / "x.atp")[0].q.tolist() == [7.0]
