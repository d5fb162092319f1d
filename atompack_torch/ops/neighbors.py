"""Neighbor lists of tensors."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from atompack_torch.errors import FieldError
from atompack_torch.ops import cuda_neighbors as cuda_neighbors  # registers its kernel
from atompack_torch.ops import library as library  # registers the operator


class Neighbors(NamedTuple):
    """Pairs of atoms that are closer than the cutoff.

    Attributes:
        edge_index: (2, E) int64, atoms i and j within the batch, in ascending order of i.
        edge_shift: (E, 3) of the dtype of the positions, integers S: j is in the cell S away.
        edge_vector: (E, 3), r_j - r_i + S cell; differentiable in positions and cell.
    """

    edge_index: Tensor
    edge_shift: Tensor
    edge_vector: Tensor


def neighbor_list(
    positions: Tensor,
    cell: Tensor | None = None,
    pbc: Tensor | None = None,
    ptr: Tensor | None = None,
    cutoff: float = 5.0,
    *,
    full: bool = True,
    self_interaction: bool = False,
    max_neighbors: int | None = None,
) -> Neighbors:
    """Finds all pairs of atoms within a cutoff, in one structure or in a batch of them.

        index, shift, vector = apt.neighbor_list(batch.positions, batch.cell, batch.pbc, batch.ptr)
        energy = pair_energy(vector.norm(dim=1)).sum()

    The search is the native one of ``NeighborList``, with its order and its pairs, on torch's
    threads, also within one structure. It is the operator
    ``torch.ops.atompack_torch.neighbor_list``, which ``torch.compile`` and ``torch.export`` take
    with an unknown number of edges. The pairs are constants for autograd; ``edge_vector`` is
    computed from positions and cell by torch.

    Args:
        positions: (N, 3) float32 or float64, in the unit of the cutoff, usually Å.
        cell: (B, 3, 3), or (3, 3) for one structure, rows are the cell vectors; None: all
            structures are open.
        pbc: (B, 3) bool, or (3,) for one structure, directions with periodic images; None: all
            where there is a cell.
        ptr: (B + 1,) int64, the first atom of each structure, ending with N; None: one structure.
        cutoff: pairs closer than this are found.
        full: return both (i, j, S) and (j, i, -S); else one of them.
        self_interaction: return each atom with itself too.
        max_neighbors: only so many pairs of each atom i, the shortest ones; for full lists without
            ``self_interaction``.

    Returns:
        ``edge_index``, ``edge_shift`` and ``edge_vector``.

    Raises:
        FieldError: types or shapes differ from these, positions are not finite, or a structure has
            an absurd number of pairs.
    """
    if not 0 < cutoff < math.inf:
        raise FieldError(f"cutoff: expected a positive number, got {cutoff}")
    if ptr is None:
        ptr = torch.tensor([0, len(positions)], device=positions.device)
        cell = cell if cell is None else cell.reshape(-1, 3, 3)
        pbc = pbc if pbc is None else pbc.reshape(-1, 3)
    try:
        index, shift = torch.ops.atompack_torch.neighbor_list(
            positions.detach(),
            cell if cell is None else cell.detach(),
            pbc,
            ptr,
            cutoff,
            full,
            self_interaction,
            max_neighbors,
        )
    except ValueError as error:
        raise FieldError(str(error)) from None
    i, j = index.unbind(0)
    vector = positions.index_select(0, j) - positions.index_select(0, i)
    if cell is not None:
        structure = torch.searchsorted(ptr.contiguous(), i, right=True) - 1
        vector = vector + torch.einsum("ea,eax->ex", shift, cell.index_select(0, structure))
    return Neighbors(index, shift, vector)
