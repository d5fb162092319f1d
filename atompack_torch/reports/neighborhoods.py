"""Neighbor counts and shortest distances of evenly chosen molecules."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.batches import BatchDataset
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.sweeping import runs
from atompack_torch.display.markup import short
from atompack_torch.errors import FieldError
from atompack_torch.formats.atp.dataset import AtpDataset
from atompack_torch.formats.atp.writer import AtpWriter
from atompack_torch.formats.text import formula
from atompack_torch.reports.findings import Array, Neighborhoods
from atompack_torch.reports.sampling import Extremes

_STRUCTURES, _ATOMS = 4096, 100_000
_ATOMS_AT_ONCE = 4096
_CLOSEST = 8
_BONDED = (1, 6, 7, 8, 9)  # elements that hydrogen binds to at about 1 Å, unlike metals


def search(dataset: BatchDataset[Any, Any], cutoff: float) -> Neighborhoods:
    """Counts neighbors in at most 4,096 molecules.

    Args:
        dataset: a dataset of molecules.
        cutoff: radius, in the unit of the positions.

    Returns:
        What was found; ``fault`` names the first molecule whose search failed.

    Raises:
        CorruptFileError: a record is damaged.
    """
    found = _Search(cutoff)
    if isinstance(dataset, MoleculeDataset):
        found.run(dataset, chosen(dataset.n_atoms.numpy()))
        return found.result()
    # Other datasets have no search of their own: the chosen molecules pass through a file.
    numbers = np.arange(0, len(dataset), max(1, -(-len(dataset) // _STRUCTURES)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.atp"
        with AtpWriter(path) as writer:
            for part in np.array_split(numbers, max(1, len(numbers) // 64)):
                writer.write(dataset.batch(part.tolist()))
        with AtpDataset(path) as copy:
            found.run(copy, chosen(copy.n_atoms.numpy()), numbers)
    return found.result()


def chosen(n_atoms: Array) -> Array:
    """Chooses molecules at even distances.

    Args:
        n_atoms: (n,) atoms of each molecule.

    Returns:
        Ascending numbers, at least one if there are molecules.
    """
    mean = max(1.0, float(n_atoms.mean()) if len(n_atoms) else 1.0)
    most = max(1, min(_STRUCTURES, int(_ATOMS / mean)))
    return np.arange(0, len(n_atoms), max(1, -(-len(n_atoms) // most)), dtype=np.int64)


class _Search:
    """Sums over batches that have edges and no labels."""

    def __init__(self, cutoff: float) -> None:
        self._cutoff = cutoff
        self._n = 0
        self._counts: Counter[int] = Counter()
        self._nearest: list[Array] = [np.zeros(0)]
        self._hydrogen: list[float] = []
        self._n_hydrogen = 0
        self._closest = Extremes(_CLOSEST)
        self._fault: str | None = None

    def run(self, dataset: MoleculeDataset, rows: Array, numbers: Array | None = None) -> None:
        neighbors = NeighborList(self._cutoff, vectors=True)
        near = dataset.with_request(replace(dataset.request, fields=(), neighbors=neighbors))
        for run in runs(dataset.n_atoms.numpy()[rows], _ATOMS_AT_ONCE, _STRUCTURES):
            part = rows[run.start : run.stop]
            shown = part if numbers is None else numbers[part]
            try:
                self._add(near.batch(part), shown)
            except FieldError:
                self._add_each(near, part, shown)

    def _add_each(self, near: MoleculeDataset, part: Array, shown: Array) -> None:
        for i in range(len(part)):
            try:
                batch = near.batch(part[i : i + 1])
            except FieldError as error:
                self._fault = self._fault or str(error)
            else:
                self._add(batch, shown[i : i + 1])

    def _add(self, batch: MoleculeBatch, shown: Array) -> None:
        numbers, ptr = batch.atomic_numbers.numpy(), batch.ptr.numpy()
        edges = batch.edge_index.numpy()
        n, centers = len(numbers), edges[0]
        self._n += len(shown)
        counts, times = np.unique(np.bincount(centers, minlength=n), return_counts=True)
        self._counts.update(dict(zip(counts.tolist(), times.tolist(), strict=True)))
        lengths = np.linalg.norm(batch.edge_vector.numpy().astype(np.float64), axis=1)
        nearest = np.full(n, np.inf)
        np.minimum.at(nearest, centers, lengths)
        there = np.isfinite(nearest)
        self._nearest.append(nearest[there])
        self._add_hydrogen(numbers, edges, lengths, nearest)
        shortest = np.full(len(shown), np.inf)
        np.minimum.at(shortest, batch.batch.numpy()[there], nearest[there])

        def describe(row: int) -> str:
            return short(formula(numbers[ptr[row] : ptr[row + 1]].tolist()), 60)

        self._closest.add(-shortest, shown, describe)

    def _add_hydrogen(self, numbers: Array, edges: Array, lengths: Array, nearest: Array) -> None:
        bonds = (numbers[edges[0]] == 1) & np.isin(numbers[edges[1]], _BONDED)
        bonds &= lengths == nearest[edges[0]]
        self._n_hydrogen += int((np.isfinite(nearest) & (numbers == 1)).sum())
        self._hydrogen += nearest[np.unique(edges[0][bonds])].tolist()

    def result(self) -> Neighborhoods:
        is_bonded = len(self._hydrogen) > self._n_hydrogen / 2
        return Neighborhoods(
            cutoff=self._cutoff,
            n_structures=self._n,
            counts=dict(sorted(self._counts.items())),
            nearest=np.concatenate(self._nearest),
            closest=self._closest.rows(),
            hydrogen=float(np.median(self._hydrogen)) if is_bonded else None,
            fault=self._fault,
        )
