"""Comparison of two geometries up to the order of atoms, translation and rotation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Shortest = Callable[[Array], Array]  # the shortest of the vectors of periodic images

_ROUNDS = 4  # of improving a rotation or a shift by the atoms that it brings together
_REACH = 32  # distance of partners before that, in tolerances
_PROBES = 8  # atoms that rule out most shifts before all are compared
_DISTANCES = 1 << 18  # that are computed together


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
    """Compares two molecules.

    Some order of the atoms of each element, and then the proper rotation and the translation of
    least squares, bring every atom no further than the tolerance from its partner. Atoms of
    periodic ones are wrapped, and the rotation is that of the cell vectors, in their order, which
    agree as well as atoms.

    Args:
        one: the first.
        other: the second, of the same composition and periodic directions.
        tolerance: largest distance of partners, small compared with that of neighbors.

    Returns:
        Whether they are one geometry.
    """
    if one.cell is not None and other.cell is not None:
        return _agree_in_cells(one, other, one.cell, other.cell, tolerance)
    if not len(one.numbers):
        return True
    a, b = (each.positions - each.positions.mean(axis=0) for each in (one, other))
    is_ordered = np.array_equal(one.numbers, other.numbers)
    if is_ordered and _longest(a @ _best_rotation(a, b).T - b) <= tolerance:
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
        partners = _partners(a @ rotation.T, of_a, b, of_b, lambda rows: rows, tolerance)
        if partners is None:
            return False
        rotation = _best_rotation(a, b[partners])
        if _longest(a @ rotation.T - b[partners]) <= tolerance:
            return True
    return False


def _partners(
    a: Array, of_a: Array, b: Array, of_b: Array, shortest: Shortest, tolerance: float
) -> Array | None:
    """Returns the nearest atom of the same element for each atom.

    None if one is nearest to two atoms, or the nearest is far away.
    """
    partners = np.empty(len(of_a), np.int64)
    for number in np.unique(of_a):
        own, others = np.flatnonzero(of_a == number), np.flatnonzero(of_b == number)
        nearest, is_near = _nearest(a[own], b[others], shortest, tolerance)
        if not is_near.all() or len(np.unique(nearest)) < len(own):
            return None
        partners[own] = others[nearest]
    return partners


def _nearest(
    points: Array, others: Array, shortest: Shortest, tolerance: float
) -> tuple[Array, Array]:
    """Returns the nearest of the others for each point, and whether it may be its partner."""
    nearest, is_near = np.empty(len(points), np.int64), np.empty(len(points), bool)
    step = max(_DISTANCES // len(others), 1)
    for begin in range(0, len(points), step):
        part = slice(begin, begin + step)
        squares = (shortest(points[part, None] - others) ** 2).sum(axis=2)
        nearest[part] = squares.argmin(axis=1)
        is_near[part] = squares.min(axis=1) <= (_REACH * tolerance) ** 2
    return nearest, is_near


def _best_rotation(a: Array, b: Array) -> Array:
    """Returns the proper rotation of the rows of a that is nearest to b, after Kabsch."""
    left, _, right = np.linalg.svd(b.T @ a)
    rotation: Array = (left * np.array([1, 1, np.sign(np.linalg.det(left @ right))])) @ right
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

    def shortest(rows: Array) -> Array:
        wrapped: Array = (rows - np.where(one.pbc, np.round(rows), 0)) @ cell
        return wrapped

    if np.array_equal(one.numbers, other.numbers):
        first = shortest(b - a - (b[0] - a[0]))
        if _longest(first - first.mean(axis=0)) <= tolerance:
            return True
    kinds, counts = np.unique(one.numbers, return_counts=True)
    rarest = kinds[counts.argmin()]
    shifts = b[other.numbers == rarest] - a[one.numbers.tolist().index(rarest)]
    for number, atom in zip(one.numbers[:_PROBES], a, strict=False):
        _, is_near = _nearest(shifts + atom, b[other.numbers == number], shortest, tolerance)
        shifts = shifts[is_near]
    for shift in shifts:
        for _ in range(_ROUNDS):
            partners = _partners(a + shift, one.numbers, b, other.numbers, shortest, tolerance)
            if partners is None:
                break
            rest = shortest(b[partners] - a - shift)
            middle = rest.mean(axis=0)
            if _longest(rest - middle) <= tolerance:
                return True
            shift = shift + np.linalg.solve(cell.T, middle)
    return False
