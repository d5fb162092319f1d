"""Nested derivatives by ``torch.func``, forward mode and autograd are those of the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacrev, jvp, vjp, vmap

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES
from atompack_torch.ops.features import Structures, features_by_torch

GENERATOR = torch.Generator().manual_seed(0)
POSITIONS = 3 * torch.rand(5, 3, generator=GENERATOR, dtype=torch.float64)
CELL = 3 * torch.eye(3, dtype=torch.float64).unsqueeze(0)
PTR = torch.tensor([0, 5])
NUMBERS = torch.tensor([6, 6, 8, 6, 8])
DESCRIPTOR = apt.ChebyshevDescriptor(["C", "O"], 3, 2.5, 2, 2.0)
BATCH = DESCRIPTOR.compute(
    apt.collate([apt.Molecule(POSITIONS, NUMBERS, cell=CELL[0])]), derivatives=True
)
WEIGHTS = torch.randn(BATCH.features.shape, generator=GENERATOR, dtype=torch.float64)
SCALE = torch.linspace(0.5, 2, 5, dtype=torch.float64)  # energies that a translation changes


def of_pairs(positions: Tensor) -> Tensor:
    vector = apt.neighbor_list(positions, CELL, None, PTR, 2.0).edge_vector
    return (-vector.pow(2).sum(1)).exp().sum() + (SCALE @ positions).pow(2).sum()


def of_features(positions: Tensor) -> Tensor:
    features = DESCRIPTOR.features(positions, NUMBERS, PTR, CELL)
    return (SCALE @ features.pow(2)).sum() + (SCALE @ positions).pow(2).sum()


def of_formula(positions: Tensor) -> Tensor:
    given = Structures(positions, NUMBERS, PTR, CELL, None, [6, 8], 3, 2.5, 2, 2.0, 0.55)
    features = features_by_torch(given)
    return (SCALE @ features.pow(2)).sum() + (SCALE @ positions).pow(2).sum()


def of_forces(weights: Tensor) -> Tensor:
    return apt.contract_forces(BATCH, weights * weights).pow(2).sum()


def of_columns(weights: Tensor) -> Tensor:
    """The same, as a product with the matrix of the contraction."""
    size = WEIGHTS.numel()
    unit = torch.eye(size, dtype=torch.float64).view(size, *WEIGHTS.shape)
    matrix = torch.stack([apt.contract_forces(BATCH, each).flatten() for each in unit])
    return ((weights * weights).flatten() @ matrix).pow(2).sum()


CASES = {
    "pairs": (of_pairs, of_pairs, POSITIONS),
    "features": (of_features, of_formula, POSITIONS),
    "forces": (of_forces, of_columns, WEIGHTS),
}


@pytest.fixture(params=CASES)
def case(request: Any) -> tuple[Callable[[Tensor], Tensor], Tensor, Tensor, Tensor]:
    """A function, its argument, and its gradient and Hessian by plain autograd."""
    function, plain, x = CASES[request.param]
    gradient = torch.autograd.functional.jacobian(plain, x)
    return function, x, gradient, torch.autograd.functional.hessian(plain, x)


def test_nested_derivatives_of_torch_func(case: Any) -> None:
    function, x, gradient, second = case
    along = torch.linspace(-1, 2, x.numel(), dtype=torch.float64).view(x.shape)
    made = {
        "grad": (grad(function)(x), gradient),
        "jacrev": (jacrev(function)(x), gradient),
        "jvp": (jvp(function, (x,), (along,))[1], (gradient * along).sum()),
        "grad(grad)": (grad(lambda y: grad(function)(y).sum())(x), second.sum((0, 1))),
        "jacrev(grad)": (jacrev(grad(function))(x), second),
        "hessian": (hessian(function)(x), second),
        "jvp(grad)": (jvp(grad(function), (x,), (along,))[1], (second * along).sum((2, 3))),
    }
    for name, (found, expected) in made.items():
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=name)


def test_nested_derivatives_of_autograd(case: Any) -> None:
    """The weights of a second derivative depend on the same positions."""
    function, x, _, second = case
    found = torch.autograd.functional.hessian(function, x)
    torch.testing.assert_close(found, second, rtol=1e-9, atol=1e-9)


def test_forward_mode(case: Any) -> None:
    function, x, gradient, _ = case
    along = torch.linspace(-1, 2, x.numel(), dtype=torch.float64).view(x.shape)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x, along))).tangent
    torch.testing.assert_close(tangent, (gradient * along).sum(), rtol=1e-9, atol=1e-9)


def test_vmap_of_derivatives() -> None:
    several = torch.stack([WEIGHTS, 2 * WEIGHTS])
    expected = torch.stack([grad(of_forces)(each) for each in several])
    torch.testing.assert_close(vmap(grad(of_forces))(several), expected)
    with pytest.raises(RuntimeError, match="dynamic shape"):
        vmap(grad(of_features))(torch.stack([POSITIONS, POSITIONS]))


def test_second_derivatives_where_cell_and_positions_have_one_origin() -> None:
    strain = torch.eye(3, dtype=torch.float64) + 0.01

    def features(function: Any, strain: Tensor) -> Tensor:
        made: Tensor = function(POSITIONS @ strain, CELL @ strain)
        return (SCALE @ made.pow(2)).sum()

    def native(positions: Tensor, cell: Tensor) -> Tensor:
        return DESCRIPTOR.features(positions, NUMBERS, PTR, cell)

    def formula(positions: Tensor, cell: Tensor) -> Tensor:
        settings: tuple[Any, ...] = ([6, 8], 3, 2.5, 2, 2.0, 0.55)
        return features_by_torch(Structures(positions, NUMBERS, PTR, cell, None, *settings))

    found, expected = (
        torch.autograd.functional.hessian(lambda x, f=f: features(f, x), strain)
        for f in (native, formula)
    )
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors_of_batches_as_stored(dtype: torch.dtype) -> None:
    """Positions of any precision, cells in float64, and NaN in open directions of a cell."""
    cell = 3 * torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    pbc = torch.tensor([[True, False, True], [False] * 3])
    cell[~pbc] = torch.nan
    positions, ptr = POSITIONS.to(dtype), torch.tensor([0, 3, 5])

    def vectors(positions: Tensor, cell: Tensor) -> Tensor:
        return apt.neighbor_list(positions, cell, pbc, ptr, 2.5).edge_vector

    found, pull = vjp(vectors, positions, cell)
    assert torch.equal(found, vectors(positions, cell))
    given = (positions.clone().requires_grad_(), cell.clone().requires_grad_())
    expected = torch.autograd.grad(vectors(*given).pow(2).sum() / 2, given)
    for ours, theirs in zip(pull(found), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("transform", [grad, jacrev, hessian])
def test_errors_keep_their_names(transform: Any) -> None:
    def unknown(positions: Tensor) -> Tensor:
        return DESCRIPTOR.features(positions, NUMBERS + 1, PTR, CELL).sum()

    with pytest.raises(apt.FieldError, match="species"):
        transform(unknown)(POSITIONS)


@pytest.mark.parametrize("name", ["chebyshev_features", "contract_forces"])
def test_operators_by_themselves_refuse_torch_func(name: str) -> None:
    """An error, not a wrong value; the functions of this package go another way."""
    operator = getattr(torch.ops.atompack_torch, name)
    if name == "chebyshev_features":
        rest: tuple[Any, ...] = (NUMBERS, PTR, CELL, None, [6, 8], 3, 2.5, 2, 2.0, 0.55)
        first = POSITIONS
    else:
        first, rest = WEIGHTS, (BATCH.ptr, *(BATCH._fields.get(key) for key in DERIVATIVES))
    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda x: operator(x, *rest).sum())(first)
