"""Values of expressions for a block of molecules, and operations on them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.datasets.selection.blocks import Array


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


_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "**": np.power,
}
# What joins two rows, and the result without any.
_REDUCTIONS: dict[str, tuple[np.ufunc, bool | float]] = {
    "max": (np.maximum, np.nan),
    "min": (np.minimum, np.nan),
    "mean": (np.add, np.nan),
    "sum": (np.add, 0.0),
    "any": (np.logical_or, False),
    "all": (np.logical_and, True),
}


def arithmetic(name: str, left: Value, right: Value) -> Number:
    """Computes in float64; a molecule that lacks an operand has no result."""
    if not (isinstance(left, Number) and isinstance(right, Number)):
        other = right if isinstance(left, Number) else left
        raise OperandError(f"expected numbers around {name}, got {other.kind}")
    for operand in (left, right):
        if isinstance(operand, Missing):
            return operand
    a, b, ptr = _aligned(left, right)
    with np.errstate(all="ignore"):
        data = _ARITHMETIC[name](a.astype(np.float64), b.astype(np.float64))
    return Number(data, left.present & right.present, ptr)


def compare(name: str, left: Value, right: Value) -> Truth:
    """Compares two values; False where one is missing or NaN."""
    for operand in (left, right):
        if isinstance(operand, Missing):
            return _all_false(operand)
    if name in ("in", "not in"):
        return _contains(left, right, is_negated=name == "not in")
    if isinstance(left, Elements) or isinstance(right, Elements):
        return _compare_elements(name, left, right)
    if isinstance(left, Text) and isinstance(right, Text):
        return _each(_COMPARE[name], left.data, right.data)
    if not (isinstance(left, Number) and isinstance(right, Number)):
        raise OperandError(f"expected operands of one kind, got {left.kind} and {right.kind}")
    a, b, ptr = _aligned(left, right)
    with np.errstate(invalid="ignore"):
        data = _COMPARE[name](a, b) & ~_is_nan(a) & ~_is_nan(b)
    return Truth(data & _for_rows(left.present & right.present, data, ptr), ptr)


def _all_false(operand: Missing) -> Truth:
    return Truth(np.zeros(len(operand.data), bool), is_missing=True)


def compare_all(names: Sequence[str], *sides: Value) -> Truth:
    """Compares neighbors, as in ``2 < n_atoms <= 4``."""
    pairs = zip(names, sides, sides[1:], strict=False)
    return logical("and", *(compare(name, left, right) for name, left, right in pairs))


def logical(name: str, *values: Value) -> Truth:
    """Joins conditions with ``and`` or ``or``."""
    result = _condition(values[0], name)
    for value in values[1:]:
        other = _condition(value, name)
        a, b, ptr = _aligned(result, other)
        result = Truth(a & b if name == "and" else a | b, ptr)
    return result


def negated(value: Value) -> Truth:
    """Inverts a condition."""
    condition = _condition(value, "not")
    return Truth(~condition.data, condition.ptr)


def _condition(value: Value, name: str) -> Truth:
    if not isinstance(value, Truth):
        raise OperandError(f"{name}: expected a condition, got {value.kind}")
    return value


def rows_by_structure(reduce: str, value: Value) -> Value:
    """Reduces rows to one value per molecule; one without rows has 0, False, True or no value.

    Args:
        reduce: ``"max"``, ``"min"``, ``"mean"``, ``"sum"``, ``"any"`` or ``"all"``.
        value: rows.

    Returns:
        Numbers or conditions (B,).

    Raises:
        OperandError: the value has no rows, or is of a different kind.
    """
    wants_truth = reduce in ("any", "all")
    if isinstance(value, Missing) and not wants_truth:
        return value
    if isinstance(value, Truth) and value.is_missing:
        n = len(value.data)
        return value if wants_truth else missing(n)
    if not isinstance(value, Truth if wants_truth else (Number, Truth)) or value.ptr is None:
        expected = "conditions" if wants_truth else "numbers"
        raise OperandError(f"{reduce}: expected several {expected} per molecule, got {value.kind}")
    flat = value.data.reshape(len(value.data), -1)
    counts = np.diff(value.ptr) * flat.shape[1]
    has_rows = counts > 0
    join, empty = _REDUCTIONS[reduce]
    data = np.full(len(counts), empty)
    if has_rows.any():
        with np.errstate(all="ignore"):
            each = join.reduce(flat if wants_truth else flat.astype(np.float64), axis=1)
            data[has_rows] = join.reduceat(each, value.ptr[:-1][has_rows])
            if reduce == "mean":
                data[has_rows] /= counts[has_rows]
    if wants_truth:
        return Truth(data)
    present = True if isinstance(value, Truth) else value.present
    return Number(data, present if reduce == "sum" else present & has_rows)


def norm(value: Value) -> Number:
    """Returns the lengths of vectors: one per row, or one per structure."""
    if isinstance(value, Missing):
        return value
    if not isinstance(value, Number) or value.data.ndim < 2:
        raise OperandError(f"norm: expected vectors, got {value.kind}")
    return Number(np.linalg.norm(value.data.astype(np.float64), axis=-1), value.present, value.ptr)


def elementwise(name: str, function: Callable[[Any], Any], value: Value) -> Number:
    """Applies a function to every number, in float64."""
    if not isinstance(value, Number):
        raise OperandError(f"{name}: expected numbers, got {value.kind}")
    if isinstance(value, Missing):
        return value
    with np.errstate(all="ignore"):
        return Number(function(value.data.astype(np.float64)), value.present, value.ptr)


def is_nan(value: Value) -> Truth:
    """True for stored values that are NaN, not for missing ones."""
    if not isinstance(value, Number):
        raise OperandError(f"isnan: expected numbers, got {value.kind}")
    if isinstance(value, Missing):
        return _all_false(value)
    data = _is_nan(value.data)
    return Truth(data & _for_rows(value.present, data, value.ptr), value.ptr)


def text_test(name: str, test: Callable[[str, str], bool], value: Value, other: Value) -> Truth:
    """Tests every string with a constant one."""
    if isinstance(value, Missing):
        return _all_false(value)
    if not (isinstance(value, Text) and isinstance(other, Text) and other.data.ndim == 0):
        raise OperandError(f"{name}: expected a field of strings and a string")
    return _each(test, value.data, other.data)


def _each(test: Callable[..., Any], *texts: Array) -> Truth:
    """Tests strings, or pairs of them; False where one is missing."""
    aligned = np.broadcast_arrays(*texts)
    rows = zip(*(each.reshape(-1).tolist() for each in aligned), strict=True)
    found = [None not in row and bool(test(*row)) for row in rows]
    return Truth(np.array(found, bool).reshape(aligned[0].shape))


def _contains(item: Value, whole: Value, *, is_negated: bool) -> Truth:
    if isinstance(whole, Elements):
        number = _atomic_number(item)
        found = Truth(whole.counts[:, number] > 0)
        return negated(found) if is_negated else found
    if isinstance(whole, Choices):
        if isinstance(item, Text):
            return _each(lambda text: (text in whole.items) != is_negated, item.data)
        if isinstance(item, Number):
            numbers = [x for x in whole.items if not isinstance(x, str)]
            if item.data.dtype.kind == "f":
                held = [x for x in numbers if abs(x) <= sys.float_info.max or x in (inf, -inf)]
                choices = np.array(held, np.float64)
            else:  # float64 would round large ones
                held = [int(x) for x in numbers if -(2**63) <= x < 2**63 and x == int(x)]
                choices = np.array(held, np.int64)
            data = np.isin(item.data, choices) != is_negated
            data &= ~_is_nan(item.data)
            return Truth(data & _for_rows(item.present, data, item.ptr), item.ptr)
        raise OperandError(f"expected a number or a string before in, got {item.kind}")
    if isinstance(whole, Text) and isinstance(item, Text) and item.data.ndim == 0:
        return _each(lambda text, part: (part in text) != is_negated, whole.data, item.data)
    raise OperandError(f"expected elements, a string or a set after in, got {whole.kind}")


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _compare_elements(name: str, left: Value, right: Value) -> Truth:
    if not isinstance(left, Elements):
        left, right, name = right, left, _MIRRORED.get(name, name)
    if not isinstance(left, Elements) or not isinstance(right, Choices):
        raise OperandError(f"expected elements and a set such as {{'H', 'O'}}, got {right.kind}")
    wanted = np.zeros(left.counts.shape[1], bool)
    for item in right.items:
        constant = Text(np.array(item, object)) if isinstance(item, str) else Number(np.array(item))
        wanted[_atomic_number(constant)] = True
    has = left.counts > 0
    is_subset = np.asarray((has <= wanted).all(axis=1))
    is_superset = np.asarray((has >= wanted).all(axis=1))
    same = is_subset & is_superset
    results = {"==": same, "!=": ~same, "<=": is_subset, ">=": is_superset}
    results |= {"<": is_subset & ~same, ">": is_superset & ~same}
    return Truth(results[name])


def _atomic_number(item: Value) -> int:
    if isinstance(item, Text) and item.data.ndim == 0:
        name = item.data.item()
        if name not in SYMBOLS or not SYMBOLS.index(name):
            raise OperandError(f"expected the symbol of an element, got {name!r}")
        return SYMBOLS.index(name)
    if isinstance(item, Number) and item.data.ndim == 0:
        number = float(item.data)
        if 0 < number < 256 and number == int(number):
            return int(number)
        raise OperandError(f"expected an atomic number, got {number:g}")
    raise OperandError(f"expected the symbol of an element such as 'Fe', got {item.kind}")


def count_of(elements: Value, item: Value) -> Number:
    """Returns the number of atoms of one element."""
    assert isinstance(elements, Elements)
    return Number(elements.counts[:, _atomic_number(item)])


def _aligned(left: Number | Truth, right: Number | Truth) -> tuple[Array, Array, Array | None]:
    """Repeats values of molecules for the rows of the other operand."""
    a, b, ptr = left.data, right.data, right.ptr if left.ptr is None else left.ptr
    if ptr is None:
        return a, b, None
    if left.ptr is None:
        a = _for_rows(a, b, ptr)
    elif right.ptr is None:
        b = _for_rows(b, a, ptr)
    elif not np.array_equal(left.ptr, right.ptr):
        raise OperandError("expected operands with the same rows")
    if a.ndim != b.ndim and a.ndim and b.ndim:  # one number per row next to vectors
        a, b = (x.reshape(x.shape + (1,) * (max(a.ndim, b.ndim) - x.ndim)) for x in (a, b))
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise OperandError(f"expected equal shapes, got {a.shape[1:]} and {b.shape[1:]}") from None
    return a, b, ptr


def _for_rows(values: Any, rows: Array, ptr: Array | None) -> Any:
    """Repeats values of molecules, unless they are one constant, for their rows."""
    if ptr is None or np.ndim(values) == 0:
        return values
    return np.repeat(values, np.diff(ptr)).reshape(-1, *[1] * (rows.ndim - 1))


def _is_nan(data: Array) -> Array:
    result: Array = np.isnan(data) if data.dtype.kind == "f" else np.zeros(data.shape, bool)
    return result
