"""Molecules of equal geometry."""

from __future__ import annotations

from collections.abc import Iterator
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
    kinds, keys = _survey(dataset, exact=tolerance == 0)
    if tolerance == 0:
        pairs = _equal(kinds)
    else:
        pairs = _first_matches(len(kinds), _near(dataset, kinds, keys, tolerance))
    return torch.from_numpy(pairs[np.argsort(pairs[:, 1], kind="stable")])


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


def _survey(dataset: MoleculeDataset, *, exact: bool) -> tuple[Array, Array]:
    """Hashes all molecules, without positions and cells unless ``exact``.

    Returns:
        (n,) uint64 hashes, and (n, keys) first coordinates of atoms and cells.
    """
    hashes, keys = [np.zeros(0, np.uint64)], [np.zeros((0, _N_KEYS + 3))]
    for batch in _batches(dataset):
        found = _Geometries.of(batch)
        if exact:
            hashes.append(geometry_hashes(*found))
            continue
        blank = found._replace(
            positions=np.zeros_like(found.positions), cell=np.zeros_like(found.cell)
        )
        hashes.append(geometry_hashes(*blank))
        n_atoms = np.diff(found.ptr)
        first = np.zeros((len(batch), _N_KEYS + 3))
        for k in range(_N_KEYS // 3):
            # Atoms at even distances, so that parts that never move do not matter.
            has = np.flatnonzero(n_atoms)
            at = found.ptr[has] + (n_atoms[has] - 1) * k // max(_N_KEYS // 3 - 1, 1)
            first[has, 3 * k : 3 * k + 3] = found.positions[at]
        first[:, _N_KEYS:] = np.einsum("bii->bi", found.cell)
        keys.append(first)
    return np.concatenate(hashes), np.concatenate(keys)


def _batches(dataset: MoleculeDataset) -> Iterator[MoleculeBatch]:
    for part in runs(dataset.n_atoms.numpy(), _BLOCK_ATOMS, _BLOCK_MOLECULES):
        yield dataset.batch(part)


def _equal(hashes: Array) -> Array:
    """Returns the first molecule with each hash, with all later ones."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    firsts = first[inverse.reshape(-1)]
    later = np.flatnonzero(firsts != np.arange(len(hashes)))
    return np.stack([firsts[later], later], axis=1).astype(np.int64)


def _near(dataset: MoleculeDataset, kinds: Array, keys: Array, tolerance: float) -> Iterator[Array]:
    """Yields (m, 2) pairs of molecules of one kind that agree within the tolerance."""
    order = np.argsort(kinds, kind="stable")
    bounds = np.flatnonzero(np.diff(kinds[order])) + 1
    for alike in np.split(order, bounds):
        if len(alike) < 2:
            continue
        own = keys[alike]
        axis = int(np.argmax(np.ptp(own, axis=0)))  # that separates them best
        alike, own = alike[np.argsort(own[:, axis])], own[np.argsort(own[:, axis])]
        ends = np.searchsorted(own[:, axis], own[:, axis] + tolerance, side="right")
        counts = ends - np.arange(len(own)) - 1
        for part in runs(counts, _PAIRS_AT_ONCE, len(counts)):
            n = counts[part.start : part.stop]
            left = np.repeat(np.arange(part.start, part.stop), n)
            right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(n) - n, n)
            close = (np.abs(own[left] - own[right]) <= tolerance).all(axis=1)
            yield _confirmed(dataset, alike[left[close]], alike[right[close]], tolerance)


def _confirmed(dataset: MoleculeDataset, left: Array, right: Array, tolerance: float) -> Array:
    """Returns those pairs that agree in all coordinates."""
    sizes = dataset.n_atoms.numpy()[left]
    kept = [np.zeros((0, 2), np.int64)]
    for part in runs(2 * sizes, _BLOCK_ATOMS, _BLOCK_MOLECULES):
        pair = slice(part.start, part.stop)
        one = _Geometries.of(dataset.batch(left[pair]))
        other = _Geometries.of(dataset.batch(right[pair]))
        apart = np.abs(one.positions - other.positions).max(axis=1, initial=0) > tolerance
        n_apart = np.concatenate([[0], np.cumsum(apart)])
        agrees = n_apart[one.ptr[1:]] == n_apart[one.ptr[:-1]]
        agrees &= np.abs(one.cell - other.cell).max(axis=(1, 2)) <= tolerance
        kept.append(np.stack([left[pair][agrees], right[pair][agrees]], axis=1))
    return np.concatenate(kept)


def _first_matches(n: int, pairs: Iterator[Array]) -> Array:
    """Returns, for each molecule that agrees with an earlier one that is kept, the first such."""
    found = np.concatenate([np.zeros((0, 2), np.int64), *pairs])
    found = np.sort(found, axis=1)
    found = found[np.lexsort((found[:, 0], found[:, 1]))]
    is_dropped = np.zeros(n, bool)
    made = []
    for first, later in found.tolist():
        if not is_dropped[first] and not is_dropped[later]:
            is_dropped[later] = True
            made.append((first, later))
    return np.array(made, np.int64).reshape(-1, 2)


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
