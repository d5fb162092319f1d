"""Molecules and examples that follow from their number: writers and checks make the same."""

from __future__ import annotations

from typing import Any

import numpy as np


def molecules(first: int, last: int, width: int = 1) -> dict[str, Any]:
    """Molecules ``first`` to ``last`` as arguments of ``write_arrays``.

    ``width``: number of equal columns of the atoms' property ``q``.
    """
    n_atoms = np.arange(first, last) % 7
    numbers = np.repeat(np.arange(first, last), n_atoms)
    positions = np.stack([numbers, numbers + 0.25, -numbers], 1).astype("f4")
    return {
        "positions": positions,
        "atomic_numbers": numbers % 100,
        "n_atoms": n_atoms,
        "energy": np.arange(first, last) / 3,
        "name": [str(k) for k in range(first, last)],
        "atom_properties": {"q": np.repeat(numbers[:, None] * 0.5, width, 1)},
    }


def labeled(first: int, last: int) -> dict[str, Any]:
    """The same with one atom at least, periodic, with forces: what most formats can hold."""
    n_atoms = np.arange(first, last) % 5 + 1
    numbers = np.repeat(np.arange(first, last), n_atoms)
    shifts = np.concatenate([np.arange(n) for n in n_atoms]) * 0.75
    return {
        "positions": np.stack([numbers, numbers + shifts, -numbers], 1).astype("f8"),
        "atomic_numbers": numbers % 3 + 6,
        "n_atoms": n_atoms,
        "energy": np.arange(first, last) / 4,
        "forces": np.stack([numbers, shifts, -numbers], 1) / 8,
        "cell": np.tile(np.eye(3) * 9, (last - first, 1, 1)),
        "pbc": np.ones((last - first, 3), bool),
    }


def example(i: int) -> dict[str, Any]:
    """One example of a dataset of shards."""
    return {"i": i, "a": np.arange(200) * i}
