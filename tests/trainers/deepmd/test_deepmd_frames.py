"""Frame batches for DeePMD-kit, next to those that it reads from converted systems itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ase
import numpy as np
import operators  # noqa: F401
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from ase.data import chemical_symbols
from deepmd.pt.loss.ener import EnergyStdLoss
from deepmd.pt.utils.dataloader import collate_batch
from deepmd.pt.utils.dataset import DeepmdDataSetForLoader
from structures import ELEMENTS, structures, write_atp

import atompack_torch as apt
from atompack_torch.trainers import deepmd

pytestmark = pytest.mark.timeout(300)
TYPE_MAP = [chemical_symbols[number] for number in ELEMENTS]
LOSS = {f"{when}_pref_{what}": 1.0 for when in ("start", "limit") for what in "efv"}


def stock_frames(systems: Path) -> dict[float, dict[str, Any]]:
    """Every frame as DeePMD-kit reads it, by its energy; without a label, by 0."""
    found = {}
    for folder in sorted(systems.iterdir()):
        system = DeepmdDataSetForLoader(str(folder), TYPE_MAP)
        system.add_data_requirement(
            EnergyStdLoss(starter_learning_rate=1.0, **LOSS).label_requirement
        )
        for number in range(len(system)):
            frame = system[number]
            found[float(frame["energy"][0])] = frame
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_atp(tmp_path / "train.atp", structures(40, seed=2))


@pytest.fixture
def systems(path: Path) -> Path:
    folder = path.parent / "systems"
    apt.convert(path, folder, target="deepmd", progress=False)
    return folder


def both(path: Path, systems: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Our batches next to the same frames, read and collated by DeePMD-kit."""
    frames = stock_frames(systems)
    for batch in deepmd.loader(path, 4, TYPE_MAP, shuffle=False):
        energies = batch["energy"][:, 0].tolist()
        yield batch, {**collate_batch([frames[energy] for energy in energies]), "sid": 0}


def test_frames_are_those_of_the_converted_systems(path: Path, systems: Path) -> None:
    """DeePMD-kit sorts the atoms of a frame by type; otherwise all values and types are equal."""
    n_frames = 0
    for ours, stock in both(path, systems):
        n_frames += len(ours["coord"])
        order = torch.argsort(ours["atype"], dim=1, stable=True)
        rows = torch.arange(len(order))[:, None]
        for key in ("coord", "force", "atype"):
            torch.testing.assert_close(ours[key][rows, order], stock[key], rtol=0, atol=0)
        for key in ("energy", "virial", "natoms"):
            torch.testing.assert_close(ours[key], stock[key], rtol=1e-12, atol=1e-12)
        if stock["box"] is None:
            assert ours["box"] is None
        else:
            torch.testing.assert_close(ours["box"], stock["box"], rtol=0, atol=0)
        for key in ("find_energy", "find_force", "find_virial"):
            assert ours[key] == stock[key]
            assert type(ours[key]) is type(stock[key])
    assert n_frames == 40


