"""Values of expressions for a block of structures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from atompack_torch.datasets.selection.blocks import Array, Field


class OperandError(Exception):
    """An operation does not suit its operands; the expression adds the position."""


@dataclass
class Number:
    """Numbers: a constant (), one per molecule (B,), or rows of molecules (R, ...).

    Attributes:
        data: the numbers.
        present: (B,) bool, False for molecules without them; True: all have them.
        ptr: (B + 1,) first row of each molecule; None: there are no rows.
    """

    data: Array
    present: Array | bool = True
    ptr: Array | None = None

    kind = "a number"


class Missing(Number):
    """Values of any type that no molecule of the block has: NaN (B,)."""


def missing(n: int) -> Missing:
    """Returns the values of a field that none of ``n`` molecules has."""
    return Missing(np.full(n, np.nan), np.zeros(n, bool))


@dataclass
class Truth:
    """Conditions: one per molecule (B,), a constant (), or rows of molecules (R, ...).

    Attributes:
        data: the conditions.
        ptr: (B + 1,) first row of each molecule; None: there are no rows.
        is_missing: True if they are False because no molecule has the values.
    """

    data: Array
    ptr: Array | None = None
    is_missing: bool = False

    kind = "a condition"


@dataclass
class Text:
    """Strings: one per molecule, (B,) objects, None where there is none; or a constant ()."""

    data: Array

    kind = "a string"


@dataclass
class Choices:
    """A constant set of numbers or of strings."""

    items: frozenset[Any]

    kind = "a set"


@dataclass
class Elements:
    """Numbers of atoms by element, (B, 256)."""

    counts: Array

    kind = "elements"


Value = Number | Truth | Text | Choices | Elements


def value_of(field: Field, ptr: Array) -> Number | Text:
    """Returns the values of a field.

    Args:
        field: the field.
        ptr: (B + 1,) index of the first atom of each molecule.

    Returns:
        Numbers or strings.
    """
    n = len(ptr) - 1
    present = np.ones(n, bool) if field.mask is None else np.asarray(field.mask, bool)
    if isinstance(field.values, np.ndarray):
        if field.is_per_atom:
            return Number(field.values, present, ptr)
        return Number(field.values, present, None if field.values.ndim == 1 else np.arange(n + 1))
    values = [value if has else None for value, has in zip(field.values, present, strict=True)]
    if all(value is None or isinstance(value, str) for value in values):
        texts = np.empty(n, object)
        texts[:] = values
        return Text(texts)
    return _of_jagged(values, np.diff(ptr) if field.is_per_atom else None)


def _of_jagged(values: list[Any], n_atoms: Array | None) -> Number:
    """Returns rows of numbers from arrays of different shapes."""
    present = np.array([isinstance(value, np.ndarray) for value in values])
    arrays = [
        value if isinstance(value, np.ndarray) else np.zeros((0,), np.float64) for value in values
    ]
    scalars = [array for array, has in zip(arrays, present, strict=True) if has]
    if n_atoms is None and all(array.ndim == 0 for array in scalars):
        data = np.full(len(values), np.nan)
        data[present] = scalars
        return Number(data, present)
    rows = [array.reshape(-1) for array in arrays]
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return Number(np.concatenate(rows), present, ptr)
