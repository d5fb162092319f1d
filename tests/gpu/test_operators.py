"""Operators on a device, compared with those of the CPU, with their derivatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import atompack_torch as apt


@pytest.fixture
def described(path: Path) -> apt.MoleculeBatch:
    descriptor = apt.ChebyshevDescriptor(["O", "H"], 4, 3.5, 2, 3.0, dtype="float64")
    return descriptor.compute(apt.AtpDataset(path)[:24], derivatives=True)


def test_contraction_and_its_derivatives(
    described: apt.MoleculeBatch, device: torch.device
) -> None:
    there = described.to(device)
    made = []
    for batch in (described, there):
        weights = torch.sin(batch.features).requires_grad_()
        forces = apt.contract_forces(batch, weights)
        (slope,) = torch.autograd.grad(forces.pow(2).sum(), weights, create_graph=True)
        made.append([forces.cpu(), slope.cpu(), torch.autograd.grad(slope.sum(), weights)[0].cpu()])
    for found, expected in zip(made[1], made[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_neighbor_list(path: Path, device: torch.device) -> None:
    if device.type == "cuda":
        pytest.importorskip("nvalchemiops", reason="nvalchemi-toolkit-ops is not installed")
    batch = apt.AtpDataset(path)[:40]
    given = (batch.positions.double(), batch.cell.double(), batch.pbc & batch.mask("cell")[:, None])
    made = []
    for place in ("cpu", device):
        positions, cell, pbc = (tensor.to(place) for tensor in given)
        positions.requires_grad_()
        found = apt.neighbor_list(positions, cell, pbc, batch.ptr.to(place), 3.0)
        found.edge_vector.pow(2).sum().backward()
        rows = torch.cat([found.edge_index.T.cpu(), found.edge_shift.cpu().long()], 1)
        made.append((rows.unique(dim=0), positions.grad.cpu()))
    assert torch.equal(made[1][0], made[0][0])
    torch.testing.assert_close(made[1][1], made[0][1], rtol=1e-9, atol=1e-9)


def test_features_and_forces(path: Path, device: torch.device) -> None:
    if device.type == "cuda":
        pytest.importorskip("nvalchemiops", reason="nvalchemi-toolkit-ops is not installed")
    batch = apt.AtpDataset(path)[:12]
    descriptor = apt.ChebyshevDescriptor(["O", "H"], 4, 3.5, 2, 3.0)
    made: list[tuple[torch.Tensor, torch.Tensor]] = []
    for place in ("cpu", device):
        positions = batch.positions.double().to(place).requires_grad_()
        features = descriptor.features(
            positions, batch.atomic_numbers.to(place), batch.ptr.to(place)
        )
        (forces,) = torch.autograd.grad(features.pow(2).sum(), positions)
        made.append((features.detach().cpu(), forces.cpu()))
    for found, expected in zip(made[1], made[0], strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_a_compiled_step(described: apt.MoleculeBatch, device: torch.device) -> None:
    batch = described.to(device)

    def loss(weights: Any) -> torch.Tensor:
        return apt.contract_forces(batch, weights).pow(2).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    weights = torch.cos(batch.features).requires_grad_()
    expected = torch.autograd.grad(loss(weights), weights)[0]
    found = torch.autograd.grad(compiled(weights), weights)[0]
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
