"""Neighbor lists as an option of data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from atompack_torch._core import MoleculeBatcher
from atompack_torch._native import BatchRequest
from atompack_torch.fields import EDGES, STRUCTURE
from atompack_torch.passes.sweeping import Report, reporting, steps

_LEAST_CUTOFF = 1e-3  # no two atoms are that near: a smaller one is in another unit
_ATOMS_AT_ONCE = 4096  # some milliseconds of searching, and some megabytes of edges
_MOLECULES_AT_ONCE = 4096  # where they have hardly any atoms


class _Molecules(Protocol):
    """What counting needs of a data set."""

    _selection: Tensor | None

    def __len__(self) -> int: ...
    @property
    def n_atoms(self) -> Tensor: ...
    def _batcher(self) -> MoleculeBatcher: ...


@dataclass(frozen=True)
class NeighborList:
    """Edges between all atoms closer than a cutoff, periodic images included.

        ds = AtpDataset("data.atp", neighbors=NeighborList(5.0))
        i, j = ds.batch([0, 1]).edge_index

    They are those that vesin finds, in float64, made on the threads of the batch, which then holds
    ``edge_index`` (2, E) int64, rows i and j counted in the batch, sorted by i (and so grouped by
    molecule; j in no particular order); ``edge_shift`` (E, 3), whole cell counts S, and with
    ``vectors`` ``edge_vector`` (E, 3) = r_j - r_i + S cell, both in the dtype of ``positions``.
    A molecule without cell, or without ``pbc``, is open.

    Positions or a repeated cell vector that are not finite, a singular cell, atoms more than four
    million cells from the origin, and neighbors out of all proportion to the number of atoms (more
    than 1,048,576 + 64 N images within the cutoff of N atoms, or 1,048,576 + 8192 N pairs to look
    at) are a ``FieldError``.

    Args:
        cutoff: in the unit of the positions (Å); pairs at exactly this distance are no neighbors.
        full: each pair as (i, j, S) and as (j, i, -S); else one of them: that with i < j, and of an
            atom and its own images those with S on one side of the origin, which vesin chooses too.
        vectors: ``edge_vector`` too.
        self_interaction: each atom with itself too, once, with S = 0. Other images of an atom are
            its neighbors always.

    Raises:
        ValueError: the cutoff is not finite, or below 0.001.
    """

    cutoff: float
    full: bool = True
    vectors: bool = False
    self_interaction: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.cutoff, bool) or not hasattr(self.cutoff, "__float__"):
            raise TypeError(f"cutoff: expected a number, got {type(self.cutoff).__name__}")
        if not math.isfinite(self.cutoff) or self.cutoff < _LEAST_CUTOFF:
            raise ValueError(
                f"cutoff: expected a finite number, at least {_LEAST_CUTOFF}, got {self.cutoff}"
            )
        for name in ("full", "vectors", "self_interaction"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{name}: expected True or False, got {kind}")

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of what a batch holds besides, in order."""
        return EDGES if self.vectors else EDGES[:2]

    def as_tuple(self) -> tuple[float, bool, bool, bool]:
        """As the native core takes it."""
        return float(self.cutoff), self.full, self.vectors, self.self_interaction

    def count(self, dataset: _Molecules, *, progress: bool | Report = False) -> Tensor:
        """Counts the edges of each molecule, for a sampler's ``costs=``.

            counts = NeighborList(5.0).count(dataset)
            sampler = AtomBudgetBatchSampler(dataset, max_atoms=50_000, costs=counts)

        The count is exact and takes as long as making all batches of the data set once, in little
        memory. Keep it with ``np.save``: it holds as long as molecules, their order and these
        options do, and a sampler refuses one of another number of molecules.

        Args:
            dataset: an ``AtpDataset``, a part or a mixture of them. Its own ``neighbors``,
                ``fields``, ``missing`` and ``transform`` have no part in it.
            progress: show a bar, or a function that is told how many more molecules are done.

        Returns:
            (len(dataset),) int64.

        Raises:
            CorruptFileError: a record is damaged.
            FieldError: a molecule whose neighbors cannot be found, as in a batch.
            TypeError: another kind of data set.
        """
        if not hasattr(dataset, "_open_source"):
            raise TypeError(f"dataset: expected an AtpDataset, got {type(dataset).__name__}")
        counting = _Counting(replace(self, vectors=False), dataset)
        with reporting(progress, len(counting), "neighbors") as report:
            for _ in steps(counting, report):
                pass
        return torch.from_numpy(counting.found)


class _Counting:
    """A pass over a data set, in batches of edges alone."""

    def __init__(self, neighbors: NeighborList, dataset: _Molecules) -> None:
        self._selection = dataset._selection
        request = BatchRequest(fields=[], neighbors=neighbors.as_tuple())
        self._batcher = MoleculeBatcher(dataset._batcher().source, request)
        n_atoms = dataset.n_atoms.numpy()
        self._ends = np.cumsum(n_atoms)  # of each molecule's atoms, were all in one batch
        self._done = 0
        self.found = np.zeros(len(n_atoms), np.int64)

    def __len__(self) -> int:
        return len(self.found)

    def advance(self) -> int:
        """Makes one batch; returns how many molecules are done."""
        first = self._done
        n_atoms = self._ends[first - 1] if first else 0
        fitting = int(np.searchsorted(self._ends, n_atoms + _ATOMS_AT_ONCE, side="right"))
        self._done = min(max(fitting, first + 1), first + _MOLECULES_AT_ONCE, len(self))
        values = self._batcher.collate(range(first, self._done), self._selection, False)[2]
        made = dict(zip((*STRUCTURE, *EDGES[:2]), values, strict=True))
        # By NumPy, not torch, whose parallel regions would hang in a forked child.
        begins = np.searchsorted(made["edge_index"][0].numpy(), made["ptr"].numpy())
        self.found[first : self._done] = np.diff(begins)
        return self._done
