"""Molecules and their edges in one block of host memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atompack_torch._core import PrecomputedEdges, ResidentBuilder, ResidentSource, view_arena
from atompack_torch._native import BatchRequest, MoleculeSource
from atompack_torch.batch.storage import Place
from atompack_torch.datasets.request import Request, shown_place
from atompack_torch.datasets.resident.edges import EdgeCounts, EdgeReader
from atompack_torch.datasets.resident.memory import check_memory
from atompack_torch.datasets.sweeping import Report
from atompack_torch.fields import BUILTIN, GEOMETRY

_AT_ONCE = 4096  # molecules that are read between two reports
_ALIGNMENT = 64


class ResidentBlock(NamedTuple):
    """Molecules in memory. Between processes, the block travels as shared memory.

    Attributes:
        memory: (bytes,) uint8, everything.
        n_molecules: number of molecules.
        tables: fields and types of the records.
        edges: name → place in the memory, for ``PrecomputedEdges``.
    """

    memory: Tensor
    n_molecules: int
    tables: tuple[Any, ...]
    edges: dict[str, Place]

    def source(self) -> ResidentSource:
        """Opens the molecules."""
        return ResidentSource(self.tables, self.memory, self.n_molecules)

    def edge_tensors(self) -> dict[str, Tensor]:
        """Returns views of the edges, by name."""
        views = view_arena(self.memory, list(self.edges.values()))
        return dict(zip(self.edges, views, strict=True))

    def kept_edges(self, request: BatchRequest) -> PrecomputedEdges | None:
        """Returns the edges for batches; None if there are none.

        Args:
            request: with the options of the search that found them.

        Returns:
            The edges.
        """
        if not self.edges:
            return None
        edges = self.edge_tensors()
        return PrecomputedEdges(
            request=request,
            edge_ptr=edges["edge_ptr"],
            index=edges["index"],
            shift=edges["shift"],
            vector=edges.get("vector"),
            triplet_ptr=edges.get("triplet_ptr"),
            triplet_edges=edges.get("triplet_edges"),
        )


def load_block(
    source: MoleculeSource,
    numbers: Tensor,
    n_atoms: Tensor,
    request: Request,
    requests: Sequence[BatchRequest],
    path: Any,
    max_bytes: int | None,
    report: Report | None,
) -> ResidentBlock:
    """Reads molecules into one block of memory.

    All are read twice: first to find the size of the block, which is checked before it is
    allocated.

    Args:
        source: the molecules.
        numbers: (n,) int64, of those to read.
        n_atoms: (n,) int64, atoms of each of them.
        request: options of the data set; with neighbors, edges are found and kept too.
        requests: fields to keep: those that one of these selects, the cell and ``pbc``.
        path: path of the data set, for errors.
        max_bytes: limit of the block; None: the free memory.
        report: called with the number of molecules done, in each of two passes over them (four
            with edges).

    Returns:
        The block.

    Raises:
        MemoryError: the block is larger than the limit or the free memory.
        CorruptFileError: a record is damaged.
        FieldError: the neighbor search fails for a molecule.
    """
    geometry = BatchRequest(fields=[(BUILTIN, key) for key in sorted(GEOMETRY)])
    place = shown_place(path)
    builder = ResidentBuilder(source, numbers.tolist(), [*requests, geometry], place)
    n = len(numbers)
    for first in range(0, n, _AT_ONCE):
        last = min(first + _AT_ONCE, n)
        builder.measure(first, last)
        _tell(report, last - first)
    counts = None
    if request.neighbors is not None:
        counts = EdgeReader(source, request, path, numbers, n_atoms).count(report)
    places, n_bytes = _place_edges(builder.bytes(), request, counts)
    check_memory(n_bytes, torch.device("cpu"), max_bytes)
    memory = torch.empty(n_bytes, dtype=torch.uint8)
    for first in range(0, n, _AT_ONCE):
        last = min(first + _AT_ONCE, n)
        builder.copy(first, last, memory)
        _tell(report, last - first)
    if n == 0:
        builder.copy(0, 0, memory)
    held = builder.source(memory)
    block = ResidentBlock(memory, n, held.tables(), places)
    if counts is not None:
        reader = EdgeReader(held, request, path, torch.arange(n), n_atoms)
        reader.fill(counts, block.edge_tensors(), report)
    return block


def _tell(report: Report | None, n: int) -> None:
    if report is not None:
        report(n)


def _place_edges(
    n_bytes: int, request: Request, counts: EdgeCounts | None
) -> tuple[dict[str, Place], int]:
    """Returns the places of the edges behind ``n_bytes`` of records, and the size of the block."""
    places: dict[str, Place] = {}
    size = _aligned(n_bytes)
    if counts is not None:
        assert request.neighbors is not None
        for name, (dtype, shape) in counts.forms(request.neighbors).items():
            places[name] = (dtype, size, shape)
            size = _aligned(size + dtype.itemsize * math.prod(shape))
    return places, size


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
