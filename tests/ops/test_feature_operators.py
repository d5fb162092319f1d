"""The features of Chebyshev descriptors as operators: values, derivatives, compilation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import atompack_torch as apt
from atompack_torch.ops.features import Structures, features_by_torch

OPERATORS = torch.ops.atompack_torch
SPECIES = {"one": [8], "two": [8, 1], "three": [8, 1, 14], "four": [8, 1, 14, 6]}


def structures(
    kind: str = "two", cell: str = "cell", sizes: tuple[int, ...] = (4, 1, 3)
) -> Structures:
    generator = torch.Generator().manual_seed(len(kind))
    n, species = sum(sizes), SPECIES[kind]
    positions = 3 * torch.rand(n, 3, generator=generator, dtype=torch.float64)
    numbers = torch.tensor(species)[torch.randint(len(species), (n,), generator=generator)]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    cells = pbc = None
    if cell != "open":
        noise = torch.rand(len(sizes), 3, 3, generator=generator, dtype=torch.float64)
        cells = 3.2 * torch.eye(3, dtype=torch.float64) + 0.4 * noise
    if cell == "slab":
        pbc = torch.tensor([True, True, False]).repeat(len(sizes), 1)
    return Structures(positions, numbers, ptr, cells, pbc, species, 3, 3.1, 2, 2.6, 0.55)


def batch_of(given: Structures) -> apt.MoleculeBatch:
    molecules = [
        apt.Molecule(
            given.positions[first:last],
            given.atomic_numbers[first:last],
            cell=None if given.cell is None else given.cell[k],
            pbc=None if given.pbc is None else given.pbc[k],
        )
        for k, (first, last) in enumerate(zip(given.ptr[:-1], given.ptr[1:], strict=True))
    ]
    return apt.collate(molecules)


@pytest.mark.parametrize("cell", ["open", "cell", "slab"])
@pytest.mark.parametrize("kind", SPECIES)
def test_features_equal_the_formula_and_the_descriptor(kind: str, cell: str) -> None:
    given = structures(kind, cell)
    found = OPERATORS.chebyshev_features(*given)
    torch.testing.assert_close(found, features_by_torch(given), rtol=1e-11, atol=1e-11)
    symbols = {8: "O", 1: "H", 14: "Si", 6: "C"}
    descriptor = apt.ChebyshevDescriptor([symbols[n] for n in given.species], 3, 3.1, 2, 2.6)
    assert torch.equal(descriptor.features(*given[:5]), found)
    assert torch.equal(descriptor.compute(batch_of(given)).features, found)


@pytest.mark.filterwarnings("error:.*non-contiguous")
def test_structures_by_a_pointer_with_gaps() -> None:
    given = structures()
    ptr = torch.stack([given.ptr, given.ptr], 1)[:, 0]
    torch.set_warn_always(True)
    try:
        for features in (
            OPERATORS.chebyshev_features,
            lambda *given: features_by_torch(Structures(*given)),
        ):
            assert torch.equal(features(*given._replace(ptr=ptr)), features(*given))
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("cell", ["open", "cell"])
@pytest.mark.parametrize("kind", ["one", "three"])
def test_operators_pass_all_checks_of_torch(kind: str, cell: str) -> None:
    given = structures(kind, cell)
    given.positions.requires_grad_()
    weights = torch.randn(OPERATORS.chebyshev_features(*given).shape, dtype=torch.float64)
    torch.library.opcheck(OPERATORS.chebyshev_features.default, given)
    fixed = given._replace(positions=given.positions.detach())
    for operator, first in (
        (OPERATORS.chebyshev_gradient, weights.requires_grad_()),
        (OPERATORS.chebyshev_changes, torch.randn_like(fixed.positions).requires_grad_()),
    ):
        torch.library.opcheck(operator.default, (first, *fixed))


@pytest.mark.parametrize("cell", ["open", "cell", "slab"])
@pytest.mark.parametrize("kind", ["one", "two"])
def test_all_derivatives(kind: str, cell: str) -> None:
    """First and second ones, with respect to positions and cell, next to differences; the second
    ones in random directions, each of which all of them change.
    """
    given = structures(kind, cell, (3, 2))
    inputs = [given.positions.requires_grad_()]
    if given.cell is not None:
        inputs.append(given.cell.requires_grad_())

    def features(positions: Tensor, cells: Tensor | None = None) -> Tensor:
        made: Tensor = OPERATORS.chebyshev_features(positions, *given[1:3], cells, *given[4:])
        return made

    assert torch.autograd.gradcheck(features, inputs)
    assert torch.autograd.gradgradcheck(features, inputs, fast_mode=True)
    of_positions = [given.positions]
    fixed = None if given.cell is None else given.cell.detach()
    of_these = partial(features, cells=fixed)
    assert torch.autograd.gradgradcheck(of_these, of_positions, fast_mode=True)


@pytest.mark.parametrize("name", ["chebyshev_gradient", "chebyshev_changes"])
def test_derivatives_of_the_products(name: str) -> None:
    given = structures("two", "cell", (3, 2))
    operator = getattr(OPERATORS, name)
    shape = (5, 14) if name == "chebyshev_gradient" else (5, 3)
    first = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    inputs = (first, given.positions.requires_grad_(), given.cell.requires_grad_())

    def product(first: Tensor, positions: Tensor, cell: Tensor) -> Any:
        return operator(first, positions, *given[1:3], cell, *given[4:])

    assert torch.autograd.gradcheck(product, inputs)
    assert torch.autograd.gradgradcheck(product, inputs, fast_mode=True)


def test_forces_are_those_of_the_contraction() -> None:
    given = structures("two", "slab")
    descriptor = apt.ChebyshevDescriptor(["O", "H"], 3, 3.1, 2, 2.6)
    batch = descriptor.compute(batch_of(given), derivatives=True)
    positions = given.positions.requires_grad_()
    energy = descriptor.features(positions, *given[1:5]).pow(2).sum()
    (gradient,) = torch.autograd.grad(energy, positions)
    assert torch.equal(-gradient, apt.contract_forces(batch, 2 * batch.features))


def test_float32_is_rounded_once() -> None:
    given = structures()
    narrow = given._replace(positions=given.positions.float(), cell=given.cell.float())
    wide = given._replace(positions=narrow.positions.double(), cell=narrow.cell.double())
    expected = OPERATORS.chebyshev_features(*wide).float()
    assert torch.equal(OPERATORS.chebyshev_features(*narrow), expected)
    descriptor = apt.ChebyshevDescriptor(["O", "H"], 3, 3.1, 2, 2.6, dtype="float32")
    assert torch.equal(descriptor.features(*wide[:5]), expected)
    positions = wide.positions.requires_grad_()
    (gradient,) = torch.autograd.grad(
        descriptor.features(positions, *wide[1:5]).double().sum(), positions
    )
    assert gradient.dtype == torch.float64


@pytest.mark.parametrize("name", ["features", "gradient", "changes"])
def test_kernels_of_other_devices(name: str) -> None:
    """They consist of torch's operators, which run here too."""
    given = structures("three")
    operator = getattr(OPERATORS, f"chebyshev_{name}")
    first = {
        "features": (),
        "gradient": (torch.randn(8, 14, dtype=torch.float64),),
        "changes": (torch.randn(8, 3, dtype=torch.float64),),
    }[name]
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    found = operator.default.redispatch(keys, *first, *given)
    torch.testing.assert_close(found, operator(*first, *given), rtol=1e-11, atol=1e-11)


