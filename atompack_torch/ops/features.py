"""Features of Chebyshev descriptors as operators that torch differentiates.

``chebyshev_features`` and its products with vectors from both sides are native. What these do not
give, derivatives with respect to the cell and second derivatives, is computed by torch from the
same formula, which is written here once more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atompack_torch.ops import neighbors as neighbors  # registers a kernel for CUDA devices
from atompack_torch.ops.library import register_loop  # loads the operators, too

__all__ = ["Structures", "features_by_torch"]

_OPERATORS = torch.ops.atompack_torch


class Structures(NamedTuple):
    """Structures and settings: the arguments of the operators, in order."""

    positions: Tensor
    atomic_numbers: Tensor
    ptr: Tensor
    cell: Tensor | None
    pbc: Tensor | None
    species: list[int]
    rad_order: int
    rad_cutoff: float
    ang_order: int
    ang_cutoff: float
    min_cutoff: float


def features_by_torch(given: Structures) -> Tensor:
    """Computes features (N, F) with torch's own operators, differentiable any number of times."""
    positions, cutoff = given.positions, max(given.rad_cutoff, given.ang_cutoff)
    detached = (positions.detach(), None if given.cell is None else given.cell.detach())
    index, shift = _OPERATORS.neighbor_list(*detached, given.pbc, given.ptr, cutoff)
    i, j = index.unbind(0)
    vector = neighbors.edge_vectors_by_torch(positions, given.cell, given.ptr, index, shift)
    distance = vector.norm(dim=1)
    spin = _spins(given)

    def summed(some: Tensor, terms: Tensor, spins: Tensor) -> list[Tensor]:
        def of_atoms(rows: Tensor) -> Tensor:
            empty = positions.new_zeros((len(positions), rows.shape[1]))
            return empty.index_add(0, i.index_select(0, some), rows)

        weighted = [of_atoms(spins.unsqueeze(1) * terms)] if len(given.species) > 1 else []
        return [of_atoms(terms), *weighted]

    near = (distance > given.min_cutoff) & (distance <= given.rad_cutoff)
    edges = near.nonzero().squeeze(1)
    d = distance.index_select(0, edges)
    terms = _chebyshev(2 / given.rad_cutoff * d - 1, given.rad_order)
    terms = terms * _damping(d, given.rad_cutoff).unsqueeze(1)
    radial = summed(edges, terms, spin.index_select(0, j.index_select(0, edges)))

    near = (distance > given.min_cutoff) & (distance <= given.ang_cutoff)
    edges = near.nonzero().squeeze(1)
    first, second = (edges.index_select(0, leg) for leg in _pairs(i.index_select(0, edges)))
    direction = vector / distance.unsqueeze(1)
    cosine = (direction.index_select(0, first) * direction.index_select(0, second)).sum(1)
    damping = _damping(distance, given.ang_cutoff)
    damping = damping.index_select(0, first) * damping.index_select(0, second)
    spins = spin.index_select(0, j)
    angular = summed(
        first,
        _chebyshev(cosine, given.ang_order) * damping.unsqueeze(1),
        spins.index_select(0, first) * spins.index_select(0, second),
    )
    return torch.cat([part for kind in zip(radial, angular, strict=True) for part in kind], 1)


