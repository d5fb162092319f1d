"""Comparison of two geometries up to the order of atoms, translation and rotation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_ROUNDS = 4  # of improving a rotation or a shift by the atoms that it brings together


class Geometry(NamedTuple):
    """One molecule.

    Attributes:
        numbers: (n,) atomic numbers.
        positions: (n, 3) float64.
        cell: (3, 3) float64; None: no direction is periodic.
        pbc: (3,) bool.
    """

    numbers: Array
    positions: Array
    cell: Array | None
    pbc: Array


def agree(one: Geometry, other: Geometry, tolerance: float) -> bool:
    """True if two molecules are one geometry.

    A proper rotation, a translation and an order of the atoms of each element bring every atom no
    further than the tolerance from its partner. Periodic ones are wrapped, and the rotation is the
    one that brings the cell vectors, in their order, together, which agree as well as atoms.

    Args:
        one: the first.
        other: the second, of the same composition and periodic directions.
        tolerance: largest distance of partners, small compared with that of neighbors.
    """
    if one.cell is not None and other.cell is not None:
        return _agree_in_cells(one, other, one.cell, other.cell, tolerance)
    if not len(one.numbers):
        return True
    a, b = (each.positions - each.positions.mean(axis=0) for each in (one, other))
    if np.array_equal(one.numbers, other.numbers) and _longest(a - b) <= tolerance:
        return True
    return any(
        _fits(a, one.numbers, b, other.numbers, rotation, tolerance)
        for rotation in _rotations(a, one.numbers, b, other.numbers, tolerance)
    )


def _longest(rows: Array) -> float:
    return float(np.sqrt((rows**2).sum(axis=-1).max(initial=0)))


def _fits(a: Array, of_a: Array, b: Array, of_b: Array, rotation: Array, tolerance: float) -> bool:
    """True if a rotation, improved by the partners that it finds, brings all atoms together."""
    for _ in range(_ROUNDS):
        turned = a @ rotation.T
        partners = _partners(
            lambda i, j, rows=turned: np.linalg.norm(rows[i][:, None] - b[j], axis=2), of_a, of_b
        )
        if partners is None:
            return False
        rotation = _best_rotation(a, b[partners])
        if _longest(a @ rotation.T - b[partners]) <= tolerance:
            return True
    return False


def _partners(distances: Any, of_a: Array, of_b: Array) -> Array | None:
    """Returns the nearest atom of the same element for each atom; None if two have the same."""
    partners = np.empty(len(of_a), np.int64)
    for number in np.unique(of_a):
        own, others = np.flatnonzero(of_a == number), np.flatnonzero(of_b == number)
        nearest = distances(own, others).argmin(axis=1)
        if len(np.unique(nearest)) < len(own):
            return None
        partners[own] = others[nearest]
    return partners


def _best_rotation(a: Array, b: Array) -> Array:
    """Returns the proper rotation of the rows of a that is nearest to b, after Kabsch."""
    left, _, right = np.linalg.svd(b.T @ a)
    sign = np.sign(np.linalg.det(left) * np.linalg.det(right))
    rotation: Array = (left * np.array([1, 1, sign])) @ right
    return rotation


def _rotations(a: Array, of_a: Array, b: Array, of_b: Array, tolerance: float) -> Any:
    """Yields rotations that bring two atoms of a, and the center, to atoms of b.

    The first is one of the atoms with the fewest possible partners, the second the one that spans
    the largest triangle with it.
    """
    far_a, far_b = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    alike = (of_a[:, None] == of_b) & (np.abs(far_a[:, None] - far_b) <= 2 * tolerance)
    counts = np.where(far_a > 0.3 * far_a.max(), alike.sum(axis=1), len(a) + 1)
    first = int(counts.argmin())
    areas = np.linalg.norm(np.cross(a[first], a), axis=1)
    second = int(np.where(areas >= 0.5 * areas.max(), alike.sum(axis=1), len(a) + 1).argmin())
    apart = np.linalg.norm(a[first] - a[second])
    for i in np.flatnonzero(alike[first]):
        between = np.abs(np.linalg.norm(b[i] - b, axis=1) - apart)
        for j in np.flatnonzero(alike[second] & (between <= 2 * tolerance)):
            yield _best_rotation(a[[first, second]], b[[i, j]])


def _agree_in_cells(
    one: Geometry, other: Geometry, cell: Array, other_cell: Array, tolerance: float
) -> bool:
    rotation = _best_rotation(cell, other_cell)
    if _longest(cell @ rotation.T - other_cell) > tolerance:
        return False
    if not len(one.numbers):
        return True
    a = np.linalg.solve(cell.T, one.positions.T).T
    b = np.linalg.solve(other_cell.T, other.positions.T).T

    def apart(rows: Array) -> Array:
        """Shortest vectors of differences in units of the cell."""
        wrapped: Array = (rows - np.where(one.pbc, np.round(rows), 0)) @ cell
        return wrapped

    if np.array_equal(one.numbers, other.numbers):
        first = apart(b - a - (b[0] - a[0]))
        if _longest(first - first.mean(axis=0)) <= tolerance:
            return True
    kinds, counts = np.unique(one.numbers, return_counts=True)
    rarest = kinds[counts.argmin()]
    start = a[np.flatnonzero(one.numbers == rarest)[0]]
    for shift in b[other.numbers == rarest] - start:
        for _ in range(_ROUNDS):
            moved = a + shift
            partners = _partners(
                lambda i, j, rows=moved: np.linalg.norm(apart(rows[i][:, None] - b[j]), axis=2),
                one.numbers,
                other.numbers,
            )
            if partners is None:
                break
            rest = apart(b[partners] - moved)
            middle = rest.mean(axis=0)
            if _longest(rest - middle) <= tolerance:
                return True
            shift = shift + np.linalg.solve(cell.T, middle)
    return False
