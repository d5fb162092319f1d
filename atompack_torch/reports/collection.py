"""The pass of a report over the batches of a dataset, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.duplicates import geometry_hashes
from atompack_torch.datasets.statistics import (
    N_ELEMENTS,
    ElementCount,
    ReferenceEnergies,
    fit_reference_energies,
    solve_normal,
)
from atompack_torch.display.markup import short
from atompack_torch.errors import FieldError
from atompack_torch.fields import DERIVED, STRUCTURE
from atompack_torch.formats.text import formula
from atompack_torch.reports.findings import (
    LOG_EDGES,
    Array,
    Duplicates,
    Findings,
    Label,
    Neighborhoods,
    log_histogram,
)
from atompack_torch.reports.groups import Groups
from atompack_torch.reports.sampling import Extremes, HashSample, ThinnedRows

_SAMPLE = 1 << 15  # molecules whose energies and volumes are kept
_HASHES = 1 << 22
_WORST = 12
_FIRST = 5  # molecules with NaN to name


class Collector:
    """Sums up batches, in order, to the findings of a report.

    Args:
        by: as for ``Groups``.
        predicted: as for ``Groups``.
    """

    def __init__(self, by: str | None = None, predicted: Mapping[str, str] | None = None) -> None:
        self._groups = Groups(by, predicted or {})
        self._n_structures = self._n_atoms = 0
        self._sizes: Counter[int] = Counter()
        self._atoms_of = np.zeros(N_ELEMENTS, np.int64)
        self._structures_of = np.zeros(N_ELEMENTS, np.int64)
        self._force_squares = np.zeros(N_ELEMENTS)
        self._force_atoms = np.zeros(N_ELEMENTS, np.int64)
        self._labels: dict[str, Label] = {}
        self._fit = _EnergyFit()
        self._rows = ThinnedRows(_SAMPLE)
        self._hashes = HashSample(_HASHES)
        self._norms = np.zeros(len(LOG_EDGES) - 1, np.int64)
        self._n_zero = self._n_vectors = 0
        self._worst = Extremes(_WORST)
        self._periodicity: Counter[str] = Counter()
        self._n_cells = self._n_flat = self._n_left_handed = 0

    def add(self, batch: MoleculeBatch) -> None:
        """Adds the molecules of a batch.

        Args:
            batch: the next molecules; they are numbered in the order in which they come.

        Raises:
            FieldError: an atomic number is not in 0 to 255, or as for ``Groups.add``.
        """
        n_atoms, numbers = batch.n_atoms.numpy(), batch.atomic_numbers.numpy()
        ptr, owner = batch.ptr.numpy(), batch.batch.numpy()
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < N_ELEMENTS:
            wrong = int(np.flatnonzero((numbers < 0) | (numbers >= N_ELEMENTS))[0])
            raise FieldError(
                f"atomic_numbers: expected 0 to {N_ELEMENTS - 1}, got {numbers[wrong]} "
                f"(molecule {self._n_structures + int(owner[wrong])}, field 'atomic_numbers')"
            )
        places = np.arange(len(batch), dtype=np.int64) + self._n_structures
        self._n_structures += len(batch)
        self._n_atoms += len(numbers)
        self._sizes.update(dict(zip(*(a.tolist() for a in _counts(n_atoms)), strict=True)))
        composition = np.bincount(
            owner * N_ELEMENTS + numbers, minlength=len(batch) * N_ELEMENTS
        ).reshape(-1, N_ELEMENTS)
        self._atoms_of += composition.sum(0)
        self._structures_of += (composition > 0).sum(0)

        def describe(row: int) -> str:
            return short(formula(numbers[ptr[row] : ptr[row + 1]].tolist()), 60)

        for name in batch.keys():
            if name not in STRUCTURE and name not in DERIVED:
                self._add_label(batch, name, places)
        energy = _scalars(batch, "energy")
        self._fit.add(composition, n_atoms, energy)
        self._add_forces(batch, numbers, owner, places, describe)
        volume = self._add_cells(batch)
        self._groups.add(batch, energy, volume)
        self._rows.add(
            places,
            {
                "n_atoms": n_atoms,
                "energy": energy,
                "composition": composition.astype(np.uint32),
                "volume": volume,
            },
        )
        cell, pbc = _array(batch, "cell"), _array(batch, "pbc")
        cell = np.zeros((len(batch), 3, 3)) if cell is None else cell
        pbc = np.zeros((len(batch), 3), bool) if pbc is None else pbc
        positions = batch.positions.numpy()
        self._hashes.add(places, geometry_hashes(numbers, positions, cell, pbc, ptr))

    def findings(self, name: str, neighborhoods: Neighborhoods | None) -> Findings:
        """Returns what was found.

        Args:
            name: name of the dataset.
            neighborhoods: neighbors, found separately.

        Returns:
            The findings.

        Raises:
            FieldError: a column of groups or predictions is in no batch.
        """
        self._groups.check(name)
        elements = {
            int(z): ElementCount(
                int(self._atoms_of[z]), int(self._structures_of[z]), self._force_rms(int(z))
            )
            for z in np.flatnonzero(self._atoms_of)
        }
        return Findings(
            name=name,
            n_structures=self._n_structures,
            n_atoms=self._n_atoms,
            sizes=dict(sorted(self._sizes.items())),
            elements=elements,
            labels=self._labels,
            reference_energies=self._fit.solution(),
            sample=self._rows.rows(),
            stride=self._rows.stride,
            force_norms=self._norms,
            n_zero_forces=self._n_zero,
            n_force_vectors=self._n_vectors,
            worst_forces=self._worst.rows(),
            periodicity=dict(self._periodicity.most_common()),
            n_cells=self._n_cells,
            n_flat_cells=self._n_flat,
            n_left_handed=self._n_left_handed,
            duplicates=Duplicates(*self._hashes.sorted(), self._hashes.share),
            neighborhoods=neighborhoods,
            groups=self._groups,
        )

    def _force_rms(self, z: int) -> float | None:
        n = 3 * self._force_atoms[z]
        return float(np.sqrt(self._force_squares[z] / n)) if n else None

    def _add_label(self, batch: MoleculeBatch, name: str, places: Array) -> None:
        value, mask = batch[name], batch.mask(name)
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = Label(_dtype(value), batch.level(name), _shape(value))
        elif label.shape != (shape := _shape(value)):
            label.shape = "varies" if shape != "" else label.shape
        label.n_present += int(mask.sum())
        present = mask.numpy()
        if isinstance(value, Tensor):
            rows = present if batch.level(name) == "molecule" else present[batch.batch.numpy()]
            owner = np.flatnonzero(present) if batch.level(name) == "molecule" else None
            if owner is None:
                owner = batch.batch.numpy()[rows]
            _add_values(label, value.numpy()[rows], places[owner])
        else:
            for i in np.flatnonzero(present):
                if isinstance(value[i], Tensor):
                    flat = value[i].numpy().reshape(1, -1)
                    _add_values(label, flat, places[i : i + 1])

    def _add_forces(
        self,
        batch: MoleculeBatch,
        numbers: Array,
        owner: Array,
        places: Array,
        describe: Callable[[int], str],
    ) -> None:
        forces = _array(batch, "forces")
        if forces is None:
            return
        norms = np.linalg.norm(forces.astype(np.float64), axis=1)
        there = batch.mask("forces").numpy()[owner] & np.isfinite(norms)
        self._n_vectors += int(there.sum())
        self._n_zero += int((norms[there] == 0).sum())
        self._norms += log_histogram(norms[there])
        self._force_atoms += np.bincount(numbers[there], minlength=N_ELEMENTS)
        self._force_squares += np.bincount(
            numbers[there], weights=norms[there] ** 2, minlength=N_ELEMENTS
        )
        largest = np.full(len(batch), -np.inf)
        np.maximum.at(largest, owner[there], norms[there])
        self._worst.add(largest, places, describe)

    def _add_cells(self, batch: MoleculeBatch) -> Array:
        """Counts cells; returns their volumes per atom (B,), NaN without one."""
        volume = np.full(len(batch), np.nan)
        cell, pbc = _array(batch, "cell"), _array(batch, "pbc")
        periodic = np.zeros((len(batch), 3), bool)
        if pbc is not None:
            periodic = pbc & batch.mask("pbc").numpy()[:, None]
        if cell is not None:
            there = batch.mask("cell").numpy() & (cell != 0).any((1, 2))
            signed = np.linalg.det(cell.astype(np.float64))
            n_atoms = batch.n_atoms.numpy()
            whole = there & (np.abs(signed) > 0) & np.isfinite(signed)
            self._n_cells += int(there.sum())
            self._n_left_handed += int((whole & (signed < 0)).sum())
            self._n_flat += int((there & ~whole & periodic.any(1)).sum())
            filled = whole & (n_atoms > 0)
            volume[filled] = np.abs(signed[filled]) / n_atoms[filled]
            periodic &= there[:, None]
        else:
            periodic[:] = False
        for code, count in zip(*_counts(periodic @ np.array([4, 2, 1])), strict=True):
            self._periodicity["".join("T" if code & bit else "F" for bit in (4, 2, 1))] += int(
                count
            )
        return volume


class _EnergyFit:
    """Sums for the fit of reference energies, relative to a guess from the first batches."""

    def __init__(self) -> None:
        self._guess: Array | None = None
        self._sums = [_no_equations(), _no_equations()]
        self._n = 0

    def add(self, composition: Array, n_atoms: Array, energy: Array) -> None:
        there = np.isfinite(energy) & (n_atoms > 0)
        if not there.any():
            return
        counts, energy = composition[there].astype(np.float64), energy[there]
        if self._guess is None:
            self._guess = solve_normal(_equations(counts, energy))[0]
        left = energy - counts @ self._guess
        self._n += len(left)
        per_atom = n_atoms[there].astype(np.float64)
        for sums, more in zip(
            self._sums,
            (_equations(counts, left), _equations(counts / per_atom[:, None], left / per_atom)),
            strict=True,
        ):
            for i in range(3):
                sums[i] = sums[i] + more[i]

    def solution(self) -> ReferenceEnergies | None:
        if self._guess is None:
            return None
        whole, per_atom = ((s[0], s[1], float(s[2])) for s in self._sums)
        return fit_reference_energies(whole, per_atom, self._n, self._guess)


def _equations(counts: Array, energy: Array) -> tuple[Array, Array, float]:
    present = np.flatnonzero(counts.any(0))
    part = counts[:, present]
    gram, right = np.zeros((N_ELEMENTS, N_ELEMENTS)), np.zeros(N_ELEMENTS)
    gram[np.ix_(present, present)] = part.T @ part
    right[present] = part.T @ energy
    return gram, right, float(energy @ energy)


def _no_equations() -> list[Any]:
    return [np.zeros((N_ELEMENTS, N_ELEMENTS)), np.zeros(N_ELEMENTS), 0.0]


def _add_values(label: Label, rows: Array, places: Array) -> None:
    """Adds present rows, and the numbers of their molecules in ascending order."""
    if rows.dtype.kind not in "fiu" or rows.size == 0:
        return
    flat = rows.reshape(len(rows), -1)
    finite = np.isfinite(flat)
    if not finite.all():
        wrong = np.unique(places[~finite.all(1)])
        label.n_non_finite += len(wrong)
        room = _FIRST - len(label.first_non_finite)
        label.first_non_finite += wrong[:room].tolist()
    label.spread.add(flat[finite])


def _counts(values: Array) -> tuple[Array, Array]:
    found = np.unique(values, return_counts=True)
    return found[0], found[1]


def _array(batch: MoleculeBatch, name: str) -> Array | None:
    value = batch.get(name)
    return value.numpy() if isinstance(value, Tensor) else None


def _scalars(batch: MoleculeBatch, name: str) -> Array:
    """Returns a field (B,) of the molecules as float64, NaN where it is missing."""
    values = _array(batch, name)
    if values is None:
        return np.full(len(batch), np.nan)
    return np.where(batch.mask(name).numpy(), values.astype(np.float64), np.nan)


def _dtype(value: Any) -> str:
    if isinstance(value, Tensor):
        return str(value.dtype).removeprefix("torch.")
    first = next((one for one in value if one is not None), None)
    return str(first.dtype).removeprefix("torch.") if isinstance(first, torch.Tensor) else "string"


def _shape(value: Any) -> str:
    if isinstance(value, Tensor):
        return " \N{MULTIPLICATION SIGN} ".join(map(str, value.shape[1:]))
    return "varies" if any(isinstance(one, Tensor) for one in value) else ""
