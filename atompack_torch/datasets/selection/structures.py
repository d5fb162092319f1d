"""Names that expressions may use in addition to fields, and their values for a block."""

from __future__ import annotations

import functools

import numpy as np

from atompack_torch.batch.elements import formula, symbol
from atompack_torch.datasets.selection import operations
from atompack_torch.datasets.selection import values as v
from atompack_torch.datasets.selection.blocks import Array, Block, Field

# Name → fields that it is computed from.
DERIVED: dict[str, tuple[str, ...]] = {
    "n_atoms": (),
    "elements": (),
    "n_elements": (),
    "formula": (),
    "volume": ("cell",),
    "periodic": ("pbc",),
    "max_force": ("forces",),
    "rms_force": ("forces",),
}
_N_ELEMENTS = 256


class Structures:
    """The values of names in one block, computed when they are first used.

    Args:
        block: B molecules.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._n = len(block.ptr) - 1

    def value(self, name: str) -> v.Value:
        """Returns the value of a name; a derived one takes precedence over a field."""
        if name == "n_atoms":
            return v.Number(np.diff(self._block.ptr))
        if name == "elements":
            return v.Elements(self._counts)
        if name == "n_elements":
            return v.Number((self._counts > 0).sum(axis=1))
        if name == "formula":
            return v.Text(formulas(self._counts))
        if name == "volume":
            return self._volume()
        if name == "periodic":
            found = self._block.find("pbc")
            return v.Truth(np.zeros(self._n, bool) if found is None else _any_axis(found, self._n))
        if name in ("max_force", "rms_force"):
            return self._force(name)
        return self.field(name)

    def field(self, name: str) -> v.Value:
        """Returns the values of a field; missing everywhere if the block lacks it."""
        found = self._block.find(name)
        if found is None:
            return v.missing(self._n)
        return v.value_of(found, self._block.ptr)

    def has(self, name: str) -> v.Truth:
        """Returns the structures that have a field."""
        found = self._block.find(name)
        if found is None:
            return v.Truth(np.zeros(self._n, bool))
        return v.Truth(np.ones(self._n, bool) if found.mask is None else found.mask.astype(bool))

    @functools.cached_property
    def _counts(self) -> Array:
        return element_counts(self._block)

    def _volume(self) -> v.Number:
        found = self._block.find("cell")
        if found is None or not isinstance(found.values, np.ndarray):
            return v.Number(np.full(self._n, np.nan), np.zeros(self._n, bool))
        volumes = np.abs(np.linalg.det(found.values.astype(np.float64)))
        present = np.ones(self._n, bool) if found.mask is None else found.mask.astype(bool)
        return v.Number(volumes, present & (volumes > 0))

    def _force(self, name: str) -> v.Value:
        forces = self.field("forces")
        if isinstance(forces, v.Missing):
            return forces
        lengths = operations.norm(forces)
        if name == "max_force":
            return operations.rows_by_structure("max", lengths)
        squares = operations.arithmetic("*", lengths, lengths)
        mean = operations.rows_by_structure("mean", squares)
        thirds = operations.arithmetic("/", mean, v.Number(np.array(3.0)))
        return operations.elementwise(name, np.sqrt, thirds)


def _any_axis(pbc: Field, n: int) -> Array:
    values = np.asarray(np.asarray(pbc.values).reshape(n, -1).any(axis=1))
    return values if pbc.mask is None else values & pbc.mask


def element_counts(block: Block) -> Array:
    """Counts the atoms of each element, (B, 256)."""
    n = len(block.ptr) - 1
    owners = np.repeat(np.arange(n), np.diff(block.ptr))
    numbers = np.asarray(block.atomic_numbers).astype(np.int64)
    counts: Array = np.bincount(owners * _N_ELEMENTS + numbers, minlength=n * _N_ELEMENTS)
    return counts.reshape(n, _N_ELEMENTS)


def formulas(counts: Array) -> Array:
    """Returns formulas in Hill order, (B,) objects."""
    texts = np.empty(len(counts), object)
    for i, row in enumerate(counts):
        numbers = np.flatnonzero(row).tolist()
        texts[i] = formula({symbol(number): int(row[number]) for number in numbers})
    return texts
