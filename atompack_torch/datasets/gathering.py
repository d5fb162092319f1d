"""Gathering of statistics in one native pass, and the fit of reference energies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from atompack_torch._native import BatchRequest, MoleculeSource, StatisticsPass
from atompack_torch.datasets.statistics import (
    ElementCount,
    ReferenceEnergies,
    Spread,
    Statistics,
    ratio,
)
from atompack_torch.datasets.sweeping import OnProgress, steps
from atompack_torch.fields import RESERVED, FieldId, public_names

N_ELEMENTS = 256  # atomic numbers are one byte

Array = np.ndarray[Any, np.dtype[np.float64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Equations = tuple[Array, Array, float]  # sums of c c^T, c e and e^2 (composition, energy)


def gather(
    source: MoleculeSource,
    request: BatchRequest,
    selection: Numbers | None,
    n_threads: int,
    report: OnProgress | None = None,
    cutoff: float | None = None,
    features: bool = False,
) -> Statistics:
    """Gathers statistics of the molecules of a selection, read as requested.

    Args:
        source: the molecules.
        request: fields and treatment of missing labels, as for a batch.
        selection: (m,) indices of the molecules; None: all.
        n_threads: number of threads.
        report: called with the number of molecules done since the last call; None: it is not.
        cutoff: radius in which neighbors are counted; None: they are not.
        features: gather those of stored features too.

    Returns:
        The statistics.

    Raises:
        CorruptFileError, FieldError: as for ``dataset.statistics()``.
    """
    guess = guess_of(source, request, selection, n_threads)
    references = guess.tolist()
    whole = StatisticsPass(source, request, selection, references, cutoff, n_threads, features)
    found = found_by(whole, report)
    return statistics_of(found, guess, selection, cutoff, features=features)


def guess_of(
    source: MoleculeSource, request: BatchRequest, selection: Numbers | None, n_threads: int
) -> Array:
    """Estimates the reference energies from a few molecules.

    Args:
        source: the molecules.
        request: fields and treatment of missing labels.
        selection: (m,) indices of the molecules; None: all.
        n_threads: number of threads.

    Returns:
        (256,) energies by atomic number.
    """
    n = len(source) if selection is None else len(selection)
    sample: Numbers = np.arange(0, n, max(1, n // 4096), dtype=np.int64)
    if selection is not None:
        sample = selection[sample]
    no_references = [0.0] * N_ELEMENTS
    first = StatisticsPass(source, request, sample, no_references, None, n_threads)
    return solve_normal(found_by(first, None)["equations"])[0]


def statistics_of(
    found: Mapping[str, Any],
    guess: Array,
    selection: Numbers | None,
    cutoff: float | None,
    *,
    features: bool,
) -> Statistics:
    """Returns the statistics that follow from the sums of a pass.

    Args:
        found: the sums, as from ``StatisticsPass.found``.
        guess: (256,) energies that were subtracted before the sums were formed.
        selection: (m,) indices of the molecules; None: all.
        cutoff: radius in which neighbors were counted; None: they were not.
        features: True if those of stored features were gathered.

    Returns:
        The statistics.
    """
    forces = _spread(found["forces"])
    finite_forces = forces is not None and forces.count > 0
    return Statistics(
        n_molecules=found["n_molecules"],
        n_atoms=found["n_atoms"],
        sizes=dict(sorted(found["sizes"].items())),
        elements={
            z: ElementCount(atoms, found["molecules_of"][z], _force_rms(found, z))
            for z, atoms in enumerate(found["atoms_of"])
            if atoms
        },
        energy=_spread(found["energy"]),
        energy_per_atom=_spread(found["energy_per_atom"]),
        forces=forces,
        max_force=found["largest_force"] if finite_forces else None,
        reference_energies=fit_reference_energies(
            found["equations"], found["equations_per_atom"], found["energy_per_atom"][0], guess
        ),
        coverage=_coverage(found["coverage"]),
        max_force_molecule=_place_of(found["largest_force_at"], selection),
        isolated_atoms={
            z: spread
            for z, moments in found["isolated_atoms"].items()
            if (spread := _spread(moments)) is not None
        },
        cutoff=cutoff,
        mean_neighbors=None if cutoff is None else ratio(found["n_pairs"], found["n_atoms"]),
        features=_columns(found["features"]) if features else None,
    )


def _force_rms(found: Mapping[str, Any], z: int) -> float | None:
    n_components = found["force_components"][z]
    return math.sqrt(found["force_squares"][z] / n_components) if n_components else None


def _place_of(index: int, selection: Numbers | None) -> int | None:
    """Converts an index in the source to one in the selection; None if the index is -1."""
    if index < 0 or selection is None:
        return None if index < 0 else index
    return int(np.flatnonzero(selection == index)[0])


def found_by(native: StatisticsPass, report: OnProgress | None) -> dict[str, Any]:
    """Runs a pass to its end and returns its sums."""
    for _ in steps(native, report):
        pass
    return native.found()


def _spread(moments: tuple[int, int, float, float, float, float]) -> Spread | None:
    count, n_non_finite, mean, scatter, low, high = moments
    if count == 0:
        nothing = (math.nan,) * 5
        return Spread(0, n_non_finite, *nothing) if n_non_finite else None
    std = math.sqrt(scatter / count)
    return Spread(count, n_non_finite, mean, std, math.hypot(mean, std), low, high)


def _columns(moments: list[Any]) -> tuple[Spread, ...]:
    return tuple(_spread(one) or Spread(0, 0, *(math.nan,) * 5) for one in moments)


def _coverage(fields: list[tuple[int, str, str, int]]) -> dict[str, int]:
    names = public_names([FieldId(scope, key) for scope, key, *_ in fields], RESERVED)
    return {name: field[3] for name, field in zip(names, fields, strict=True)}


# NumPy, because torch's parallel regions would hang in a forked child.
def solve_normal(equations: Equations) -> tuple[Array, int, Array]:
    """Solves G x = b where G may be singular.

    Args:
        equations: G (256, 256), b (256,) and a number that is not used.

    Returns:
        A solution (256,), the rank, and an orthonormal basis (256, k) of the null space.
    """
    gram, right = equations[0], equations[1]
    present = gram.diagonal() > 0
    # Scaled so that rare elements count as much as common ones in determining the rank.
    scale = 1 / np.sqrt(gram.diagonal()[present])
    values, vectors = np.linalg.eigh(gram[present][:, present] * scale[:, None] * scale)
    is_kept = values > 1e-12 * values.max(initial=0.0)
    kept = vectors[:, is_kept]
    solution = np.zeros(N_ELEMENTS)
    solution[present] = scale * (kept @ ((kept.T @ (scale * right[present])) / values[is_kept]))
    free = np.zeros((N_ELEMENTS, int((~is_kept).sum())))
    free[present] = np.linalg.qr(scale[:, None] * vectors[:, ~is_kept])[0]
    return solution, int(is_kept.sum()), free


def fit_reference_energies(
    equations: Equations, equations_per_atom: Equations, n_molecules: int, guess: Array
) -> ReferenceEnergies | None:
    """Fits the reference energies to what is left of the energies after a guess.

    Args:
        equations: sums over molecules with atoms and a finite energy.
        equations_per_atom: the same, with each composition and energy divided by the number of
            atoms.
        n_molecules: number of these molecules.
        guess: (256,) energies that were subtracted before the sums were formed.

    Returns:
        The fit; None without molecules.
    """
    if n_molecules == 0:
        return None
    change, rank, free = solve_normal(equations)
    energies = guess + change
    energies = energies - free @ (free.T @ energies)  # the minimum-norm solution
    present = equations[0].diagonal() > 0
    return ReferenceEnergies(
        energies={int(z): float(energies[z]) for z in np.flatnonzero(present)},
        rank=rank,
        n_molecules=n_molecules,
        residual_rms=_residual(equations, change, n_molecules),
        residual_rms_per_atom=_residual(equations_per_atom, change, n_molecules),
    )


def _residual(equations: Equations, change: Array, n_molecules: int) -> float:
    gram, right, squares = equations[0], equations[1], equations[2]
    with np.errstate(over="ignore", invalid="ignore"):  # absurd energies give absurd residuals
        left_over = squares - float(2 * change @ right) + float(change @ gram @ change)
    return math.sqrt(max(left_over, 0.0) / n_molecules)
