"""Files that ASE reads."""

from __future__ import annotations

from pathlib import Path

import ase
import ase.db
import ase.io
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms

import atompack_torch as apt
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.sources.ase_files import read
from atompack_torch.errors import CorruptFileError, UnsupportedFormatError


@pytest.mark.parametrize("suffix", [".traj", ".xyz", ".json"])
def test_the_file_holds_what_from_ase_makes(
    images: list[ase.Atoms], tmp_path: Path, suffix: str
) -> None:
    source, target = tmp_path / f"images{suffix}", tmp_path / "images.atp"
    ase.io.write(source, images)
    report = convert(source, target, format="ase", progress=False)
    want = apt.MoleculeBatch.from_ase(ase.io.read(source, ":"))
    got = apt.AtpDataset(target)[:]
    assert set(got.keys()) == set(want.keys())
    for key in want.keys():
        assert got.mask(key).tolist() == want.mask(key).tolist(), key
        assert got.level(key) == want.level(key), key
        if isinstance(want[key], torch.Tensor):
            assert torch.equal(got[key].nan_to_num(7.0), want[key].nan_to_num(7.0)), key
        else:
            assert got[key] == want[key], key
    assert report.structures_read == report.structures_written == len(images)
    assert report.labels["energy"] == 13
    assert report.labels["forces"] == 12
    assert not report.skipped
    assert report.changes == []
    assert report.bytes_read == source.stat().st_size
    assert report.bytes_written == target.stat().st_size


def test_what_is_dropped_is_named(tmp_path: Path) -> None:
    fixed = ase.Atoms("H2", [[0, 0, 0], [0, 0, 1]], info={"nested": {"a": 1}, "kept": 2})
    fixed.set_constraint(FixAtoms([0]))
    fixed.set_array("residue", np.array(["A", "B"]))
    ase.io.write(tmp_path / "fixed.xyz", [fixed] * 3, columns=None)
    ase.io.write(tmp_path / "fixed.traj", [fixed] * 3)
    report = convert(
        [tmp_path / "fixed.traj", tmp_path / "fixed.xyz"],
        tmp_path / "out.atp",
        format="ase",
        progress=False,
    )
    assert report.skipped["constraints", "no place for them"] >= 3
    named = {what for what, _ in report.skipped}
    assert {"info 'nested'", "array 'residue'"} <= named
    assert apt.AtpDataset(tmp_path / "out.atp")[0]["kept"] == 2


def test_blocks_are_bounded(tmp_path: Path) -> None:
    ase.io.write(tmp_path / "many.traj", [ase.Atoms("H")] * 600)
    sizes = [len(block.ptr) - 1 for block in read(tmp_path / "many.traj", report=Report())]
    assert sizes == [256, 256, 88]
    ase.io.write(tmp_path / "large.traj", [ase.Atoms("H40000")] * 5)
    sizes = [len(block.ptr) - 1 for block in read(tmp_path / "large.traj", report=Report())]
    assert sizes == [2, 2, 1]


def test_a_path_is_only_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a@0.xyz"
    ase.io.write(tmp_path / "a.xyz", [ase.Atoms("H")] * 2)
    (tmp_path / "a.xyz").rename(path)
    (block,) = read(path, report=Report())
    assert len(block.ptr) == 3


def test_a_cut_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.xyz"
    ase.io.write(path, [ase.Atoms("H2")] * 300)
    text = path.read_bytes()
    path.write_bytes(text[: len(text) - 20])
    message = rf"{path}: ASE's reader for extxyz could not read it: .* \(molecule 299\): .*dpdata"
    with pytest.raises(UnsupportedFormatError, match=message):
        list(read(path, report=Report()))
    report = convert(path, tmp_path / "o.atp", format="ase", on_error="skip", progress=False)
    assert report.structures_written == len(apt.AtpDataset(tmp_path / "o.atp")) == 299
    ((what, why),) = report.skipped
    assert what == "the rest of a file"
    assert "molecule 299" in why