class Potential(torch.nn.Module):
    """Energy of a linear function of squared features, and its forces."""

    def __init__(self, given: Structures) -> None:
        super().__init__()
        self.settings = given[5:]
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 14, dtype=torch.float64))

    def forward(
        self, positions: Tensor, numbers: Tensor, ptr: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        given = (positions, numbers, ptr, cell, None, *self.settings)
        features = OPERATORS.chebyshev_features(*given)
        weights = 2 * features * self.weight
        return features.pow(2) @ self.weight, -OPERATORS.chebyshev_gradient(weights, *given)


def test_compiled_training_is_one_graph_and_equals_eager() -> None:
    torch._dynamo.reset()
    model = Potential(structures())
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for sizes in ((4, 3), (2, 5), (7, 4)):
        given = structures(sizes=sizes)
        gradients = []
        for each in (model, compiled):
            model.zero_grad()
            energy, forces = each(*given[:4])
            (energy.sum() + forces.pow(2).sum()).backward()
            gradients.append([energy.detach(), forces.detach(), model.weight.grad.clone()])
        for eager, ours in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-10, atol=1e-10)


def test_exported_program_comes_back(tmp_path: Path) -> None:
    given = structures(sizes=(3, 2))
    n = torch.export.Dim("n", min=2, max=1000)
    shapes = ({0: n}, {0: n}, None, None)
    program = torch.export.export(Potential(given), given[:4], dynamic_shapes=shapes)
    torch.export.save(program, tmp_path / "potential.pt2")
    loaded = torch.export.load(tmp_path / "potential.pt2").module()
    for sizes in ((3, 2), (5, 4)):
        other = structures(sizes=sizes)
        for ours, eager in zip(loaded(*other[:4]), Potential(given)(*other[:4]), strict=True):
            torch.testing.assert_close(ours, eager)


def test_vmap_over_positions() -> None:
    given = structures()
    several = torch.stack([given.positions, 1.01 * given.positions])
    found = torch.vmap(lambda x: OPERATORS.chebyshev_features(x, *given[1:]))(several)
    for ours, positions in zip(found, several, strict=True):
        assert torch.equal(ours, OPERATORS.chebyshev_features(positions, *given[1:]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"species": [6]}, "expected one of the species number 6, got number"),
        ({"rad_order": -1}, "rad_order: expected 0 to 1000, got -1"),
        ({"positions": torch.zeros(8, 3, dtype=torch.int64)}, "expected Float or Double"),
        ({"cell": None, "pbc": torch.ones(3, 3, dtype=torch.bool)}, "pbc: expected a cell too"),
        ({"ptr": torch.tensor([0, 9])}, "ptr"),
    ],
)
def test_wrong_arguments(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OPERATORS.chebyshev_features(*structures()._replace(**changed))
