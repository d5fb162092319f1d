"""Molecules of equal geometry, also up to the order of atoms, translation and rotation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.datasets.sweeping import runs
from atompack_torch.options import checked_number
from atompack_torch.random_order import hashes as random_hashes

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import MoleculeBatch
    from atompack_torch.datasets.base import MoleculeDataset

Array = np.ndarray[Any, np.dtype[Any]]
Shortest = Callable[[Array], Array]  # the shortest of the vectors of periodic images

_BLOCK_MOLECULES = 4096
_BLOCK_ATOMS = 1 << 18
_WAVES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]])
_N_KEYS = 3 + 2 * len(_WAVES)  # invariants by which molecules are compared before all others
_SLACK = 0.999  # for rounding
_STEP = 2048  # molecules that are compared with those before them together
_PAIRS_AT_ONCE = 1 << 20
_NEIGHBORS = np.array([*product((-1, 0, 1), repeat=3)])  # of a bin of three keys

_ROUNDS = 4  # of improving a rotation or a shift by the atoms that it brings together
_REACH = 32  # distance of partners before that, in tolerances
_PROBES = 8  # atoms that rule out most shifts before all are compared
_DISTANCES = 1 << 18  # that are computed together

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def duplicate_pairs(dataset: MoleculeDataset, tolerance: float) -> Tensor:
    """Finds the molecules that repeat earlier ones; see ``MoleculeDataset.duplicates``.

    Args:
        dataset: the molecules, with their cells, as stored.
        tolerance: see ``agree``; 0: equal bit for bit, in the same order.

    Returns:
        (m, 2) int64: the earlier molecule, which repeats none, and the one that repeats it.

    Raises:
        TypeError: the tolerance is no number.
        ValueError: it is negative or not finite.
    """
    tolerance = checked_number("tolerance", tolerance)
    hashes, kinds, keys = _survey(dataset, tolerance)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    original = first[inverse.reshape(-1)].astype(np.int64)  # of those that are equal bit for bit
    if tolerance > 0:
        _join_near(dataset, original, kinds, keys, tolerance)
        original = original[original]
    repeats = np.flatnonzero(original != np.arange(len(original)))
    return torch.from_numpy(np.stack([original[repeats], repeats], axis=1))


class _Geometries(NamedTuple):
    """Geometries of consecutive molecules; cells are zeros where there are none."""

    numbers: Array
    positions: Array
    cell: Array
    pbc: Array
    ptr: Array

    @classmethod
    def of(cls, batch: MoleculeBatch) -> _Geometries:
        n = len(batch)
        cell = batch["cell"].numpy() if "cell" in batch else np.zeros((n, 3, 3))
        pbc = batch["pbc"].numpy() if "pbc" in batch else np.zeros((n, 3), bool)
        numbers, ptr = batch.atomic_numbers.numpy(), batch.ptr.numpy()
        return cls(numbers, batch.positions.numpy(), cell, pbc, ptr)

    def completed(self) -> _Geometries:
        """Returns them in float64, with unit vectors instead of missing ones of open directions."""
        cell = self.cell.astype(np.float64)
        for row in np.flatnonzero(self.pbc.any(axis=1) & (np.linalg.det(cell) == 0)):
            for missing in np.flatnonzero(~self.pbc[row] & ~cell[row].any(axis=1)):
                cell[row, missing] = np.linalg.svd(cell[row])[2][-1]  # normal to the others
                if np.linalg.det(cell[row]) < 0:
                    cell[row, missing] *= -1
        return self._replace(cell=cell, positions=self.positions.astype(np.float64))

    def molecule(self, number: int) -> Geometry:
        atoms = slice(self.ptr[number], self.ptr[number + 1])
        pbc = self.pbc[number]
        cell = self.cell[number] if pbc.any() else None
        return Geometry(self.numbers[atoms], self.positions[atoms], cell, pbc)

    def kinds(self) -> Array:
        """Hashes compositions and periodic directions, (B,) uint64."""
        sums = np.zeros(len(self.numbers) + 1, np.uint64)
        np.cumsum(_mixed(self.numbers.astype(np.uint64)), out=sums[1:])
        flags = self.pbc @ np.array([1, 2, 4], np.uint64)
        made: Array = _mixed(sums[self.ptr[1:]] - sums[self.ptr[:-1]]) + flags
        return made

    def keys(self, tolerance: float) -> Array:
        """Returns invariants that differ by no more than 1 where geometries agree, (B, keys).

        Of open molecules they are distances from the center, in order within each element; of
        periodic ones lengths of cell vectors and, for a few waves that fit into the cell, the
        absolute value of the structure factor and the widest gap between the phases of atoms. Where
        a cell has no volume they are NaN.
        """
        n_atoms, periodic = np.diff(self.ptr), self.pbc.any(axis=1)
        own = np.repeat(np.arange(len(n_atoms)), n_atoms)
        made = np.zeros((len(n_atoms), _N_KEYS))
        sums = np.stack([np.bincount(own, x, len(n_atoms)) for x in self.positions.T], axis=1)
        center = sums / np.maximum(n_atoms, 1)[:, None]
        far = np.linalg.norm(self.positions - center[own], axis=1)
        far = far[np.lexsort((far, self.numbers, own))]
        is_open = np.flatnonzero(~periodic & (n_atoms > 0))
        for k in range(_N_KEYS):
            at = self.ptr[is_open] + (n_atoms[is_open] - 1) * k // (_N_KEYS - 1)
            made[is_open, k] = far[at] / tolerance
        if not periodic.any():
            return _SLACK * made
        is_flat = np.linalg.det(self.cell) == 0
        cell = np.where((periodic & ~is_flat)[:, None, None], self.cell, np.eye(3))
        inverse = np.linalg.inv(cell)
        scaled = np.einsum("ni,nij->nj", self.positions, inverse[own])
        weights = np.maximum(np.bincount(own, self.numbers, len(n_atoms)), 1)
        # Cells that agree change these by this times sqrt(3) and the tolerance, relatively.
        strain = np.linalg.norm(inverse, 2, axis=(1, 2))
        made[periodic, :3] = np.linalg.norm(cell[periodic], axis=2) / tolerance
        for k, wave in enumerate(_WAVES):
            fits = periodic & (self.pbc | (wave == 0)).all(axis=1)
            reciprocal = np.linalg.norm(inverse @ wave, axis=1)
            phases = scaled @ wave % 1
            parts = [
                np.bincount(own, self.numbers * trig(2 * np.pi * phases), len(n_atoms))
                for trig in (np.cos, np.sin)
            ]
            factor = np.hypot(*parts) / weights / (2 * np.pi * (reciprocal + 0.3 * strain))
            gap = _widest_gaps(phases, own, self.ptr) / (2 * reciprocal + 1.8 * strain)
            made[fits, 3 + 2 * k] = factor[fits] / tolerance
            made[fits, 4 + 2 * k] = gap[fits] / tolerance
        made[periodic & is_flat] = np.nan
        return _SLACK * made


def _widest_gaps(phases: Array, own: Array, ptr: Array) -> Array:
    """Returns the largest distance between neighbors on a circle of length 1, (B,)."""
    widest = np.zeros(len(ptr) - 1)
    if len(phases):
        phases = np.sort(own + phases) - own  # many times faster than lexsort
        begin = ptr[:-1][np.diff(ptr) > 0]
        end = ptr[1:][np.diff(ptr) > 0]
        gaps = np.diff(phases, append=0)
        gaps[end - 1] = phases[begin] + 1 - phases[end - 1]
        widest[np.diff(ptr) > 0] = np.maximum.reduceat(gaps, begin)
    return widest


def _survey(dataset: MoleculeDataset, tolerance: float) -> tuple[Array, Array, Array]:
    """Reads all molecules.

    Returns:
        (n,) uint64 hashes of geometries; and for a tolerance above 0 also (n,) uint64, which differ
        for molecules that cannot agree, and the (n, keys) invariants.
    """
    hashes, kinds = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    keys = [np.zeros((0, _N_KEYS))]
    for part in runs(dataset.n_atoms.numpy(), _BLOCK_ATOMS, _BLOCK_MOLECULES):
        found = _Geometries.of(dataset.batch(part))
        hashes.append(geometry_hashes(*found))
        if tolerance > 0:
            found = found.completed()
            kinds.append(found.kinds())
            keys.append(found.keys(tolerance))
    return np.concatenate(hashes), np.concatenate(kinds), np.concatenate(keys)


def _join_near(
    dataset: MoleculeDataset, original: Array, kinds: Array, keys: Array, tolerance: float
) -> None:
    """Finds for each molecule that is its own original an earlier one that it agrees with.

    Each is compared with the earlier ones that agree with none, so that many molecules of one
    geometry are no more work than as many different ones.

    Args:
        dataset: all molecules.
        original: (n,) the original of each, which is updated.
        kinds: (n,) equal for molecules that may agree.
        keys: (n, keys) invariants.
        tolerance: see ``agree``.
    """
    bins = _bins(kinds, keys)
    alone = np.unique(original)
    kept = np.zeros(0, np.int64)
    n_atoms = dataset.n_atoms.numpy()

    def match(pairs: Array) -> None:
        pairs = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]
        for run in runs(n_atoms[pairs].sum(axis=1), _BLOCK_ATOMS, _BLOCK_MOLECULES):
            part = pairs[run.start : run.stop]
            part = part[(original[part] == part).all(axis=1)]
            numbers = np.unique(part)
            found = _Geometries.of(dataset.batch(numbers)).completed()
            places = np.searchsorted(numbers, part)
            for (earlier, later), (one, other) in zip(part.tolist(), places.tolist(), strict=True):
                if (
                    original[later] == later
                    and original[earlier] == earlier
                    and agree(found.molecule(one), found.molecule(other), tolerance)
                ):
                    original[later] = earlier

    for begin in range(0, len(alone), _STEP):
        new = alone[begin : begin + _STEP]
        match(_candidates(kept, new, bins, kinds, keys))
        new = new[original[new] == new]
        pairs = _candidates(new, new, bins, kinds, keys)
        match(pairs[pairs[:, 0] < pairs[:, 1]])
        kept = np.concatenate([kept, new[original[new] == new]])


def _bins(kinds: Array, keys: Array) -> Array:
    """Hashes kinds and bins of width 1 of the three keys that separate each kind best, (n, 4).

    A neighbor in key k has the hash of the first column plus the difference in column k + 1.
    """
    made = np.empty((len(kinds), 4), np.uint64)
    made[:, 1:] = _MIX
    if not len(kinds):
        return made
    order = np.argsort(kinds, kind="stable")
    is_first = np.diff(kinds[order], prepend=~kinds[order[:1]]) != 0
    starts, group = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    clean = np.nan_to_num(keys, posinf=0, neginf=0)[order]
    values = np.floor(clean).clip(-(2.0**60), 2.0**60).astype(np.int64)
    distinct = np.empty((len(starts), keys.shape[1]), np.int64)
    for k, column in enumerate(values.T):
        column = column[np.lexsort((column, group))]
        distinct[:, k] = np.add.reduceat(np.diff(column, prepend=column[0]) != 0, starts, dtype=int)
    axes = np.argsort(-distinct, axis=1, kind="stable")[:, :3]
    values = np.take_along_axis(values, axes[group], axis=1)
    made[order, 0] = kinds[order] + (values.view(np.uint64) * _MIX).sum(axis=1)
    return made


def _candidates(left: Array, right: Array, bins: Array, kinds: Array, keys: Array) -> Array:
    """Returns the pairs of molecules of two lists whose invariants agree, (m, 2)."""
    found = [np.zeros((0, 2), np.int64)]
    left = left[np.argsort(bins[left, 0])]
    hashes = bins[left, 0]
    for neighbor in _NEIGHBORS.astype(np.int64).view(np.uint64):
        wanted = bins[right, 0] + bins[right, 1:] @ neighbor
        begin = np.searchsorted(hashes, wanted)
        counts = np.searchsorted(hashes, wanted, side="right") - begin
        for run in runs(counts, _PAIRS_AT_ONCE, max(len(counts), 1)):
            n = counts[run.start : run.stop]
            rank = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
            one = left[np.repeat(begin[run.start : run.stop], n) + rank]
            other = np.repeat(right[run.start : run.stop], n)
            close = (np.abs(keys[one] - keys[other]) <= 1).all(axis=1)
            close &= kinds[one] == kinds[other]
            found.append(np.stack([one[close], other[close]], axis=1))
    return np.concatenate(found)


def geometry_hashes(numbers: Array, positions: Array, cell: Array, pbc: Array, ptr: Array) -> Array:
    """Hashes the stored geometry of each structure: elements, positions, cell, flags, in order.

    Args:
        numbers: (N,) atomic numbers.
        positions: (N, 3) floating.
        cell: (B, 3, 3), zeros without one.
        pbc: (B, 3) bool.
        ptr: (B + 1,) first atom of each structure.

    Returns:
        (B,) uint64; equal for structures whose values are equal bit for bit.
    """
    n_atoms = np.diff(ptr)
    place = np.arange(len(numbers), dtype=np.uint64) - np.repeat(ptr[:-1], n_atoms).astype(
        np.uint64
    )
    words = _bits(positions)
    mixed = _mixed(place * _MIX[1] + numbers.astype(np.uint64))
    for k in range(3):
        mixed = _mixed(mixed ^ words[:, k])
    sums = np.zeros(len(mixed) + 1, dtype=np.uint64)
    np.cumsum(mixed, out=sums[1:])
    hashes = _mixed(sums[ptr[1:]] - sums[ptr[:-1]] + n_atoms.astype(np.uint64))
    for extra in (cell, pbc):
        rows = _bits(extra.reshape(len(extra), -1))
        for k in range(rows.shape[1]):
            hashes = _mixed(hashes ^ rows[:, k])
    return hashes


def _mixed(words: Array) -> Array:
    """Scrambles 64-bit words, so that sums of them hardly ever agree by chance."""
    return random_hashes(1, words)  # 0 would keep zeros


def _bits(values: Array) -> Array:
    # float64 holds float32 exactly; adding 0.0 turns -0.0 into 0.0.
    return np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.uint64)


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
