"""What holds for the targets of all formats of other programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference.foreign import write_atp

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import convert

NAMES = {
    "parquet": "x.parquet",
    "mace-hdf5": "x.h5",
    "ase-db": "x.db",
    "deepmd": "folder",
    "metatrain": "folder",
    "aselmdb": "folder",
}
FOLDERS = [target for target, name in NAMES.items() if name == "folder"]


def content(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of all files in a folder."""
    files = [file for file in (path, *path.rglob("*")) if file.is_file()]
    return {str(file): file.read_bytes() for file in files}


def carbon(folder: Path) -> Path:
    return write_atp(folder / "c.atp", [Parts(np.zeros((1, 3)), np.array([6]), {}, {}, {})])


@pytest.mark.parametrize("target", [name for name in NAMES if name != "deepmd"])
def test_no_molecules(tmp_path: Path, target: str) -> None:
    source, path = write_empty(tmp_path / "0.atp"), tmp_path / NAMES[target]
    convert(source, path, target=target, progress=False)
    assert convert(path, tmp_path / "back.atp", progress=False).structures_read == 0


@pytest.mark.parametrize("target", [name for name in NAMES if name != "deepmd"])
def test_a_molecule_of_no_atoms(tmp_path: Path, target: str) -> None:
    none = Parts(np.zeros((0, 3)), np.zeros(0, int), {"forces": np.zeros((0, 3))}, {}, {})
    source, path = write_atp(tmp_path / "0.atp", [none]), tmp_path / NAMES[target]
    convert(source, path, target=target, progress=False)
    convert(path, tmp_path / "back.atp", progress=False)
    assert apt.AtpDataset(tmp_path / "back.atp")[0].forces.shape == (0, 3)


def write_empty(path: Path) -> Path:
    with apt.AtpWriter(path):
        pass
    return path


@pytest.mark.parametrize("target", NAMES)
def test_an_error_leaves_what_was_there(tmp_path: Path, target: str) -> None:
    path, broken = tmp_path / NAMES[target], tmp_path / "broken.xyz"
    broken.write_text("1\nx=1\nH 0 0 0\n1\nx=2\nH 0 0\n")
    sources = [carbon(tmp_path), broken]
    with pytest.raises(apt.CorruptFileError):
        convert(sources, path, target=target, progress=False)
    assert {each.name for each in tmp_path.iterdir()} == {"c.atp", "broken.xyz"}
    convert(sources[0], path, target=target, progress=False)
    before = content(path)
    with pytest.raises(apt.CorruptFileError):
        convert(sources, path, target=target, mode="w", progress=False)
    with pytest.raises(FileExistsError):
        convert(sources[0], path, target=target, progress=False)
    assert content(path) == before
    assert {each.name for each in tmp_path.iterdir()} == {"c.atp", "broken.xyz", path.name}


@pytest.mark.parametrize("target", FOLDERS)
def test_other_folders_are_not_replaced(tmp_path: Path, target: str) -> None:
    source = carbon(tmp_path)
    (tmp_path / "home/deep").mkdir(parents=True)
    (tmp_path / "home/deep/letter.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("home", "file"):
        with pytest.raises(ValueError, match=r"delete .* first"):
            convert(source, tmp_path / name, target=target, mode="w", progress=False)
    assert (tmp_path / "home/deep/letter.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir()
    for _ in range(2):
        convert(source, tmp_path / "empty", target=target, mode="w", progress=False)
    assert convert(tmp_path / "empty", tmp_path / "2.atp", progress=False).structures_read == 1
    with pytest.raises(ValueError, match="expected a local path, got a URL"):
        convert(source, "s3://bucket/folder", target=target, progress=False)