def test_a_file_that_nobody_knows(tmp_path: Path) -> None:
    ase.io.write(tmp_path / "a.traj", [ase.Atoms("H2")])
    (tmp_path / "b.txt").write_text("nothing\n")
    sources = [tmp_path / "a.traj", tmp_path / "b.txt"]
    with pytest.raises(UnsupportedFormatError, match=r"b\.txt: .* ASE does not know .* --from"):
        convert(sources, tmp_path / "o.atp", progress=False)
    report = convert(sources, tmp_path / "o.atp", on_error="skip", progress=False)
    assert report.structures_written == 1
    ((what, why),) = report.skipped
    assert what == "the rest of a file"
    assert "b.txt" in why


def test_one_structure_that_cannot_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = ase.Atoms("H"), ase.Atoms("H")
    bad.info["bad"] = True
    monkeypatch.setattr("ase.io.iread", lambda *_, **__: iter([good, bad, good]))

    def results(atoms: ase.Atoms, *_: object) -> None:
        if "bad" in atoms.info:
            raise ZeroDivisionError("of a\nreader")

    monkeypatch.setattr("atompack_torch.batch.conversions._take_results", results)
    path = tmp_path / "x.any"
    path.touch()
    with pytest.raises(CorruptFileError, match=r"ZeroDivisionError: of a reader \(molecule 1"):
        list(read(path, report=Report()))
    report = Report("skip")
    (block,) = read(path, report=report)
    assert len(block.ptr) == 3
    assert sum(report.skipped.values()) == 1


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.traj"):
        list(read(tmp_path / "none.traj", report=Report("skip")))


def test_a_format_of_ase_by_name(tmp_path: Path) -> None:
    ase.io.write(tmp_path / "POSCAR", ase.Atoms("H", cell=[2, 2, 2], pbc=True), format="vasp")
    (tmp_path / "POSCAR").rename(tmp_path / "structure.dat")
    convert(tmp_path / "structure.dat", tmp_path / "o.atp", format="ase:vasp", progress=False)
    assert apt.AtpDataset(tmp_path / "o.atp")[0].cell.diagonal().tolist() == [2, 2, 2]


def test_labels_in_info_and_arrays(tmp_path: Path) -> None:
    images = [ase.Atoms("H" * n, np.zeros((n, 3))) for n in (2, 3, 4, 3)]
    for i, atoms in enumerate(images):
        atoms.info |= {"energy": 1.0 + i, "forces": np.full((len(atoms), 3), i)}
        atoms.info |= {"stress": np.arange(6.0), "spins": np.full(len(atoms), i)}
        atoms.info["charges"] = np.full(len(atoms), i)
    images[3].calc = SinglePointCalculator(images[3], energy=9.0)
    ase.io.write(tmp_path / "a.traj", images)
    with ase.db.connect(tmp_path / "a.db") as database:
        for atoms in images:
            database.write(atoms, data=atoms.info)
    for name in ("a.traj", "a.db"):
        report = convert(tmp_path / name, tmp_path / "a.atp", mode="w", progress=False)
        batch = apt.AtpDataset(tmp_path / "a.atp")[:]
        rows = batch.batch.tolist()
        assert batch.energy.tolist() == [1, 2, 3, 9]
        assert batch["properties/energy"].tolist()[3] == 4
        assert batch.forces[:, 2].tolist() == batch.charges.tolist() == rows
        assert batch["spins"].tolist() == rows  # of atoms, as their lengths show
        assert batch.stress[0].tolist() == [[0, 5, 4], [5, 1, 3], [4, 3, 2]]
        assert not report.skipped
        assert any(note.startswith("forces: read from a value") for note in report.notes)


def test_forces_without_an_energy_are_named(tmp_path: Path) -> None:
    atoms = ase.Atoms("H")
    atoms.info["total"] = 1.0
    atoms.calc = SinglePointCalculator(atoms, forces=np.zeros((1, 3)))
    ase.io.write(tmp_path / "a.traj", atoms)
    (warning,) = convert(tmp_path / "a.traj", tmp_path / "a.atp", progress=False).warnings
    assert warning.endswith("no energy: map it by key_map (--key) if it is one of properties/total")
