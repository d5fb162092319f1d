"""Statistics of molecules, slowly and obviously: lists, NumPy, and a dense least-squares fit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.datasets.statistics import Spread, Statistics


@dataclass
class Plain:
    """What the statistics of one molecule depend on."""

    atomic_numbers: np.ndarray
    energy: float | None = None
    forces: np.ndarray | None = None
    labels: set[str] = field(default_factory=set)


def plain_of(molecule: apt.Molecule) -> Plain:
    """A molecule as the dataset reads it."""
    energy, forces = molecule["energy"], molecule["forces"]
    return Plain(
        molecule["atomic_numbers"].numpy(),
        None if energy is None else float(energy),
        None if forces is None else forces.double().numpy(),
        set(molecule.keys()) - {"positions", "atomic_numbers"},
    )


def assert_statistics(got: Statistics, molecules: Sequence[Plain], labels: Sequence[str]) -> None:
    """Counts are equal, sums agree to rounding."""
    sizes = [len(m.atomic_numbers) for m in molecules]
    assert got.n_molecules == len(molecules)
    assert got.n_atoms == sum(sizes)
    assert list(got.sizes.items()) == sorted(Counter(sizes).items())
    assert got.min_atoms == min(sizes, default=0)
    assert got.max_atoms == max(sizes, default=0)
    atoms = Counter(z for m in molecules for z in m.atomic_numbers.tolist())
    having = Counter(z for m in molecules for z in set(m.atomic_numbers.tolist()))
    assert list(got.elements) == sorted(atoms)
    assert {z: e.n_atoms for z, e in got.elements.items()} == atoms
    assert {z: e.n_molecules for z, e in got.elements.items()} == having
    assert got.coverage == {name: sum(name in m.labels for m in molecules) for name in labels}

    with_energy = [m for m in molecules if m.energy is not None]
    assert_spread(got.energy, [m.energy for m in with_energy])
    with_atoms = [m for m in with_energy if len(m.atomic_numbers)]
    assert_spread(got.energy_per_atom, [m.energy / len(m.atomic_numbers) for m in with_atoms])
    forces = np.concatenate(
        [np.zeros((0, 3)), *(m.forces for m in molecules if m.forces is not None)]
    )
    assert_spread(got.forces, forces.flatten())
    finite = forces[np.isfinite(forces).all(1)]
    if got.max_force is not None:
        longest = max(np.linalg.norm(finite, axis=1), default=0.0)
        assert got.max_force == pytest.approx(longest, rel=1e-14)
    assert (got.max_force is None) == (not np.isfinite(forces).any())
    _assert_fit(got, [m for m in with_atoms if math.isfinite(m.energy)])


def assert_spread(got: Spread | None, values: Any) -> None:
    """Mean and spread of the finite values, by NumPy in extended precision."""
    every = np.array(values, np.longdouble)
    finite = every[np.isfinite(every)]
    if len(every) == 0:
        assert got is None
        return
    assert got is not None
    assert (got.count, got.n_non_finite) == (len(finite), len(every) - len(finite))
    if len(finite) == 0:
        assert math.isnan(got.mean)
        assert math.isnan(got.std)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        std, size = float(finite.std()), float(np.abs(finite).max())
        assert got.mean == pytest.approx(float(finite.mean()), rel=1e-13, abs=1e-13 * size)
        # Distances from the mean are as exact as the mean is.
        assert got.std == pytest.approx(std, rel=1e-10, abs=1e-13 * size)
        assert got.rms == pytest.approx(float(np.sqrt((finite**2).mean())), rel=1e-12)
    assert (got.min, got.max) == (float(finite.min()), float(finite.max()))


def _assert_fit(got: Statistics, molecules: Sequence[Plain]) -> None:
    fit = got.reference_energies
    if not molecules:
        assert fit is None
        return
    assert fit is not None
    elements = sorted({z for m in molecules for z in m.atomic_numbers.tolist()})
    counts = np.array([[np.sum(m.atomic_numbers == z) for z in elements] for m in molecules], float)
    energies = np.array([m.energy for m in molecules])
    expected, _, rank, _ = np.linalg.lstsq(counts, energies, rcond=1e-9)
    scale = float(np.abs(expected).max())
    assert fit.n_molecules == len(molecules)
    assert fit.rank == rank
    assert list(fit.energies) == elements
    assert list(fit.energies.values()) == pytest.approx(expected, rel=1e-6, abs=1e-8 * scale)
    left_over = energies - counts @ expected
    size = float(np.abs(energies).max())
    rms = float(np.sqrt(np.mean(left_over**2)))
    rms_per_atom = float(np.sqrt(np.mean((left_over / counts.sum(1)) ** 2)))
    assert fit.residual_rms == pytest.approx(rms, rel=1e-6, abs=1e-9 * size)
    assert fit.residual_rms_per_atom == pytest.approx(rms_per_atom, rel=1e-6, abs=1e-9 * size)
