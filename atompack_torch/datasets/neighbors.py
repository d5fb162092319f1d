"""Neighbor lists as an option of datasets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from atompack_torch._core import MoleculeBatcher
from atompack_torch._native import BatchRequest
from atompack_torch.datasets.sweeping import OnProgress, reporting, runs, steps
from atompack_torch.fields import EDGES, STRUCTURE, TRIPLETS

_MIN_CUTOFF = 1e-3  # atoms are never this close: a smaller cutoff must be in another unit
_ATOMS_AT_ONCE = 4096  # takes milliseconds, and megabytes for the edges
_MOLECULES_AT_ONCE = 4096  # limits batches of very small molecules


class _CountableDataset(Protocol):
    """Datasets whose edges can be counted."""

    _selection: Tensor | None

    def __len__(self) -> int: ...
    @property
    def n_atoms(self) -> Tensor: ...
    def batcher(self) -> MoleculeBatcher: ...


@dataclass(frozen=True)
class NeighborList:
    """Edges between all atoms closer than a cutoff, periodic images included.

        ds = AtpDataset("data.atp", neighbors=NeighborList(5.0))
        i, j = ds.batch([0, 1]).edge_index

    The edges equal those of vesin, computed in float64 on the threads of the batch. A batch then
    has ``edge_index`` (2, E) int64 with atoms i and j of the batch, sorted by i and therefore
    grouped by molecule (j is unordered); ``edge_shift`` (E, 3), integer cell shifts S; and with
    ``vectors`` ``edge_vector`` (E, 3) = r_j - r_i + S cell, both in the dtype of ``positions``.
    A molecule without cell or without ``pbc`` is not periodic.

    With ``triplets`` there are also, for T triplets, ``triplet_index`` (3, T) int64 with atoms i, j
    and k of the batch, i in the center, and ``triplet_edges`` (2, T) int64 with the columns of
    ``edge_index`` that hold (i, j) and (i, k). Each two edges of a center make one triplet: centers
    ascend, then the edges of j, then those of k, which are later than that of j. Triplets are
    therefore grouped by molecule. Edges of length 0 make none.

    The search raises a ``FieldError`` for positions or repeated cell vectors that are not finite, a
    singular cell, atoms more than four million cells from the origin, and excessive numbers of
    neighbors (more than 1,048,576 + 64 N images within the cutoff of N atoms, 1,048,576 + 8192 N
    candidate pairs, or 8,388,608 + 65,536 N triplets).

    Args:
        cutoff: in the unit of the positions (Å); pairs at exactly this distance are excluded.
        full: list each pair as (i, j, S) and as (j, i, -S); otherwise only once, with i < j, and
            for an atom and its own images with S on one side of the origin, as vesin does.
        vectors: add ``edge_vector``.
        self_interaction: also list each atom with itself, once, with S = 0. Its periodic images
            are always neighbors.
        triplets: True for triplets of all edges; a number for triplets of edges up to this length,
            itself included, in the unit of the cutoff. They need ``full``.
        max_neighbors: at most this many edges of each atom i, the shortest (of equally long ones,
            any); None: all. An edge may then be listed in one direction only. It needs ``full``
            and excludes ``self_interaction``.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: the cutoff is not finite, or below 0.001; ``triplets`` is not between 0.001 and
            the cutoff; ``max_neighbors`` is below 1; or options exclude each other.
    """

    cutoff: float
    full: bool = True
    vectors: bool = False
    self_interaction: bool = False
    triplets: bool | float = False
    max_neighbors: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cutoff, bool) or not hasattr(self.cutoff, "__float__"):
            raise TypeError(f"cutoff: expected a number, got {type(self.cutoff).__name__}")
        if not math.isfinite(self.cutoff) or self.cutoff < _MIN_CUTOFF:
            raise ValueError(
                f"cutoff: expected a finite number, at least {_MIN_CUTOFF}, got {self.cutoff}"
            )
        for name in ("full", "vectors", "self_interaction"):
            if not isinstance(getattr(self, name), bool):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"{name}: expected True or False, got {kind}")
        self._check_triplets()
        self._check_max_neighbors()

    def _check_triplets(self) -> None:
        if not isinstance(self.triplets, bool):
            if not hasattr(self.triplets, "__float__"):
                kind = type(self.triplets).__name__
                raise TypeError(f"triplets: expected True, False or a number, got {kind}")
            if not _MIN_CUTOFF <= self.triplets <= self.cutoff:
                raise ValueError(
                    f"triplets: expected a number from {_MIN_CUTOFF} to the cutoff, "
                    f"{self.cutoff}, got {self.triplets}"
                )
        if self.triplets is not False and not self.full:
            raise ValueError("triplets: expected full=True, got full=False")

    def _check_max_neighbors(self) -> None:
        if self.max_neighbors is None:
            return
        if isinstance(self.max_neighbors, bool) or not isinstance(self.max_neighbors, int):
            kind = type(self.max_neighbors).__name__
            raise TypeError(f"max_neighbors: expected an integer or None, got {kind}")
        if self.max_neighbors < 1:
            raise ValueError(f"max_neighbors: expected at least 1, got {self.max_neighbors}")
        if not self.full or self.self_interaction:
            raise ValueError("max_neighbors: needs full=True and self_interaction=False")

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that are added to a batch, in order."""
        edges = EDGES if self.vectors else EDGES[:2]
        return edges if self.triplets is False else edges + TRIPLETS

    def as_tuple(self) -> tuple[float, bool, bool, bool, float | None, int | None]:
        """Returns the options in the form that the native core takes.

        Returns:
            ``cutoff``, ``full``, ``vectors``, ``self_interaction``, the cutoff of triplets or None,
            and ``max_neighbors``.
        """
        cutoff = float(self.cutoff)
        angular = None if self.triplets is False else float(self.triplets)
        if self.triplets is True:
            angular = cutoff
        return cutoff, self.full, self.vectors, self.self_interaction, angular, self.max_neighbors

    def count(self, dataset: _CountableDataset, *, progress: bool | OnProgress = False) -> Tensor:
        """Counts the edges of each molecule, as ``costs=`` of a sampler.

            counts = NeighborList(5.0).count(dataset)
            sampler = AtomBudgetBatchSampler(dataset, max_atoms=50_000, costs=counts)

        The count is exact and takes as long as one pass over all batches, in little memory. It may
        be kept with ``np.save`` as long as the molecules, their order and these options stay the
        same; samplers reject counts for a different number of molecules.

        Args:
            dataset: a dataset of molecules, a subset or a mixture. Its own ``neighbors``,
                ``fields``, ``missing`` and ``transform`` are ignored.
            progress: True for a progress bar, or a function that is called with the number of
                further molecules that are done.

        Returns:
            (len(dataset),) int64.

        Raises:
            CorruptFileError: a record is damaged.
            FieldError: the search fails for a molecule, as in a batch.
            TypeError: the dataset is of a different kind.
        """
        if not hasattr(dataset, "_open_source"):
            raise TypeError(f"dataset: expected an AtpDataset, got {type(dataset).__name__}")
        counting = _Counting(replace(self, vectors=False, triplets=False), dataset)
        with reporting(progress, len(counting), "neighbors") as report:
            for _ in steps(counting, report):
                pass
        return torch.from_numpy(counting.found)


class _Counting:
    """A pass over a dataset in batches that consist only of edges."""

    def __init__(self, neighbors: NeighborList, dataset: _CountableDataset) -> None:
        self._selection = dataset._selection
        request = BatchRequest(fields=[], neighbors=neighbors.as_tuple())
        self._batcher = MoleculeBatcher(dataset.batcher().source, request)
        n_atoms = dataset.n_atoms.numpy()
        self._parts = runs(n_atoms, _ATOMS_AT_ONCE, _MOLECULES_AT_ONCE)
        self.found = np.zeros(len(n_atoms), np.int64)

    def __len__(self) -> int:
        return len(self.found)

    def advance(self) -> int:
        """Makes one batch; returns the number of molecules that are done."""
        part = next(self._parts)
        values = self._batcher.collate(part, self._selection, False)[2]
        made = dict(zip((*STRUCTURE, *EDGES[:2]), values, strict=True))
        # NumPy, because torch's parallel regions would hang in a forked child.
        begins = np.searchsorted(made["edge_index"][0].numpy(), made["ptr"].numpy())
        self.found[part.start : part.stop] = np.diff(begins)
        return part.stop
