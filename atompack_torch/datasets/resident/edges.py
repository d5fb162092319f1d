"""Edges of resident molecules: found once, counted before memory is taken for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from atompack_torch._core import MoleculeBatcher
from atompack_torch._native import BatchRequest, MoleculeSource
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.request import Request
from atompack_torch.datasets.sweeping import Report
from atompack_torch.fields import STRUCTURE

_ATOMS_AT_ONCE = 16_384  # tens of megabytes of edges
_MOLECULES_AT_ONCE = 4096
_LARGEST_SHIFT = 127  # of int8

# dtype and shape of a tensor.
Form = tuple[torch.dtype, tuple[int, ...]]


def parts_of(n_atoms: Tensor) -> Iterator[slice]:
    """Splits molecules into consecutive parts that take tens of megabytes with their edges.

    Args:
        n_atoms: (n,) int64 atoms of each molecule.

    Yields:
        The molecules of each part.
    """
    ends = np.cumsum(n_atoms.numpy())
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0
        fitting = int(np.searchsorted(ends, before + _ATOMS_AT_ONCE, side="right"))
        last = min(max(fitting, first + 1), first + _MOLECULES_AT_ONCE, len(ends))
        yield slice(first, last)
        first = last


class EdgeCounts(NamedTuple):
    """Rows and types of the edges of n molecules.

    Attributes:
        edges: (n,) int64 edges of each molecule.
        triplets: (n,) int64 triplets of each molecule.
        shift: int8, or float32 if a shift is larger.
        floating: dtype of the vectors, that of ``positions``.
    """

    edges: Tensor
    triplets: Tensor
    shift: torch.dtype
    floating: torch.dtype

    def forms(self, neighbors: NeighborList) -> dict[str, Form]:
        """Returns dtype and shape of each tensor, as ``PrecomputedEdges`` accepts them.

        Args:
            neighbors: options of the search.

        Returns:
            Name → dtype and shape.
        """
        n_edges, n_triplets = int(self.edges.sum()), int(self.triplets.sum())
        forms: dict[str, Form] = {
            "edge_ptr": (torch.int64, (len(self.edges) + 1,)),
            "index": (torch.int32, (2, n_edges)),
            "shift": (self.shift, (n_edges, 3)),
        }
        if neighbors.vectors:
            forms["vector"] = (self.floating, (n_edges, 3))
        if neighbors.triplets is not False:
            forms["triplet_ptr"] = (torch.int64, (len(self.edges) + 1,))
            forms["triplet_edges"] = (torch.int32, (2, n_triplets))
        return forms


class EdgeReader:
    """Batches that consist of structures and edges only.

    Args:
        source: the molecules.
        request: options of the data set, with neighbors.
        path: path of the data set, for errors.
        numbers: of the molecules in the source.
        n_atoms: (n,) atoms of each of them.
    """

    def __init__(
        self, source: MoleculeSource, request: Request, path: Any, numbers: Tensor, n_atoms: Tensor
    ) -> None:
        assert request.neighbors is not None
        self.neighbors = request.neighbors
        plain = request._replace(
            fields=(), exclude=(), missing="nan", transform=None, outputs=(), optional=True
        )
        self.request: BatchRequest = plain.native(source, path)
        self._batcher = MoleculeBatcher(source, self.request)
        self._numbers, self._n_atoms = numbers, n_atoms

    def _read(self, report: Report | None) -> Iterator[tuple[slice, dict[str, Tensor]]]:
        """Yields consecutive molecules and the tensors of their batch."""
        for part in parts_of(self._n_atoms):
            values = self._batcher.collate(self._numbers[part], None, False)[2]
            names = (*STRUCTURE, *self.neighbors.fields)
            yield part, dict(zip(names, values, strict=True))
            if report is not None:
                report(part.stop - part.start)

    def count(self, report: Report | None) -> EdgeCounts:
        """Searches the neighbors of all molecules and counts them.

        Args:
            report: called with the number of further molecules that are done.

        Returns:
            The counts.

        Raises:
            FieldError: the search fails for a molecule.
        """
        edges, triplets = (np.zeros(len(self._numbers), np.int64) for _ in range(2))
        largest, floating = 0.0, torch.float32
        for part, made in self._read(report):
            edges[part] = _rows_of(made, "edge_index")
            if self.neighbors.triplets is not False:
                triplets[part] = _rows_of(made, "triplet_index")
            shift = made["edge_shift"]
            floating = shift.dtype
            if shift.numel():
                largest = max(largest, float(shift.abs().max()))
        kind = torch.int8 if largest <= _LARGEST_SHIFT else torch.float32
        return EdgeCounts(torch.from_numpy(edges), torch.from_numpy(triplets), kind, floating)

    def fill(self, counts: EdgeCounts, into: dict[str, Tensor], report: Report | None) -> None:
        """Searches again, and stores what is found.

        Args:
            counts: result of ``count``.
            into: tensors of the forms that the counts give.
            report: called with the number of further molecules that are done.

        Raises:
            FieldError: the molecules have changed since they were counted.
        """
        for name, rows in (("edge_ptr", counts.edges), ("triplet_ptr", counts.triplets)):
            if name in into:
                into[name][0] = 0
                torch.cumsum(rows, 0, out=into[name][1:])
        starts = into["edge_ptr"].numpy()
        for part, made in self._read(report):
            first, last = int(starts[part.start]), int(starts[part.stop])
            atoms = np.repeat(made["ptr"].numpy()[:-1], counts.edges.numpy()[part])
            into["index"].numpy()[:, first:last] = made["edge_index"].numpy() - atoms
            into["shift"][first:last] = made["edge_shift"]
            if "vector" in into:
                into["vector"][first:last] = made["edge_vector"]
            if "triplet_edges" in into:
                begin, end = into["triplet_ptr"][[part.start, part.stop]].tolist()
                own = np.repeat(starts[part] - first, counts.triplets.numpy()[part])
                into["triplet_edges"].numpy()[:, begin:end] = made["triplet_edges"].numpy() - own


def _rows_of(made: dict[str, Tensor], name: str) -> NDArray[np.int64]:
    """Returns the number of edges or triplets of each molecule, whose centers ascend."""
    # NumPy, because parallel regions of torch would hang in a forked child.
    return np.diff(np.searchsorted(made[name][0].numpy(), made["ptr"].numpy()))
