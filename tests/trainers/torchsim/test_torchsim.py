"""``to_torchsim``: the state that torch-sim makes of ASE's atoms, and a step of its dynamics."""

from __future__ import annotations

from pathlib import Path

import ase
import numpy as np
import pytest
import torch
import torch_sim
from structures import structures, write_atp
from torch_sim.models.lennard_jones import LennardJonesModel

import atompack_torch as apt


def batch_of(made: list[ase.Atoms], path: Path) -> apt.MoleculeBatch:
    return apt.AtpDataset(write_atp(path / "a.atp", made))[:]


@pytest.mark.parametrize("periodic", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_its_own_state(tmp_path: Path, periodic: bool, dtype: torch.dtype) -> None:
    made = structures(5, periodic=periodic)
    made[0].set_masses(np.arange(1.0, len(made[0]) + 1))
    batch = batch_of(made, tmp_path).to(dtype=dtype)
    ours = batch.to_torchsim()
    stock = torch_sim.io.atoms_to_state(made, torch.device("cpu"), dtype)
    for name in ("positions", "masses", "cell", "pbc", "atomic_numbers", "system_idx"):
        torch.testing.assert_close(getattr(ours, name), getattr(stock, name), rtol=0, atol=0)
    assert ours.positions.data_ptr() == batch.positions.data_ptr()
    model = LennardJonesModel(sigma=2.0, epsilon=0.1, dtype=dtype, cutoff=torch.tensor(4.0))
    results = [model(state) for state in (ours, stock)]
    torch.testing.assert_close(results[0]["energy"], results[1]["energy"])


def test_a_state_has_one_periodicity(tmp_path: Path) -> None:
    batch = batch_of(structures(2), tmp_path)
    with pytest.raises(apt.FieldError, match="expected the same pbc in all molecules, got"):
        batch.to_torchsim()


def test_an_unknown_mass(tmp_path: Path) -> None:
    batch = apt.MoleculeBatch.from_molecules([apt.Molecule(np.zeros((1, 3)), [200])])
    with pytest.raises(apt.FieldError, match="got atomic number 200 without a mass"):
        batch.to_torchsim()
    batch.set_field("atom_properties/masses", torch.tensor([3.0]), "atom")
    assert batch.to_torchsim().masses.tolist() == [3.0]
