"""The format of a source: its content counts more than its suffix."""

from __future__ import annotations

from pathlib import Path

import ase
import ase.db
import ase.io
import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.formats import by_suffix, detect

FRAME = "1\nProperties=species:S:1:pos:R:3 energy=-1.0\nH 0 0 0\n"


def write_atp(path: Path) -> None:
    with apt.AtpWriter(path) as writer:
        writer.write(apt.Molecule(np.zeros((1, 3)), [1], energy=-1.0))


def write_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, positions=np.zeros((1, 1, 3)), atomic_numbers=[1], energy=[-1.0])


def write_database(path: Path) -> None:
    with ase.db.connect(str(path), "db") as database:
        database.write(ase.Atoms("H"), data={"energy": -1.0})


def write_trajectory(path: Path) -> None:
    ase.io.write(path, ase.Atoms("H"), format="traj")


WRITERS = {
    "atp": write_atp,
    "npz": write_npz,
    "extxyz": lambda path: path.write_text(FRAME),
    "ase-db": write_database,
    "ase": write_trajectory,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_content_wins(kind: str, tmp_path: Path) -> None:
    for suffix in (".atp", ".xyz", ".db", ".aselmdb", ".npz", ".h5", ".gz", ""):
        assert_content_wins(kind, tmp_path / f"data{suffix}", tmp_path / f"out{suffix}.atp")


def assert_content_wins(kind: str, source: Path, target: Path) -> None:
    WRITERS[kind](source)
    report = apt.convert(source, target, progress=False)
    assert len(apt.AtpDataset(target)) == 1
    named = by_suffix(source)
    known = detect(source)
    assert known is not None
    assert known.source == kind
    differs = named is not None and named.source != kind
    note = f"{source}: read as {known.title} by its content, not by its suffix"
    assert (note in report.notes) == differs


def test_folders_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "OUTCAR").write_text("vasp.6\n")
    with pytest.raises(FileNotFoundError, match=r"none of them: `atompack-torch convert .*/\* "):
        apt.convert(tmp_path, tmp_path / "a.atp", progress=False)


@pytest.mark.parametrize("suffix", [".xyz", ".extxyz", ".xyz.gz"])
def test_the_suffix_counts_for_text(suffix: str, tmp_path: Path) -> None:
    """A comment line may be anything, so a frame need not look like extended XYZ."""
    source = tmp_path / f"data{suffix}"
    source.write_text("\n1\n".lstrip() + "[1, 2]\nH 0 0 0\n")
    known = detect(source)
    assert known is not None
    assert known.name == "extxyz"
