"""Contents of a report: counts, samples and extremes of one dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from atompack_torch.datasets.statistics import ElementCount, ReferenceEnergies
from atompack_torch.reports.groups import Groups, SpreadSums

Array = np.ndarray[Any, np.dtype[Any]]

# Bins of logarithmic histograms: 12 per power of ten.
LOG_LOW, LOG_HIGH, PER_DECADE = -9, 9, 12
LOG_EDGES = np.linspace(LOG_LOW, LOG_HIGH, (LOG_HIGH - LOG_LOW) * PER_DECADE + 1)


@dataclass
class Label:
    """Occurrence and values of one field.

    Attributes:
        dtype: dtype in a batch.
        level: ``"molecule"`` or ``"atom"``.
        shape: shape of one row as text.
        n_present: number of molecules that have it.
        n_non_finite: number of molecules with values of it that are NaN or infinite.
        first_non_finite: indices of the first of them.
        spread: finite values.
    """

    dtype: str
    level: str
    shape: str
    n_present: int = 0
    n_non_finite: int = 0
    first_non_finite: list[int] = field(default_factory=list)
    spread: SpreadSums = field(default_factory=SpreadSums)


@dataclass(frozen=True)
class Neighborhoods:
    """Neighbors within a cutoff, of evenly chosen molecules.

    Attributes:
        cutoff: radius, in the unit of the positions.
        n_structures: number of molecules that were searched.
        counts: number of neighbors → number of atoms.
        nearest: distance from each atom of these molecules to its nearest neighbor.
        closest: molecules with the shortest distances: (minus the distance, number, formula).
        hydrogen: median of that distance for hydrogen atoms next to H, C, N, O or F; None unless
            most of them are.
        fault: why the search failed; None if it did not.
    """

    cutoff: float
    n_structures: int
    counts: Mapping[int, int]
    nearest: Array
    closest: Sequence[tuple[float, int, str]]
    hydrogen: float | None
    fault: str | None


@dataclass(frozen=True)
class Duplicates:
    """Molecules with equal stored geometry.

    Attributes:
        hashes: sorted hashes of the molecules, or of a share of them.
        numbers: indices of their molecules.
        share: one in ``share`` possible hashes was kept.
    """

    hashes: Array
    numbers: Array
    share: int

    @property
    def n_surplus(self) -> int:
        """Number of molecules that are copies of an earlier one; an estimate if share > 1."""
        return (len(self.hashes) - len(np.unique(self.hashes))) * self.share

    def groups(self, most: int) -> list[list[int]]:
        """Returns the indices of equal molecules, the largest groups first.

        Args:
            most: maximum number of groups.

        Returns:
            Groups of two or more numbers.
        """
        _, first, counts = np.unique(self.hashes, return_index=True, return_counts=True)
        repeated = np.flatnonzero(counts > 1)
        order = repeated[np.argsort(-counts[repeated], kind="stable")[:most]]
        return [self.numbers[first[i] : first[i] + counts[i]].tolist() for i in order]


@dataclass
class Findings:
    """Everything that a report shows of one dataset; values are in the units of the file.

    Attributes:
        name: name of the dataset.
        groups: what was found by group, errors of predictions, isolated atoms.
        n_structures: number of molecules.
        n_atoms: number of their atoms.
        sizes: number of atoms → number of molecules.
        elements: atomic number → counts of atoms and molecules.
        labels: name → occurrence and values.
        reference_energies: fitted energies of the elements, or None.
        sample: columns of some molecules: ``number``, ``n_atoms``, ``energy`` (NaN without one),
            ``composition`` (n, 256), ``volume`` (NaN without a cell).
        stride: distance between the molecules of the sample.
        force_norms: logarithmic histogram of the lengths of force vectors.
        n_zero_forces: number of force vectors of length 0.
        n_force_vectors: number of finite force vectors.
        worst_forces: (longest force, number, formula), the largest first.
        periodicity: flags such as ``"TTF"`` → number of molecules.
        n_cells: number of molecules with a cell.
        n_flat_cells: periodic molecules whose cell has no volume.
        n_left_handed: molecules whose cell vectors are left-handed.
        duplicates: molecules with equal geometry.
        neighborhoods: neighbors within a cutoff.
    """

    name: str
    groups: Groups
    n_structures: int = 0
    n_atoms: int = 0
    sizes: Counter[int] = field(default_factory=Counter)
    elements: dict[int, ElementCount] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    reference_energies: ReferenceEnergies | None = None
    sample: dict[str, Array] = field(default_factory=dict)
    stride: int = 1
    force_norms: Array = field(default_factory=lambda: np.zeros(len(LOG_EDGES) - 1, np.int64))
    n_zero_forces: int = 0
    n_force_vectors: int = 0
    worst_forces: list[tuple[float, int, str]] = field(default_factory=list)
    periodicity: Counter[str] = field(default_factory=Counter)
    n_cells: int = 0
    n_flat_cells: int = 0
    n_left_handed: int = 0
    duplicates: Duplicates = field(init=False)
    neighborhoods: Neighborhoods = field(init=False)

    def energies(self) -> tuple[Array, Array, Array]:
        """Returns energies per atom of the sample, before and after reference energies.

        Returns:
            (n,) indices of molecules, (n,) energies per atom, (n,) what is left of them after the
            reference energies are subtracted.
        """
        if not self.sample:
            empty = np.zeros(0)
            return np.zeros(0, np.int64), empty, empty
        n_atoms, energy = self.sample["n_atoms"], self.sample["energy"]
        there = np.isfinite(energy) & (n_atoms > 0)
        raw = energy[there] / n_atoms[there]
        left = raw.copy()
        if self.reference_energies is not None:
            references = np.zeros(256)
            for z, value in self.reference_energies.energies.items():
                references[z] = value
            left = (energy[there] - self.sample["composition"][there] @ references) / n_atoms[there]
        return self.sample["number"][there], raw, left


def log_histogram(values: Array) -> Array:
    """Counts positive values by the bins of ``LOG_EDGES``; values beyond count in the end bins."""
    logs = np.log10(values[values > 0])
    bins = np.floor((logs - LOG_LOW) * PER_DECADE).astype(np.int64)
    return np.bincount(bins.clip(0, len(LOG_EDGES) - 2), minlength=len(LOG_EDGES) - 1)


def shared_geometries(first: Duplicates, second: Duplicates) -> tuple[int, int]:
    """Counts the molecules of a dataset whose geometry is in another too.

    Args:
        first: molecules of the other dataset.
        second: molecules of this dataset.

    Returns:
        Their number, and one in how many hashes it was estimated from.
    """
    share = max(first.share, second.share)
    hashes = second.hashes[second.hashes % np.uint64(share) == 0]
    return int(np.isin(hashes, first.hashes).sum()) * share, share
