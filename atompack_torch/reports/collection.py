"""The pass of a report over the batches of a dataset, in bounded memory."""

from __future__ import annotations

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
        name: name of the dataset.
        by: as for ``Groups``.
        predicted: as for ``Groups``.
    """

    def __init__(
        self, name: str, by: str | None = None, predicted: Mapping[str, str] | None = None
    ) -> None:
        self._found = Findings(name, Groups(by, predicted or {}))
        self._atoms_of = np.zeros(N_ELEMENTS, np.int64)
        self._structures_of = np.zeros(N_ELEMENTS, np.int64)
        self._force_squares = np.zeros(N_ELEMENTS)
        self._force_atoms = np.zeros(N_ELEMENTS, np.int64)
        self._fit = _EnergyFit()
        self._rows = ThinnedRows(_SAMPLE)
        self._hashes = HashSample(_HASHES)
        self._worst = Extremes(_WORST)

    def add(self, batch: MoleculeBatch) -> None:
        """Adds the molecules of a batch.

        Args:
            batch: the next molecules; they are numbered in the order in which they come.

        Raises:
            FieldError: an atomic number is not in 0 to 255, or as for ``Groups.add``.
        """
        found = self._found
        n_atoms, numbers = batch.n_atoms.numpy(), batch.atomic_numbers.numpy()
        ptr, owner = batch.ptr.numpy(), batch.batch.numpy()
        if len(numbers) and not 0 <= numbers.min() <= numbers.max() < N_ELEMENTS:
            wrong = int(np.flatnonzero((numbers < 0) | (numbers >= N_ELEMENTS))[0])
            raise FieldError(
                f"atomic_numbers: expected 0 to {N_ELEMENTS - 1}, got {numbers[wrong]} "
                f"(molecule {found.n_structures + int(owner[wrong])}, field 'atomic_numbers')"
            )
        places = np.arange(len(batch), dtype=np.int64) + found.n_structures
        found.n_structures += len(batch)
        found.n_atoms += len(numbers)
        found.sizes.update(n_atoms.tolist())
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
        found.groups.add(batch, energy, volume)
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

    def findings(self, neighborhoods: Neighborhoods) -> Findings:
        """Returns what was found, after the last batch.

        Args:
            neighborhoods: neighbors, found separately.

        Returns:
            The findings.

        Raises:
            FieldError: a column of groups or predictions is in no batch.
        """
        found = self._found
        found.groups.check(found.name)
        found.elements = {
            z: ElementCount(int(self._atoms_of[z]), int(self._structures_of[z]), self._force_rms(z))
            for z in np.flatnonzero(self._atoms_of).tolist()
        }
        found.reference_energies = self._fit.solution()
        found.sample, found.stride = self._rows.rows(), self._rows.stride
        found.worst_forces = self._worst.rows()
        found.duplicates = Duplicates(*self._hashes.sorted(), self._hashes.share)
        found.neighborhoods = neighborhoods
        return found

    def _force_rms(self, z: int) -> float | None:
        n = 3 * self._force_atoms[z]
        return float(np.sqrt(self._force_squares[z] / n)) if n else None

    def _add_label(self, batch: MoleculeBatch, name: str, places: Array) -> None:
        value, mask = batch[name], batch.mask(name)
        labels = self._found.labels
        label = labels.get(name)
        if label is None:
            label = labels[name] = Label(_dtype(value), batch.level(name), _shape(value))
        elif label.shape != (shape := _shape(value)):
            label.shape = "varies" if shape != "" else label.shape
        label.n_present += int(mask.sum())
        present = mask.numpy()
        if isinstance(value, Tensor):
            is_of_molecules = batch.level(name) == "molecule"
            owner = np.arange(len(batch)) if is_of_molecules else batch.batch.numpy()
            rows = present[owner]
            _add_values(label, value.numpy()[rows], places[owner[rows]])
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
        self._found.n_force_vectors += int(there.sum())
        self._found.n_zero_forces += int((norms[there] == 0).sum())
        self._found.force_norms += log_histogram(norms[there])
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
            self._found.n_cells += int(there.sum())
            self._found.n_left_handed += int((whole & (signed < 0)).sum())
            self._found.n_flat_cells += int((there & ~whole & periodic.any(1)).sum())
            filled = whole & (n_atoms > 0)
            volume[filled] = np.abs(signed[filled]) / n_atoms[filled]
            periodic &= there[:, None]
        else:
            periodic[:] = False
        flags, counts = np.unique(periodic, axis=0, return_counts=True)
        for axes, count in zip(flags.tolist(), counts.tolist(), strict=True):
            self._found.periodicity["".join("FT"[axis] for axis in axes)] += count
        return volume


class _EnergyFit:
    """Sums for the fit of reference energies, relative to a guess from the first batches."""

    def __init__(self) -> None:
        self._guess: Array | None = None
        # Products of all columns, the counts of elements and the energy, summed over the molecules.
        self._whole, self._per_atom = (np.zeros((N_ELEMENTS + 1,) * 2) for _ in range(2))
        self._n = 0

    def add(self, composition: Array, n_atoms: Array, energy: Array) -> None:
        there = np.isfinite(energy) & (n_atoms > 0)
        if not there.any():
            return
        counts, energy = composition[there].astype(np.float64), energy[there]
        if self._guess is None:
            self._guess = solve_normal(_equations(_products(np.column_stack([counts, energy]))))[0]
        rows = np.column_stack([counts, energy - counts @ self._guess])
        self._n += len(rows)
        self._whole += _products(rows)
        self._per_atom += _products(rows / n_atoms[there, None])

    def solution(self) -> ReferenceEnergies | None:
        if self._guess is None:
            return None
        whole, per_atom = _equations(self._whole), _equations(self._per_atom)
        return fit_reference_energies(whole, per_atom, self._n, self._guess)


def _products(rows: Array) -> Array:
    """Returns the scalar products of all columns; most are zero."""
    present = np.flatnonzero(rows.any(0))
    part = rows[:, present]
    products = np.zeros((rows.shape[1],) * 2)
    products[np.ix_(present, present)] = part.T @ part
    return products


def _equations(products: Array) -> tuple[Array, Array, float]:
    """Returns the normal equations of a fit of the last column by the others."""
    return products[:-1, :-1], products[:-1, -1], float(products[-1, -1])


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
