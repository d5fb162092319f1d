"""Statistics that SevenNet takes shift, scale and conv_denominator from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from sevenn._const import NUM_UNIV_ELEMENT
from torch import Tensor

from atompack_torch.batch.elements import SYMBOLS

_RIDGE = 0.1  # penalty of the fit of reference energies, as in SevenNet


class DatasetStatistics:
    """Statistics of a data set under the names of ``SevenNetGraphDataset``, in float64.

    Labels that are NaN are left out.

    Args:
        batches: all batches of the data set, with the atomic number as ``x``.
    """

    def __init__(self, batches: Iterable[Any]) -> None:
        names = ("total_energy", "per_atom_energy", "force_of_atoms", "stress")
        self._moments = {name: _Moments() for name in (*names, "num_neighbor")}
        self._atoms = torch.zeros(NUM_UNIV_ELEMENT, dtype=torch.float64)
        self._normal = torch.zeros((NUM_UNIV_ELEMENT,) * 2, dtype=torch.float64)
        self._projected = torch.zeros(NUM_UNIV_ELEMENT, dtype=torch.float64)
        self.n_structures = self.n_unlabeled = 0
        for batch in batches:
            self._add(batch)

    def _add(self, batch: Any) -> None:
        n_molecules = len(batch.num_atoms)
        for name, moments in self._moments.items():
            if name != "num_neighbor":
                moments.add(batch[name].reshape(-1))
        # As SevenNet counts: atoms without neighbors are left out.
        _, counts = torch.unique_consecutive(batch.edge_index[0], return_counts=True)
        self._moments["num_neighbor"].add(counts.double())
        composition = torch.zeros((n_molecules, NUM_UNIV_ELEMENT), dtype=torch.float64)
        ones = torch.ones(len(batch.x), dtype=torch.float64)
        composition.index_put_((batch.batch, batch.x), ones, accumulate=True)
        self._atoms += composition.sum(0)
        lacks_forces = torch.zeros(n_molecules, dtype=torch.bool)
        lacks_forces[batch.batch[batch.force_of_atoms.isnan().any(1)]] = True
        has_energy = ~batch.total_energy.isnan()
        self.n_structures += n_molecules
        self.n_unlabeled += int((lacks_forces | ~has_energy).sum())
        composition, energies = composition[has_energy], batch.total_energy[has_energy]
        self._normal += composition.T @ composition
        self._projected += composition.T @ energies

    @property
    def statistics(self) -> dict[str, dict[str, float]]:
        """Name → mean, standard deviation and so on, for the log of SevenNet."""
        found = {name: m.as_dict() for name, m in self._moments.items() if m.count}
        atoms = {symbol: int(self._atoms[z]) for z, symbol in self._elements}
        return {**found, "natoms": {**atoms, "total": int(self._atoms.sum())}}

    @property
    def _elements(self) -> list[tuple[int, str]]:
        return [(z, SYMBOLS[z]) for z in self._atoms.nonzero().flatten().tolist()]

    @property
    def species(self) -> list[str]:
        """Symbols of the elements."""
        return [symbol for _, symbol in self._elements]

    @property
    def per_atom_energy_mean(self) -> float:
        """Mean of energy per atom over the structures, in eV."""
        return self._moments["per_atom_energy"].mean

    @property
    def per_atom_energy_std(self) -> float:
        """Standard deviation of energy per atom, in eV."""
        return self._moments["per_atom_energy"].std

    @property
    def force_rms(self) -> float:
        """Root of the mean square of force components, in eV/Å."""
        return math.hypot(self._moments["force_of_atoms"].mean, self._moments["force_of_atoms"].std)

    @property
    def avg_num_neigh(self) -> float:
        """Mean number of neighbors of the atoms that have any."""
        return self._moments["num_neighbor"].mean

    @property
    def sqrt_avg_num_neigh(self) -> float:
        """Square root of the mean number of neighbors."""
        return math.sqrt(self.avg_num_neigh)

    @property
    def elemwise_reference_energies(self) -> list[float]:
        """Energy of each element by ridge regression, by atomic number, in eV."""
        present = self._atoms > 0
        normal = self._normal[present][:, present]
        penalty = _RIDGE * torch.eye(len(normal), dtype=torch.float64)
        energies = torch.zeros(NUM_UNIV_ELEMENT, dtype=torch.float64)
        energies[present] = torch.linalg.solve(normal + penalty, self._projected[present])
        return [float(energy) for energy in energies]


class _Moments:
    """Count, mean, sum of squared deviations and range, merged from batches."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = self._squares = 0.0
        self._min, self._max = math.inf, -math.inf

    def add(self, values: Tensor) -> None:
        values = values[~values.isnan()].double()
        if not (n := len(values)):
            return
        mean = float(values.mean())
        total, difference = self.count + n, mean - self._mean
        self._squares += float((values - mean).square().sum())
        self._squares += difference**2 * self.count * n / total
        self._mean += difference * n / total
        self.count = total
        self._min = min(self._min, float(values.min()))
        self._max = max(self._max, float(values.max()))

    @property
    def mean(self) -> float:
        return self._mean if self.count else math.nan

    @property
    def std(self) -> float:
        return math.sqrt(self._squares / self.count) if self.count else math.nan

    def as_dict(self) -> dict[str, float]:
        spread = {"mean": self.mean, "std": self.std, "max": self._max, "min": self._min}
        return {**spread, "count": self.count}
