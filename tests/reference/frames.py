"""Columns taken apart: one plain dict a molecule, to compare readers and writers by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Column, Columns
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, BUILTINS

POSITIONS = (BUILTIN, "positions")
NUMBERS = (BUILTIN, "atomic_numbers")

Frame = dict[tuple[int, str], Any]


def frames_of(blocks: Iterable[Columns]) -> list[Frame]:
    """(scope, key) -> value of each molecule, without what is absent."""
    return [_frame(block, i) for block in blocks for i in range(len(block.ptr) - 1)]


def _frame(block: Columns, i: int) -> Frame:
    rows = slice(block.ptr[i], block.ptr[i + 1])
    frame: Frame = {POSITIONS: block.positions[rows], NUMBERS: block.atomic_numbers[rows]}
    for column in block.fields:
        if column.mask is None or column.mask[i]:
            frame[column.scope, column.key] = _value(column, i, rows)
    return frame


def _value(column: Column, i: int, rows: slice) -> Any:
    per_atom = column.scope == ATOM_PROPERTY or (
        column.scope == BUILTIN and BUILTINS[column.key].level == "atom"
    )
    stacked = isinstance(column.values, np.ndarray)
    return column.values[rows] if stacked and per_atom else column.values[i]


def same(a: Any, b: Any) -> bool:
    """Equal in kind, shape and every bit of every value; any NaN equals any other."""
    if a is None or b is None or isinstance(a, str) or isinstance(b, str):
        return bool(type(a) is type(b) and a == b)
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        signs = np.signbit(np.nan_to_num(a)) == np.signbit(np.nan_to_num(b))
        return bool(np.array_equal(a, b, equal_nan=True) and signs.all())
    kinds = {a.dtype.kind, b.dtype.kind}
    return bool((len(kinds) == 1 or kinds <= {"i", "u"}) and np.array_equal(a, b))


def assert_same(got: Frame, expected: Frame) -> None:
    """The same keys with the same values."""
    assert got.keys() == expected.keys()
    for field, value in expected.items():
        assert same(got[field], value), (field, got[field], value)
