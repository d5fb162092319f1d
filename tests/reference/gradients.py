"""Feature gradients and forces from derivative rows, densely and row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def dense(rows: Mapping[str, Array | None], n_atoms: int) -> Array:
    """dG (N, F, N, 3): of every feature of every atom with respect to every position.

    ``rows`` by the names that a batch has; without typespins for one species.
    """
    radial, grads = _of(rows, "radial_dG_drij"), _of(rows, "angular_grads_i")
    n_radial, n_angular = radial.shape[1], grads.shape[1]
    n_plain = n_radial + n_angular
    edge_spin, spin = rows["radial_neighbor_typespin"], rows["angular_triplet_typespin"]
    total = np.zeros((n_atoms, n_plain * (1 if edge_spin is None else 2), n_atoms, 3))
    pairs = zip(_of(rows, "radial_center_idx"), _of(rows, "radial_neighbor_idx"), strict=True)
    for e, (i, j) in enumerate(pairs):
        for first, weight in _columns(0, n_plain, edge_spin, e):
            columns = slice(first, first + n_radial)
            total[i, columns, i] -= weight * radial[e]
            total[i, columns, j] += weight * radial[e]
    centers = _of(rows, "angular_center_idx")
    for leg in ("i", "j", "k"):
        grads = _of(rows, f"angular_grads_{leg}")
        atoms = centers if leg == "i" else _of(rows, f"angular_neighbor_{leg}_idx")
        for t, (i, a) in enumerate(zip(centers, atoms, strict=True)):
            for first, weight in _columns(n_radial, n_plain, spin, t):
                total[i, first : first + n_angular, a] += weight * grads[t]
    return total


def _of(rows: Mapping[str, Array | None], name: str) -> Array:
    found = rows[name]
    assert found is not None
    return found


def _columns(first: int, n_plain: int, spin: Array | None, row: int) -> list[tuple[int, float]]:
    plain = (first, 1.0)
    return [plain] if spin is None else [plain, (n_plain + first, float(spin[row]))]


def forces(weights: Array, gradients: Array) -> Array:
    """(N, 3) from dE/dfeatures (N, F) and dG."""
    return -np.einsum("if,ifax->ax", weights, gradients)
