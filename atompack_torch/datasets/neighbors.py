"""Neighbor lists as an option of datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, SupportsFloat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch._core import MoleculeBatcher
from atompack_torch._native import BatchRequest, MoleculeSource
from atompack_torch.datasets.sweeping import OnProgress, reporting, runs
from atompack_torch.fields import EDGES, STRUCTURE, TRIPLETS
from atompack_torch.options import check_flags, checked_integer, checked_number

if TYPE_CHECKING:
    from atompack_torch.datasets.base import MoleculeDataset

_MIN_CUTOFF = 1e-3  # atoms are never this close: a smaller cutoff must be in another unit
_ATOMS_AT_ONCE = 4096  # takes milliseconds, and megabytes for the edges
_MOLECULES_AT_ONCE = 4096  # limits batches of very small molecules


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
        checked_number("cutoff", self.cutoff, _MIN_CUTOFF)
        check_flags(full=self.full, vectors=self.vectors, self_interaction=self.self_interaction)
        is_cutoff = not isinstance(self.triplets, bool)
        if is_cutoff and not isinstance(self.triplets, SupportsFloat):
            raise TypeError(f"triplets: expected True, False or a number, got {self.triplets!r}")
        if is_cutoff and checked_number("triplets", self.triplets, _MIN_CUTOFF) > self.cutoff:
            raise ValueError(
                f"triplets: expected at most the cutoff, {self.cutoff}, got {self.triplets}"
            )
        if self.triplets is not False and not self.full:
            raise ValueError("triplets: expected full=True, got full=False")
        if self.max_neighbors is not None:
            checked_integer("max_neighbors", self.max_neighbors, 1)
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
        flags = bool(self.full), bool(self.vectors), bool(self.self_interaction)
        return cutoff, *flags, angular, self.max_neighbors

    def count(self, dataset: MoleculeDataset, *, progress: bool | OnProgress = False) -> Tensor:
        """Counts the edges of each molecule, as ``costs=`` of a sampler.

            counts = NeighborList(5.0).count(dataset)
            sampler = AtomBudgetBatchSampler(dataset, max_atoms=50_000, costs=counts)

        The count is exact and takes as long as one pass over all batches, in little memory. It may
        be kept with ``np.save`` as long as the molecules, their order and these options stay the
        same; samplers reject counts for a different number of molecules.

        Args:
            dataset: a dataset of molecules, a subset or a mixture. Its own ``neighbors``,
                ``fields``, ``missing``, ``augment`` and ``transform`` are ignored.
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
        neighbors = replace(self, vectors=False, triplets=False)
        request = BatchRequest(fields=set(), neighbors=neighbors.as_tuple())
        source, selection, n_atoms = dataset.source(), dataset.selection, dataset.n_atoms
        found = np.zeros(len(n_atoms), np.int64)
        with reporting(progress, len(n_atoms), "neighbors") as report:
            for part, made in edge_batches(
                source, request, neighbors.fields, selection, n_atoms, report
            ):
                found[part] = rows_by_molecule(made, "edge_index")
        return torch.from_numpy(found)


def edge_batches(
    source: MoleculeSource,
    request: BatchRequest,
    fields: Sequence[str],
    selection: Tensor | None,
    n_atoms: Tensor,
    report: OnProgress,
) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Reads all molecules in batches that consist of edges only.

    Args:
        source: the molecules.
        request: with neighbors, and no fields.
        fields: those that the neighbors add.
        selection: (n,) int64, of the molecules to read; None: all.
        n_atoms: (n,) int64, atoms of each of them.
        report: called with the number of further molecules that are done.

    Yields:
        Consecutive molecules, and the tensors of their batch by name.
    """
    batcher = MoleculeBatcher(source, request)
    for part in runs(n_atoms.numpy(), _ATOMS_AT_ONCE, _MOLECULES_AT_ONCE):
        values = batcher.collate(part, selection, False)[2]
        yield slice(part.start, part.stop), dict(zip((*STRUCTURE, *fields), values, strict=True))
        report(len(part))


def rows_by_molecule(made: Mapping[str, Tensor], name: str) -> NDArray[np.int64]:
    """Returns the number of edges or triplets of each molecule, whose centers ascend."""
    # NumPy, because torch's parallel regions would hang in a forked child.
    return np.diff(np.searchsorted(made[name][0].numpy(), made["ptr"].numpy()))
