"""Molecules of equal geometry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from atompack_torch.datasets.sweeping import runs

if TYPE_CHECKING:
    from atompack_torch.batch.molecule_batch import MoleculeBatch
    from atompack_torch.datasets.base import MoleculeDataset

Array = np.ndarray[Any, np.dtype[Any]]

_BLOCK_MOLECULES = 4096
_BLOCK_ATOMS = 1 << 18
_N_KEYS = 9  # coordinates by which molecules are compared before all others
_PAIRS_AT_ONCE = 1 << 20

_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def duplicate_pairs(dataset: MoleculeDataset, tolerance: float) -> Tensor:
    """Finds the molecules that repeat earlier ones; see ``MoleculeDataset.duplicates``.

    Args:
        dataset: the molecules, with their cells, as stored.
        tolerance: largest difference of a coordinate.

    Returns:
        (m, 2) int64: the earlier molecule, which repeats none, and the one that repeats it.

    Raises:
        ValueError: the tolerance is negative or not finite.
    """
    if not 0 <= tolerance < np.inf:
        raise ValueError(f"tolerance: expected a finite number from 0, got {tolerance}")
    hashes, kinds, keys = _survey(dataset)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    original = first[inverse.reshape(-1)].astype(np.int64)  # of those that are equal bit for bit
    if tolerance > 0:
        alone = np.sort(first)
        for match, later in _near_pairs(dataset, alone, kinds[alone], keys[alone], tolerance):
            # An earlier molecule that is kept; those equal to the later one repeat it, too.
            if original[match] == match and original[later] == later:
                original[later] = match
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


def _survey(dataset: MoleculeDataset) -> tuple[Array, Array, Array]:
    """Reads all molecules.

    Returns:
        (n,) uint64 hashes of geometries; (n,) uint64 hashes of them without coordinates; and (n,
        keys) a few coordinates of atoms and cells.
    """
    hashes, kinds = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
    keys = [np.zeros((0, _N_KEYS + 3))]
    for part in runs(dataset.n_atoms.numpy(), _BLOCK_ATOMS, _BLOCK_MOLECULES):
        found = _Geometries.of(dataset.batch(part))
        blank = found._replace(
            positions=np.zeros_like(found.positions), cell=np.zeros_like(found.cell)
        )
        hashes.append(geometry_hashes(*found))
        kinds.append(geometry_hashes(*blank))
        n_atoms = np.diff(found.ptr)
        own = np.zeros((len(part), _N_KEYS + 3))
        has = np.flatnonzero(n_atoms)
        for k in range(_N_KEYS // 3):
            # Atoms at even distances, so that parts that never move do not matter.
            at = found.ptr[has] + (n_atoms[has] - 1) * k // (_N_KEYS // 3 - 1)
            own[has, 3 * k : 3 * k + 3] = found.positions[at]
        own[:, _N_KEYS:] = np.einsum("bii->bi", found.cell)
        keys.append(own)
    return np.concatenate(hashes), np.concatenate(kinds), np.concatenate(keys)


def _near_pairs(
    dataset: MoleculeDataset, numbers: Array, kinds: Array, keys: Array, tolerance: float
) -> list[list[int]]:
    """Returns pairs of molecules that agree within the tolerance, in the order of the later one.

    Args:
        dataset: all molecules.
        numbers: (m,) those to compare, ascending.
        kinds: (m,) equal for molecules that may agree.
        keys: (m, keys) some of their coordinates.
        tolerance: largest difference of a coordinate.

    Returns:
        Pairs of an earlier and a later molecule.
    """
    if not len(numbers):
        return []
    by_kind = np.argsort(kinds, kind="stable")
    starts = np.flatnonzero(np.diff(kinds[by_kind], prepend=~kinds[by_kind[:1]]))
    sizes = np.diff(np.append(starts, len(kinds)))
    # The coordinate that separates the molecules of a kind best.
    spread = np.maximum.reduceat(keys[by_kind], starts) - np.minimum.reduceat(keys[by_kind], starts)
    axis = np.repeat(spread.argmax(axis=1), sizes)
    kind = np.repeat(np.arange(len(starts)), sizes)
    value = keys[by_kind, axis]
    order = np.lexsort((value, kind))
    numbers, kind, keys = numbers[by_kind[order]], kind[order], keys[by_kind[order]]
    value = value[order]
    ends = np.empty(len(value), np.int64)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        part = slice(start, start + size)
        ends[part] = start + np.searchsorted(value[part], value[part] + tolerance, side="right")
    counts = ends - np.arange(len(ends)) - 1
    n_atoms = dataset.n_atoms.numpy()
    found = [np.zeros((0, 2), np.int64)]
    for run in runs(counts, _PAIRS_AT_ONCE, len(counts)):
        n = counts[run.start : run.stop]
        left = np.repeat(np.arange(run.start, run.stop), n)
        right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(n) - n, n)
        close = (np.abs(keys[left] - keys[right]) <= tolerance).all(axis=1)
        pairs = np.sort(np.stack([numbers[left[close]], numbers[right[close]]], axis=1), axis=1)
        found.append(pairs[_agree(dataset, pairs, n_atoms, tolerance)])
    pairs = np.concatenate(found)
    in_order: list[list[int]] = pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))].tolist()
    return in_order


def _agree(dataset: MoleculeDataset, pairs: Array, n_atoms: Array, tolerance: float) -> Array:
    """Returns which pairs agree in all coordinates, (m,) bool."""
    agrees = np.zeros(len(pairs), bool)
    for part in runs(2 * n_atoms[pairs[:, 0]], _BLOCK_ATOMS, _BLOCK_MOLECULES):
        own = slice(part.start, part.stop)
        one = _Geometries.of(dataset.batch(pairs[own, 0]))
        other = _Geometries.of(dataset.batch(pairs[own, 1]))
        apart = ~(np.abs(one.positions - other.positions).max(axis=1, initial=0) <= tolerance)
        n_apart = np.concatenate([[0], np.cumsum(apart)])
        cells_agree = np.abs(one.cell - other.cell).max(axis=(1, 2)) <= tolerance
        agrees[own] = (n_apart[one.ptr[1:]] == n_apart[one.ptr[:-1]]) & cells_agree
    return agrees


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


def _bits(values: Array) -> Array:
    # float64 holds float32 exactly; adding 0.0 turns -0.0 into 0.0.
    return np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.uint64)


def _mixed(words: Array) -> Array:
    """Scrambles 64-bit words, so that sums of them hardly ever agree by chance."""
    with np.errstate(over="ignore"):
        words = words + _MIX[0]
        words = (words ^ (words >> np.uint64(30))) * _MIX[1]
        words = (words ^ (words >> np.uint64(27))) * _MIX[2]
        mixed: Array = words ^ (words >> np.uint64(31))
    return mixed
