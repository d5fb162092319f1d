"""``contract_forces``: equal to dense gradients and to torch's operations, twice differentiable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from reference.contraction import SPECIES, batch_of, by_index_add
from torch.autograd import gradcheck, gradgradcheck
from torch.utils import _pytree as pytree

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES
from atompack_torch.ops.contraction import Rows


def rows_of(batch: apt.MoleculeBatch) -> Rows:
    return Rows(*(batch._fields.get(name) for name in DERIVATIVES))


def random_like(features: torch.Tensor, seed: int = 0) -> torch.Tensor:
    return torch.randn(
        features.shape, dtype=features.dtype, generator=torch.Generator().manual_seed(seed)
    )


@pytest.mark.parametrize("kind", SPECIES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equals_index_add_with_both_gradients(kind: str, dtype: str) -> None:
    """Torch's own operators are the same map, and so are its gradients."""
    batch = batch_of(kind, dtype=dtype)
    limit = 1e-4 if dtype == "float32" else 1e-11
    found = []
    for way in (apt.contract_forces, lambda batch, w: by_index_add(w, rows_of(batch))):
        weights = random_like(batch.features).requires_grad_()
        other = random_like(batch.positions.to(weights.dtype), 1).requires_grad_()
        forces = way(batch, weights)
        assert forces.dtype == weights.dtype
        (first,) = torch.autograd.grad((forces**2 * other).sum(), weights, create_graph=True)
        second = torch.autograd.grad((first**2).sum(), (weights, other))
        found.append((forces, first, *second))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=limit, atol=limit)


@pytest.mark.parametrize("kind", SPECIES)
def test_gradients_of_both_orders(kind: str) -> None:
    batch = batch_of(kind, (3, 2))
    weights = random_like(batch.features).requires_grad_()

    def contract(weights: torch.Tensor) -> torch.Tensor:
        return apt.contract_forces(batch, weights)

    assert gradcheck(contract, weights)
    assert gradgradcheck(contract, weights)
    assert gradgradcheck(lambda w: contract(w.sin()), weights)


class Contraction(torch.nn.Module):
    """Forces of an energy that is linear in the features."""

    def forward(self, batch: apt.MoleculeBatch) -> torch.Tensor:
        return apt.contract_forces(batch, torch.ones_like(batch.features))


@pytest.mark.parametrize("kind", SPECIES)
def test_an_exported_program_accepts_other_sizes(kind: str) -> None:
    batches = [batch_of(kind, sizes) for sizes in ((5, 7, 4), (6, 3, 9, 8))]
    automatic = [
        dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO)
        for leaf in pytree.tree_leaves(batches[0])
    ]
    program = torch.export.export(Contraction(), (batches[0],), dynamic_shapes=(automatic,))
    for batch in batches:
        assert torch.equal(program.module()(batch), Contraction()(batch))


def test_threads_change_no_bit(threads: Any) -> None:
    batch = batch_of("many", (30, 2, 41, 17, 1, 25))
    weights = random_like(batch.features)
    threads(1)
    serial = apt.contract_forces(batch, weights)
    threads(2)
    for _ in range(4):
        assert torch.equal(apt.contract_forces(batch, weights), serial)


def test_rows_may_come_in_any_order() -> None:
    batch = batch_of("many", (30, 2, 41, 17, 1, 25))
    weights = random_like(batch.features)
    expected = apt.contract_forces(batch, weights)
    for level in ("edge", "triplet"):
        names = [name for name in DERIVATIVES if DERIVATIVES[name] == level]
        order = torch.randperm(len(batch[names[0]]))
        for name in names:
            batch.set_field(name, batch[name][order], level)
    for _ in range(3):
        torch.testing.assert_close(apt.contract_forces(batch, weights), expected)


def test_a_molecule_without_rows_has_no_forces() -> None:
    batch = batch_of("many", (4, 1, 1))
    forces = apt.contract_forces(batch, torch.ones_like(batch.features))
    assert (forces[4] == 0).all()
    empty = batch_of("many", (0,))
    assert apt.contract_forces(empty, torch.ones_like(empty.features)).shape == (0, 3)


def test_weights_need_not_be_contiguous() -> None:
    batch = batch_of("many")
    weights = random_like(batch.features)
    expected = apt.contract_forces(batch, weights)
    assert torch.equal(apt.contract_forces(batch, weights.t().contiguous().t()), expected)
    expanded = torch.ones(1, 1, dtype=torch.float64).expand(weights.shape)
    torch.testing.assert_close(
        apt.contract_forces(batch, expanded),
        apt.contract_forces(batch, torch.ones_like(weights)),
    )


def test_what_does_not_fit_is_refused() -> None:
    batch = batch_of("many")
    weights = random_like(batch.features)

    def refused(message: str, weights: torch.Tensor = weights, **changed: torch.Tensor) -> None:
        other = batch.clone()
        for name, value in changed.items():
            other._fields[name] = value
        with pytest.raises(apt.FieldError, match=message):
            apt.contract_forces(other, weights)

    refused(r"dE_dfeatures: expected shape \(10, 14\), got \(10, 13\)", weights[:, 1:])
    refused(r"dE_dfeatures: expected shape \(10, 14\), got \(10, 7\)", weights[:, 7:])
    refused(r"dE_dfeatures: expected shape \(10, 14\), got \(9, 14\)", weights[1:])
    refused("dE_dfeatures: expected float64, got float32", weights.float())
    refused("dE_dfeatures: expected a tensor on cpu, got meta", weights.to("meta"))
    refused("got some with a gradient", radial_dG_drij=batch.radial_dG_drij.requires_grad_())
    batch.radial_dG_drij.requires_grad_(False)
    refused("3 dimensions, got 2", angular_grads_j=batch.angular_grads_j[:, 0])
    refused("angular_grads_k: expected Double of shape", angular_grads_k=batch.angular_grads_k[1:])
    refused("radial_center_idx: expected Long", radial_center_idx=batch.radial_center_idx.int())
    for name in (name for name in DERIVATIVES if name.endswith("_idx")):
        for atom in (-1, 10, 2**62):
            wrong = batch[name].clone()
            wrong[-1] = atom
            refused(f"{name}: expected atoms from 0 to below 10, got {atom}", **{name: wrong})
    plain = apt.collate([apt.Molecule(np.zeros((1, 3)), [8])])
    with pytest.raises(apt.FieldError, match="the batch has no derivatives"):
        apt.contract_forces(plain, weights)
