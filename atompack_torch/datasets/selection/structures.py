"""Names that expressions may use in addition to fields, and their values for a block."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from atompack_torch.batch.elements import formula, symbol
from atompack_torch.datasets.selection import operations
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

    def value(self, name: str) -> operations.Value:
        """Returns the value of a name; a derived one takes precedence over a field."""
        if name == "n_atoms":
            return operations.Number(np.diff(self._block.ptr))
        if name == "elements":
            return operations.Elements(self._counts)
        if name == "n_elements":
            return operations.Number((self._counts > 0).sum(axis=1))
        if name == "formula":
            return operations.Text(formulas(self._counts))
        if name == "volume":
            return self._volume()
        if name == "periodic":
            found = self._block.find("pbc")
            if found is None:
                return operations.Truth(np.zeros(self._n, bool))
            axes = np.asarray(found.values).reshape(self._n, -1)
            return operations.Truth(np.asarray(axes.any(axis=1)) & found.present(self._n))
        if name in ("max_force", "rms_force"):
            return self._force(name)
        return self.field(name)

    def field(self, name: str) -> operations.Value:
        """Returns the values of a field; missing everywhere if the block lacks it."""
        found = self._block.find(name)
        if found is None:
            return operations.missing(self._n)
        return _value_of(found, self._block.ptr, self._n)

    def has(self, name: str) -> operations.Truth:
        """Returns the structures that have a field."""
        found = self._block.find(name)
        return operations.Truth(
            np.zeros(self._n, bool) if found is None else found.present(self._n)
        )

    @functools.cached_property
    def _counts(self) -> Array:
        return element_counts(self._block)

    def _volume(self) -> operations.Number:
        found = self._block.find("cell")
        if found is None or not isinstance(found.values, np.ndarray):
            return operations.Number(np.full(self._n, np.nan), np.zeros(self._n, bool))
        volumes = np.abs(np.linalg.det(found.values.astype(np.float64)))
        return operations.Number(volumes, found.present(self._n) & (volumes > 0))

    def _force(self, name: str) -> operations.Value:
        forces = self.field("forces")
        if isinstance(forces, operations.Missing):
            return forces
        lengths = operations.norm(forces)
        if name == "max_force":
            return operations.rows_by_structure("max", lengths)
        squares = operations.arithmetic("*", lengths, lengths)
        mean = operations.rows_by_structure("mean", squares)
        thirds = operations.arithmetic("/", mean, operations.Number(np.array(3.0)))
        return operations.elementwise(name, np.sqrt, thirds)


def _value_of(field: Field, ptr: Array, n: int) -> operations.Number | operations.Text:
    """Returns numbers or strings; ``ptr``: index of the first atom of each molecule."""
    present = field.present(n)
    if isinstance(field.values, np.ndarray):
        rows = None if field.values.ndim == 1 else np.arange(n + 1)
        return operations.Number(field.values, present, ptr if field.is_per_atom else rows)
    values = [value if has else None for value, has in zip(field.values, present, strict=True)]
    if all(value is None or isinstance(value, str) for value in values):
        texts = np.empty(n, object)
        texts[:] = values
        return operations.Text(texts)
    return _of_jagged(values, np.diff(ptr) if field.is_per_atom else None)


def _of_jagged(values: list[Any], n_atoms: Array | None) -> operations.Number:
    """Returns rows of numbers from arrays of different shapes."""
    present = np.array([isinstance(value, np.ndarray) for value in values])
    arrays = [
        value if isinstance(value, np.ndarray) else np.zeros((0,), np.float64) for value in values
    ]
    scalars = [array for array, has in zip(arrays, present, strict=True) if has]
    if n_atoms is None and all(array.ndim == 0 for array in scalars):
        data = np.full(len(values), np.nan)
        data[present] = scalars
        return operations.Number(data, present)
    rows = [array.reshape(-1) for array in arrays]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return operations.Number(np.concatenate(rows), present, ptr)


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
