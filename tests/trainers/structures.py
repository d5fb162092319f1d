"""Small labelled structures, on which every trainer is tried."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
from ase.build import bulk, molecule
from ase.calculators.singlepoint import SinglePointCalculator
from ase.stress import full_3x3_to_voigt_6_stress

import atompack_torch as apt

ELEMENTS = (1, 6, 8, 13, 29)  # of all structures
CUTOFF = 4.0  # Å; every atom has neighbors within
LABELS = ("energy", "forces", "stress")

_MOLECULES = ("H2O", "CH4", "CO2", "CH3OH", "C2H4")


def structures(
    count: int, *, seed: int = 0, periodic: bool | None = None, without: Sequence[str] = ()
) -> list[ase.Atoms]:
    """Distorted crystals and molecules with energy, forces and, in a cell, stress.

    The labels are random but finite: trainers only have to hand them on.

    Args:
        count: number of structures; every second one is a crystal unless ``periodic`` says which.
        seed: of the distortions and labels.
        periodic: only crystals, or only molecules.
        without: labels that every third structure lacks, beginning with the second.
    """
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        is_crystal = number % 2 == 0 if periodic is None else periodic
        atoms = _crystal(rng) if is_crystal else molecule(str(rng.choice(_MOLECULES)))
        atoms.rattle(0.05, rng=rng)
        results: dict[str, Any] = {
            "energy": float(rng.normal(-4.0 * len(atoms), 0.5)),
            "forces": rng.normal(0, 0.5, (len(atoms), 3)),
        }
        if is_crystal:
            stress = rng.normal(0, 0.01, (3, 3))
            results["stress"] = full_3x3_to_voigt_6_stress((stress + stress.T) / 2)
        if number % 3 == 1:
            results = {name: value for name, value in results.items() if name not in without}
        atoms.calc = SinglePointCalculator(atoms, **results)
        made.append(atoms)
    return made


def _crystal(rng: np.random.Generator) -> ase.Atoms:
    atoms = bulk(*(("Al", "fcc", 4.05), ("Cu", "fcc", 3.6))[int(rng.integers(2))], cubic=True)
    atoms.numbers[int(rng.integers(len(atoms)))] = int(rng.choice([13, 29]))
    atoms.set_cell(atoms.cell[:] + rng.normal(0, 0.05, (3, 3)), scale_atoms=True)
    return atoms


def write_atp(path: Path, made: Sequence[ase.Atoms]) -> Path:
    """Writes structures as ``.atp`` with float64 positions and forces; returns the path."""
    with apt.AtpWriter(path) as writer:
        for atoms in made:
            writer.write(apt.Molecule.from_ase(atoms))
    return path


def write_extxyz(path: Path, made: Sequence[ase.Atoms]) -> Path:
    """Writes structures as extended XYZ by ASE; returns the path."""
    ase.io.write(path, list(made), format="extxyz")
    return path


def write_misnamed(path: Path) -> Path:
    """Writes crystals as extended XYZ, with labels under names of their own; returns the path."""
    made = structures(4, periodic=True)
    for atoms in made:
        results, atoms.calc = atoms.calc.results, None
        atoms.info |= {"dft_energy": results["energy"], "energy_per_atom": -4.0}
        atoms.arrays["dft_forces"] = results["forces"]
    return write_extxyz(path, made)


KEY_MAP = {"dft_energy": "energy", "dft_forces": "forces"}  # of write_misnamed


def misnamed_as(suffix: str, folder: Path) -> tuple[Path, np.ndarray]:
    """Writes ``write_misnamed`` as ``.xyz`` or ``.atp``; returns the path and the energies."""
    path = write_misnamed(folder / "a.xyz")
    if suffix == ".atp":
        path = folder / "a.atp"
        apt.convert(folder / "a.xyz", path)
    energies = [atoms.calc.results["energy"] for atoms in structures(4, periodic=True)]
    return path, np.array(energies)
