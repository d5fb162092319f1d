"""Neighbor lists as a registered operator, on the CPU and on CUDA devices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atompack_torch.errors import FieldError
from atompack_torch.ops.library import is_differentiated  # loads the operators, too

_MARGIN = 1 + 1e-6  # of the cutoff that the kernels get
_FIRST_CAPACITY = 64  # neighbors of an atom
_MAX_CAPACITY = 1 << 14
_MAX_CUTOFFS = 64

# Cutoff → neighbors of an atom to make room for: somewhat more than the last search found, so that
# few searches are repeated.
_capacity_of: dict[float, int] = {}
_HINT = (
    "neighbor_list on CUDA devices needs nvalchemi-toolkit-ops: pip install nvalchemi-toolkit-ops"
)


def neighbors_by_toolkit(
    positions: Tensor,
    cell: Tensor | None,
    pbc: Tensor | None,
    ptr: Tensor,
    cutoff: float,
    full: bool = True,
    self_interaction: bool = False,
    max_neighbors: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Finds pairs as the operator ``neighbor_list`` does on the CPU, sorted by i, j and shift.

    Args:
        positions: (N, 3) float32 or float64.
        cell: (B, 3, 3) of the same dtype.
        pbc: (B, 3) bool; None: all directions where there is a cell.
        ptr: (B + 1,) int64.
        cutoff: pairs closer than this are found.
        full: return both (i, j, S) and (j, i, -S); else one of them.
        self_interaction: return each atom with itself too.
        max_neighbors: keep at most this many pairs of each atom, the shortest ones.

    Returns:
        ``edge_index`` (2, E) int64 and ``edge_shift`` (E, 3) of the dtype of the positions.

    Raises:
        ImportError: nvalchemi-toolkit-ops is not installed.
        ValueError: an atom has an absurd number of neighbors.
    """
    if not len(positions):
        return ptr.new_zeros((2, 0)), positions.new_zeros((0, 3))
    # The kernels refuse other layouts.
    where, ptr = positions.double().contiguous(), ptr.contiguous()
    cells = None if cell is None else cell.double().contiguous()
    if cells is not None:
        every = torch.ones((len(cells), 3), dtype=torch.bool, device=cells.device)
        pbc = every if pbc is None else pbc.contiguous()
        cells = torch.where(pbc.unsqueeze(2), cells, 0)  # open directions may be anything
    index, shift = _candidates(where, cells, pbc, ptr, cutoff * _MARGIN)
    i, j = index.unbind(0)
    x, y, z = _vectors(where, cells, ptr, index, shift).unbind(1)
    square = x * x + y * y + z * z
    near = square < cutoff * cutoff
    near &= (i != j) | (shift != 0).any(1)
    if not full:
        near &= _is_first_of_two(i, j, shift)
    kept = near.nonzero().squeeze(1)
    index, shift, square = index[:, kept], shift[kept], square[kept]
    if self_interaction:
        atoms = torch.arange(len(positions), device=index.device)
        index = torch.cat([atoms.expand(2, -1), index], 1)
        shift = torch.cat([shift.new_zeros((len(atoms), 3)), shift])
        square = torch.cat([square.new_zeros(len(atoms)), square])
    order = _order(index, shift)
    if max_neighbors is not None:
        order = _shortest(order, index[0], square, max_neighbors)
    return index[:, order], shift[order].to(positions.dtype)


