"""The contraction of derivatives with torch's own operators, and batches that have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import atompack_torch as apt
from atompack_torch.ops.contraction import Rows


def by_index_add(weights: Tensor, rows: Rows) -> Tensor:
    """Computes forces (N, 3) from weights (N, F) and rows of derivatives."""
    n_radial = rows.radial_grads.shape[1]
    n_plain = n_radial + rows.grads_i.shape[1]
    plain, of_spins = weights[:, :n_plain], weights[:, n_plain:]
    forces = torch.zeros(len(weights), 3, dtype=weights.dtype, device=weights.device)

    v = plain[:, :n_radial].index_select(0, rows.radial_center)
    if rows.radial_spin is not None:
        more = of_spins[:, :n_radial].index_select(0, rows.radial_center)
        v = v + rows.radial_spin[:, None] * more
    pull = torch.einsum("en,enx->ex", v, rows.radial_grads)
    forces = forces.index_add(0, rows.radial_center, pull)
    forces = forces.index_add(0, rows.radial_neighbor, -pull)

    v = plain[:, n_radial:].index_select(0, rows.angular_center)
    if rows.angular_spin is not None:
        more = of_spins[:, n_radial:].index_select(0, rows.angular_center)
        v = v + rows.angular_spin[:, None] * more
    for atoms, grads in (
        (rows.angular_center, rows.grads_i),
        (rows.angular_j, rows.grads_j),
        (rows.angular_k, rows.grads_k),
    ):
        forces = forces.index_add(0, atoms, -torch.einsum("tn,tnx->tx", v, grads))
    return forces


SPECIES = {"one": ["O"], "many": ["O", "H", "Si"]}


def batch_of(
    kind: str, sizes: tuple[int, ...] = (4, 1, 0, 5), dtype: Any = "float64", seed: int = 0
) -> apt.MoleculeBatch:
    """Structures of one or many species, every second one periodic, with derivatives."""
    rng = np.random.default_rng(seed)
    numbers = {"O": 8, "H": 1, "Si": 14}
    species, molecules = SPECIES[kind], []
    for k, n in enumerate(sizes):
        labels = [numbers[species[i]] for i in rng.integers(len(species), size=n)]
        cell = np.eye(3) * (n**0.33 * 2 + 1) if k % 2 else None
        molecules.append(
            apt.Molecule(rng.random((n, 3)) * 3, np.array(labels, dtype=int), cell=cell)
        )
    descriptor = apt.ChebyshevDescriptor(species, 3, 3.1, 2, 2.6, dtype=dtype)
    return descriptor.compute(apt.collate(molecules), derivatives=True)