def test_a_finished_batch(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    for made in deepmd.loader(dataset, 4, TYPE_MAP):
        found = deepmd.batch(dataset.batch(made["fid"]), TYPE_MAP)
        assert found.keys() == made.keys()
        for key, value in made.items():
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(found[key], value, rtol=0, atol=0)


def test_the_sign_of_the_virial() -> None:
    """A compressed crystal has a negative stress and a positive virial."""
    atoms = ase.Atoms("Cu", cell=[2.0, 3.0, 4.0], pbc=True)
    stress = torch.diag(torch.tensor([-0.1, -0.2, -0.3], dtype=torch.float64))
    molecule = apt.Molecule(
        atoms.positions, atoms.numbers, cell=atoms.cell[:], pbc=atoms.pbc, stress=stress
    )
    virial = deepmd.batch(apt.collate([molecule]), ["Cu"])["virial"]
    expected = torch.diag(torch.tensor([2.4, 4.8, 7.2], dtype=torch.float64)).view(1, 9)
    torch.testing.assert_close(virial, expected)


@pytest.mark.parametrize("pbc", [{}, {"pbc": [True] * 3}, {"pbc": [False] * 3}])
def test_a_cell_is_a_box_unless_it_is_not_periodic(pbc: dict[str, Any]) -> None:
    cell = molecule(1, cell=2 * np.eye(3), stress=np.eye(3), **pbc)
    frames = deepmd.batch(apt.collate([cell]), ["H"])
    has_box = pbc.get("pbc") != [False] * 3
    assert (frames["box"] is not None) == has_box
    assert frames["find_virial"] == has_box


@pytest.mark.parametrize("without", [["energy"], ["forces"], ["stress"], ["energy", "forces"]])
def test_missing_labels_have_no_weight(tmp_path: Path, without: list[str]) -> None:
    """A label counts in batches whose molecules all have it, and no batch mixes both."""
    made = structures(40, seed=2, periodic=True, without=without)
    path = write_atp(tmp_path / "train.atp", made)
    names = {"energy": "energy", "forces": "force", "stress": "virial"}
    counted = 0
    for frames in deepmd.loader(path, 4, TYPE_MAP):
        lacks = [number % 3 == 1 for number in frames["fid"]]
        assert len(set(lacks)) == 1
        for label, name in names.items():
            assert frames[f"find_{name}"] == np.float32(not (lacks[0] and label in without))
            assert torch.isfinite(frames[name]).all()
        counted += sum(lacks)
    assert counted == 13


def test_a_batch_that_mixes_labels_does_without_them() -> None:
    """As DeePMD-kit's reader of LMDB does."""
    numbers = [1, 1]
    positions = np.zeros((2, 3))
    labelled = apt.Molecule(positions, numbers, energy=1.0, forces=np.ones((2, 3)))
    other = apt.Molecule(positions, numbers, energy=2.0)
    frames = deepmd.batch(apt.collate([labelled, other]), ["H"])
    assert frames["find_energy"] == 1
    assert frames["find_force"] == 0
    assert torch.isfinite(frames["force"]).all()


def molecule(n: int, **labels: Any) -> apt.Molecule:
    return apt.Molecule(np.zeros((n, 3)), [1] * n, **labels)


def test_errors() -> None:
    with pytest.raises(apt.FieldError, match="as many atoms in all molecules of a batch"):
        deepmd.batch(apt.collate([molecule(1), molecule(3)]), ["H"])
    cell = molecule(2, cell=np.eye(3), pbc=[True] * 3)
    with pytest.raises(apt.FieldError, match="expected a cell in all 2 molecules"):
        deepmd.batch(apt.collate([molecule(2), cell]), ["H"])
    with pytest.raises(apt.FieldError, match=r"expected elements of the model \(O\), got H"):
        deepmd.batch(apt.collate([molecule(2)]), ["O"])
    with pytest.raises(ValueError, match="type_map: expected different elements"):
        deepmd.layout(["H", "H"])


def test_partly_periodic_molecules_are_noted(tmp_path: Path) -> None:
    slab = ase.Atoms("Cu", cell=[2, 2, 20], pbc=[True, True, False])
    slab.calc = SinglePointCalculator(slab, energy=0.0)
    path = write_atp(tmp_path / "slab.atp", [slab])
    with pytest.warns(UserWarning, match="1 molecules are periodic in some directions only"):
        (frames,) = deepmd.loader(path, 4, TYPE_MAP)
    assert frames["box"].shape == (1, 9)


def test_a_transform_of_molecules_without_pbc(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(apt.Molecule(torch.zeros(2, 3), torch.ones(2).long(), energy=1.0))
    dataset = apt.AtpDataset(tmp_path / "a.atp", transform=lambda batch: batch)
    (frames,) = deepmd.loader(dataset, 4, TYPE_MAP)
    assert frames["box"] is None
    assert frames["energy"].tolist() == [[1]]


def test_kept_groups(path: Path) -> None:
    groups = deepmd.frame_groups(path)
    found = [frames["fid"] for frames in deepmd.loader(path, 4, TYPE_MAP, groups=groups)]
    assert found == [frames["fid"] for frames in deepmd.loader(path, 4, TYPE_MAP)]
    with pytest.raises(ValueError, match="groups: expected 40 numbers, got 39"):
        deepmd.loader(path, 4, TYPE_MAP, groups=groups[1:])
