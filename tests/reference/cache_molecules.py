"""Molecules to build caches of, and what a cache of them must hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import atompack_torch as apt

MULTI = ("O", "H", "Si")
NUMBERS = {"O": 8, "H": 1, "Si": 14}
NAMES = (None, "water", "Wässer ☃ 🜚", "", "x" * 300, "y" * 2000)


def descriptor(species: Any = MULTI, **changed: Any) -> apt.ChebyshevDescriptor:
    settings: dict[str, Any] = {
        "rad_order": 3,
        "rad_cutoff": 3.4,
        "ang_order": 2,
        "ang_cutoff": 2.7,
    }
    return apt.ChebyshevDescriptor(list(species), **(settings | changed))


def molecule(rng: Any, k: int, species: Any = MULTI, labels: bool = True) -> apt.Molecule:
    """Of 0 to 6 atoms; energy, forces, cell, pbc and name are there for some k."""
    n = (4, 1, 6, 0, 3, 2, 5)[k % 7]
    numbers = np.array([NUMBERS[species[i]] for i in rng.integers(len(species), size=n)], int)
    there: dict[str, Any] = {"name": NAMES[k % len(NAMES)]}
    if k % 2:
        there["cell"] = np.eye(3) * 3.5 + rng.normal(size=(3, 3)) * 0.1
    if k % 4 == 1:
        there["pbc"] = (True, k % 8 == 1, False)
    if labels and k % 3 != 1:
        there["forces"] = rng.normal(size=(n, 3))
    if labels and k % 5 != 2:
        there["energy"] = float(rng.normal())
    return apt.Molecule(rng.uniform(0, 3, (n, 3)), numbers, **there)


def write(path: Path, n: int, species: Any = MULTI, labels: bool = True, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    with apt.AtpWriter(path) as writer:
        writer.write([molecule(rng, k, species, labels) for k in range(n)])
    return path