def _candidates(
    positions: Tensor, cell: Tensor | None, pbc: Tensor | None, ptr: Tensor, cutoff: float
) -> tuple[Tensor, Tensor]:
    """Returns pairs (2, E) int64 and shifts (E, 3) int32 that include all within the cutoff."""
    try:
        from nvalchemiops.torch.neighbors import neighbor_list
    except ImportError as error:
        raise ImportError(_HINT) from error
    n_atoms, n_of_each = len(positions), ptr.diff()
    structures = torch.arange(len(n_of_each), device=ptr.device)
    given = {
        "batch_idx": structures.repeat_interleave(n_of_each, output_size=n_atoms).to(torch.int32),
        "batch_ptr": ptr.to(torch.int32),
    }
    if cell is not None and pbc is not None:
        given |= {"cell": _completed(cell, positions), "pbc": pbc}
    capacity = _capacity_of.get(cutoff, _FIRST_CAPACITY)
    while True:
        found = neighbor_list(positions, cutoff, max_neighbors=capacity, **given)
        matrix, counts = found[0], found[1].to(torch.int64)
        total = counts.cumsum(0)
        most, n_pairs = torch.stack([counts.max(), total[-1]]).tolist()  # the host waits
        if most <= capacity:
            break
        if most > _MAX_CAPACITY:
            raise ValueError(f"neighbors: expected at most {_MAX_CAPACITY} per atom, got {most}")
        capacity = most
    if len(_capacity_of) >= _MAX_CUTOFFS:
        _capacity_of.clear()
    _capacity_of[cutoff] = max(_FIRST_CAPACITY, most + most // 8)
    atoms = torch.arange(n_atoms, device=ptr.device).repeat_interleave(counts, output_size=n_pairs)
    rows = (atoms, torch.arange(n_pairs, device=ptr.device) - (total - counts)[atoms])
    shift = found[2][rows] if cell is not None else counts.new_zeros((n_pairs, 3))
    return torch.stack([atoms, matrix[rows].to(torch.int64)]), shift


def _completed(cell: Tensor, positions: Tensor) -> Tensor:
    """Replaces cell vectors of length 0 by vectors perpendicular to all others."""
    is_zero = (cell == 0).all(2)
    _, _, directions = torch.linalg.svd(cell)
    n_zero = is_zero.sum(1, keepdim=True)
    row = (3 - n_zero + is_zero.cumsum(1) - 1).clamp(0, 2)
    extent = (positions.max(0).values - positions.min(0).values).norm() + 1
    others = directions.gather(1, row.unsqueeze(2).expand(-1, 3, 3)) * extent
    return torch.where(is_zero.unsqueeze(2), others, cell)


def _is_first_of_two(i: Tensor, j: Tensor, shift: Tensor) -> Tensor:
    """True for the one of (i, j, S) and (j, i, -S) that half lists have."""
    a, b, c = shift.unbind(1)
    total = a + b + c
    own = (total > 0) | ((total == 0) & ((c > 0) | ((c == 0) & (b > 0))))
    return (i < j) | ((i == j) & own)


def _order(index: Tensor, shift: Tensor) -> Tensor:
    """The order by i, j and shift; an atom with itself comes first."""
    i, j = index.unbind(0)
    itself = (i == j) & (shift == 0).all(1)
    order = torch.arange(len(i), device=i.device)
    for key in (*shift.flip(1).unbind(1), j, ~itself, i):
        order = order[torch.argsort(key[order], stable=True)]
    return order


def _shortest(order: Tensor, i: Tensor, square: Tensor, max_neighbors: int) -> Tensor:
    """Keeps the shortest pairs of each atom, in the given order."""
    by_length = order[torch.argsort(square[order], stable=True)]
    by_length = by_length[torch.argsort(i[by_length], stable=True)]
    atoms = i[by_length]
    rank = torch.arange(len(atoms), device=atoms.device) - torch.searchsorted(atoms, atoms)
    kept = torch.zeros(len(order), dtype=torch.bool, device=order.device)
    kept[by_length[rank < max_neighbors]] = True
    return order[kept[order]]


def edge_vectors_by_torch(
    positions: Tensor, cell: Tensor | None, ptr: Tensor, index: Tensor, shift: Tensor
) -> Tensor:
    """Computes r_j - r_i + S cell with torch's own operators, on any device.

    Args:
        positions: (N, 3) float32 or float64.
        cell: (B, 3, 3) float32 or float64; None: the shifts do not count.
        ptr: (B + 1,) int64.
        index: (2, E) int64, i ascending.
        shift: (E, 3) of the dtype of the positions.

    Returns:
        (E, 3) of the dtype of the positions, computed in float64, as by the native kernels.
    """
    cell = None if cell is None else cell.double()
    return _vectors(positions.double(), cell, ptr, index, shift).to(positions.dtype)


def _vectors(
    positions: Tensor, cell: Tensor | None, ptr: Tensor, index: Tensor, shift: Tensor
) -> Tensor:
    """Computes r_j - r_i + S cell of float64, in the order of the native search."""
    i, j = index.unbind(0)
    vector = positions.index_select(0, j) - positions.index_select(0, i)
    if cell is None:
        return vector
    structure = torch.searchsorted(ptr.contiguous(), i, right=True) - 1
    s = shift.double().unsqueeze(2)
    # Open directions of a cell may be NaN.
    a, b, c = torch.where(s == 0, 0, s * cell.index_select(0, structure)).unbind(1)
    return vector + (a + b + c)


def edge_vectors_transposed_by_torch(
    vectors: Tensor, ptr: Tensor, index: Tensor, shift: Tensor, n_atoms: int, has_cell: bool
) -> tuple[Tensor, Tensor]:
    """Computes the transpose of ``edge_vectors_by_torch``.

    ``index_put_`` sorts what it adds up on CUDA devices: the same bits each time.

    Args:
        vectors: (E, 3) float32 or float64.
        ptr: (B + 1,) int64.
        index: (2, E) int64, i ascending.
        shift: (E, 3) of the same dtype.
        n_atoms: N.
        has_cell: False: the second result is empty.

    Returns:
        (N, 3) for the positions and (B, 3, 3) for the cells.
    """
    i, j = index.unbind(0)
    atoms = vectors.new_zeros((n_atoms, 3))
    atoms.index_put_((i,), -vectors, accumulate=True)
    atoms.index_put_((j,), vectors, accumulate=True)
    if not has_cell:
        return atoms, vectors.new_empty((0, 3, 3))
    structure = torch.searchsorted(ptr.contiguous(), i, right=True) - 1
    cells = vectors.new_zeros((ptr.shape[0] - 1, 3, 3))
    cells.index_put_((structure,), shift.unsqueeze(2) * vectors.unsqueeze(1), accumulate=True)
    return atoms, cells


def _with_vectors_by_toolkit(
    positions: Tensor, cell: Tensor | None, pbc: Tensor | None, ptr: Tensor, *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    index, shift = neighbors_by_toolkit(positions, cell, pbc, ptr, *options)
    return index, shift, edge_vectors_by_torch(positions, cell, ptr, index, shift)


for _name, _kernel in (
    ("neighbor_list", neighbors_by_toolkit),
    ("neighbor_list_with_vectors", _with_vectors_by_toolkit),
    ("edge_vectors", edge_vectors_by_torch),
    ("edge_vectors_transposed", edge_vectors_transposed_by_torch),
):
    torch.library.impl(f"atompack_torch::{_name}", "CUDA", _kernel)


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
    """Finds all pairs of atoms within a cutoff, in one molecule or in a batch of them.

        index, shift, vector = apt.neighbor_list(batch.positions, batch.cell, batch.pbc, batch.ptr)
        energy = pair_energy(vector.norm(dim=1)).sum()

    The search is the native one of ``NeighborList``, with its order and its pairs, on torch's
    threads, also within one molecule. It is the operator
    ``torch.ops.atompack_torch.neighbor_list_with_vectors``, which ``torch.compile`` and
    ``torch.export`` accept with an unknown number of edges. The pairs are constants for autograd;
    ``edge_vector`` is differentiable any number of times, natively, with the same bits on any
    number of threads.

    Args:
        positions: (N, 3) float32 or float64, in the unit of the cutoff, usually Å.
        cell: (B, 3, 3), or (3, 3) for one molecule, float32 or float64, rows are the cell vectors;
            None: all molecules are open.
        pbc: (B, 3) bool, or (3,) for one molecule, directions with periodic images; None: all
            where there is a cell.
        ptr: (B + 1,) int64, the first atom of each molecule, ending with N; None: one molecule.
        cutoff: pairs closer than this are found.
        full: return both (i, j, S) and (j, i, -S); else one of them.
        self_interaction: return each atom with itself too.
        max_neighbors: at most this many pairs of each atom i, the shortest; for full lists without
            ``self_interaction``.

    Returns:
        ``edge_index``, ``edge_shift`` and ``edge_vector``.

    Raises:
        TypeError: an argument is not a tensor.
        FieldError: types or shapes differ from these, positions are not finite, or a molecule has
            an absurd number of pairs.
    """
    for name, value in (("positions", positions), ("cell", cell), ("pbc", pbc), ("ptr", ptr)):
        if not isinstance(value, Tensor) and (value is not None or name == "positions"):
            kind = type(value).__name__
            raise TypeError(f"{name}: expected a tensor, got {kind}: torch.as_tensor makes one")
    if not 0 < cutoff < math.inf:
        raise FieldError(f"cutoff: expected a positive number, got {cutoff}")
    if ptr is None:
        ptr = torch.tensor([0, len(positions)], device=positions.device)
        cell = cell if cell is None else cell.reshape(-1, 3, 3)
        pbc = pbc if pbc is None else pbc.reshape(-1, 3)
    options = (cutoff, full, self_interaction, max_neighbors)
    try:
        if is_differentiated():
            with torch.no_grad():
                index, shift = torch.ops.atompack_torch.neighbor_list(
                    positions, cell, pbc, ptr, *options
                )
            vector = edge_vectors_by_torch(positions, cell, ptr, index, shift)
            return Neighbors(index, shift, vector)
        return Neighbors(
            *torch.ops.atompack_torch.neighbor_list_with_vectors(
                positions, cell, pbc, ptr, *options
            )
        )
    except ValueError as error:
        raise FieldError(str(error)) from None
