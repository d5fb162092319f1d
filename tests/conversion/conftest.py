"""Structures for conversions, as ASE has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ase
import ase.build
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from reference.extxyz import Told


def labelled(seed: int) -> ase.Atoms:
    """A periodic structure with all labels and values that have no short decimal form."""
    rng = np.random.default_rng(seed)
    atoms = ase.build.bulk("Cu", cubic=True) * (1 + seed % 2, 1, 1)
    atoms.rattle(0.1, seed=seed)
    results = {
        "energy": float(rng.normal()),
        "forces": rng.normal(size=(len(atoms), 3)),
        "stress": rng.normal(size=6),
    }
    atoms.calc = SinglePointCalculator(atoms, **results)
    atoms.info |= {"gap": float(rng.normal()), "step": seed, "origin": f"run {seed}"}
    atoms.info["weights"] = rng.normal(size=4)
    atoms.set_array("spin", rng.normal(size=len(atoms)))
    return atoms


@pytest.fixture
def images() -> list[ase.Atoms]:
    """Twelve with labels, then a molecule with an energy alone, and a lone atom."""
    water = ase.build.molecule("H2O")
    water.calc = SinglePointCalculator(water, energy=-14.2)
    return [*(labelled(seed) for seed in range(12)), water, ase.Atoms("He", [[0.1, 0.2, 0.3]])]


@pytest.fixture
def told() -> Told:
    """Notes what a reader or writer of extended XYZ reports."""
    return Told()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Puts a text into a file of extended XYZ."""

    def make(text: str | bytes) -> Path:
        path = tmp_path / "x.extxyz"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make
