"""What has no place in a molecule made of an ``ase.Atoms`` is named by a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator

import atompack_torch as apt


def calculated() -> ase.Atoms:
    atoms = ase.Atoms("H2", [[0, 0, 0], [0, 0, 5.5]], cell=[5] * 3, pbc=True)
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0, forces=np.ones((2, 3)))
    return atoms


CHANGES: dict[str, tuple[Callable[[ase.Atoms], Any], str]] = {
    "wrapped": (lambda atoms: atoms.wrap(), r"positions changed\): energy, forces;"),
    "centered": (lambda atoms: atoms.center(vacuum=2), "cell, positions changed"),
    "magnetic": (lambda atoms: atoms.set_initial_magnetic_moments([1, 1]), "initial_magmoms"),
}


@pytest.mark.parametrize(("change", "what"), CHANGES.values(), ids=CHANGES)
def test_results_of_another_state(tmp_path: Path, change: Any, what: str) -> None:
    atoms = calculated()
    change(atoms)
    message = rf"dropped results of a calculator: they are of another state of the atoms \({what}"
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for make in (apt.Molecule.from_ase, writer.write, lambda a: writer.write([a])):
            with pytest.warns(UserWarning, match=message):
                make(atoms)
    with pytest.warns(UserWarning, match=message):
        assert "energy" not in apt.MoleculeBatch.from_ase([atoms])
    assert apt.AtpDataset(tmp_path / "a.atp")[0].energy is None
    atoms.calc = SinglePointCalculator(atoms, **atoms.calc.results)  # as the message says
    assert apt.Molecule.from_ase(atoms).energy == -1.0


def test_nothing_is_said_of_what_is_kept() -> None:
    atoms = calculated()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        molecule = apt.Molecule.from_ase(atoms)
    assert molecule.energy == -1.0


@pytest.mark.parametrize("energy", [1 + 2j, "1.5", np.datetime64("2020"), object()])
def test_results_that_are_no_real_numbers(tmp_path: Path, energy: Any) -> None:
    atoms = calculated()
    atoms.calc.results["energy"] = energy
    with pytest.raises(apt.FieldError, match="energy: expected real numbers, got"):
        apt.MoleculeBatch.from_ase([atoms])
    with (
        apt.AtpWriter(tmp_path / "a.atp") as writer,
        pytest.raises(apt.FieldError, match="energy: expected real numbers, got"),
    ):
        writer.write(atoms)