def _spins(given: Structures) -> Tensor:
    """The weight of each atom (N,): -1, 1 for two species, -1, 0, 1 for three and so on."""
    n = len(given.species)
    weights = [k - n // 2 + (k >= n // 2 and n % 2 == 0) for k in range(n)]
    species = given.atomic_numbers.new_tensor(given.species)
    found = (given.atomic_numbers.unsqueeze(1) == species).to(torch.int64).argmax(1)
    return given.positions.new_tensor(weights).index_select(0, found)


def _chebyshev(x: Tensor, order: int) -> Tensor:
    """T_0 to T_order of each argument: (len(x), order + 1)."""
    terms = [torch.ones_like(x), x]
    while len(terms) <= order:
        terms.append(2 * x * terms[-1] - terms[-2])
    return torch.stack(terms[: order + 1], 1)


def _damping(distance: Tensor, cutoff: float) -> Tensor:
    return ((torch.pi / cutoff * distance).cos() + 1) / 2


def _pairs(centers: Tensor) -> tuple[Tensor, Tensor]:
    """All pairs of rows (T,), (T,) with the same center, from centers in ascending order."""
    rows = torch.arange(len(centers), device=centers.device)
    after = torch.searchsorted(centers, centers, right=True) - rows - 1
    first = rows.repeat_interleave(after)
    before = (after.cumsum(0) - after).repeat_interleave(after)
    return first, first + 1 + torch.arange(len(first), device=centers.device) - before


def _gradients(
    ctx: Any,
    given: Structures,
    first_input: int,
    results: Callable[[Structures], Tensor],
    weights: Tensor,
) -> list[Tensor | None]:
    """Gradients of ``weights`` times results, for all arguments of an operator.

    With respect to positions and cell, where they are needed; weights are constants.
    """
    wanted = _needed(ctx, first_input)
    gradients: list[Tensor | None] = [None] * len(given)
    if wanted:
        create_graph = torch.is_grad_enabled()
        with torch.enable_grad():
            given = _as_variables(given)
            inputs: list[Any] = [given[number] for number in wanted]
            made = torch.autograd.grad(
                results(given), inputs, weights, create_graph=create_graph, materialize_grads=True
            )
        for number, gradient in zip(wanted, made, strict=True):
            gradients[number] = gradient
    return gradients


def _slope(given: Structures, weights: Tensor) -> Tensor:
    """Gradient of ``weights`` times the features with respect to the positions."""
    features = features_by_torch(given)
    return torch.autograd.grad(features, given.positions, weights, create_graph=True)[0]


def _as_variables(given: Structures) -> Structures:
    """Returns views of positions and cell, on which nothing else that has a gradient depends.

    The other arguments, weights above all, often depend on the same positions: that is the business
    of their own gradients.
    """

    def variable(tensor: Tensor) -> Tensor:
        if tensor.requires_grad:
            return tensor.view_as(tensor)
        return tensor.detach().requires_grad_()

    cell = None if given.cell is None else variable(given.cell)
    return given._replace(positions=variable(given.positions), cell=cell)


def _needed(ctx: Any, first_input: int) -> list[int]:
    numbers = (0, 3)  # positions and cell, which is given if it needs a gradient
    return [number for number in numbers if ctx.needs_input_grad[first_input + number]]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in inputs))
    ctx.others = [None if isinstance(value, Tensor) else value for value in inputs]


def _kept(ctx: Any) -> list[Any]:
    pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
    return [other if tensor is None else tensor for tensor, other in pairs]


def _backward_of_features(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
    given = Structures(*_kept(ctx))
    if _needed(ctx, 0) == [0]:
        gradient = _OPERATORS.chebyshev_gradient(weights, *given)
        return gradient, *(None,) * (len(given) - 1)
    return tuple(_gradients(ctx, given, 0, features_by_torch, weights))


def _backward_of_gradient(ctx: Any, directions: Tensor) -> tuple[Tensor | None, ...]:
    weights, *rest = _kept(ctx)
    given, of_weights = Structures(*rest), None
    if ctx.needs_input_grad[0]:
        of_weights = _OPERATORS.chebyshev_changes(directions, *given)
    slope = partial(_slope, weights=weights)
    return of_weights, *_gradients(ctx, given, 1, slope, directions)


def _backward_of_changes(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
    directions, *rest = _kept(ctx)
    given, of_directions = Structures(*rest), None
    if ctx.needs_input_grad[0]:
        of_directions = _OPERATORS.chebyshev_gradient(weights, *given)
    slope = partial(_slope, weights=weights)
    return of_directions, *_gradients(ctx, given, 1, slope, directions)


for _name, _backward in (
    ("chebyshev_features", _backward_of_features),
    ("chebyshev_gradient", _backward_of_gradient),
    ("chebyshev_changes", _backward_of_changes),
):
    torch.library.register_autograd(f"atompack_torch::{_name}", _backward, setup_context=_keep)
    register_loop(_name)


def _features_on_cuda(*given: Any) -> Tensor:
    with torch.no_grad():
        return features_by_torch(Structures(*given))


def _gradient_on_cuda(weights: Tensor, *given: Any) -> Tensor:
    structures = Structures(*given)
    with torch.enable_grad():
        positions = structures.positions.detach().requires_grad_()
        features = features_by_torch(structures._replace(positions=positions))
        return torch.autograd.grad(features, positions, weights)[0]


def _changes_on_cuda(directions: Tensor, *given: Any) -> Tensor:
    """The transpose of the gradient, which is linear in the weights."""
    structures = Structures(*given)
    with torch.enable_grad():
        positions = structures.positions.detach().requires_grad_()
        features = features_by_torch(structures._replace(positions=positions))
        weights = torch.zeros_like(features).requires_grad_()
        (slope,) = torch.autograd.grad(features, positions, weights, create_graph=True)
        return torch.autograd.grad(slope, weights, directions)[0]


torch.library.impl("atompack_torch::chebyshev_features", "CUDA", _features_on_cuda)
torch.library.impl("atompack_torch::chebyshev_gradient", "CUDA", _gradient_on_cuda)
torch.library.impl("atompack_torch::chebyshev_changes", "CUDA", _changes_on_cuda)
