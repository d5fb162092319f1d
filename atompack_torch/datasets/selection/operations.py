"""Operations on the values of expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from atompack_torch.batch.elements import SYMBOLS
from atompack_torch.datasets.selection.blocks import Array
from atompack_torch.datasets.selection.values import (
    Choices,
    Elements,
    Missing,
    Number,
    OperandError,
    Text,
    Truth,
    Value,
    missing,
)

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


def arithmetic(name: str, left: Value, right: Value) -> Number:
    """Computes in float64; a molecule that lacks an operand has no result."""
    for operand in (left, right):
        if not isinstance(operand, Number):
            raise OperandError(f"expected numbers around {name}, got {operand.kind}")
    assert isinstance(left, Number)
    assert isinstance(right, Number)
    for operand in (left, right):
        if isinstance(operand, Missing):
            return operand
    a, b, ptr = _aligned(left, right)
    with np.errstate(all="ignore"):
        data = _ARITHMETIC[name](a.astype(np.float64), b.astype(np.float64))
    return Number(data, _both(left, right), ptr)


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
        return _compare_texts(_COMPARE[name], left, right)
    if not (isinstance(left, Number) and isinstance(right, Number)):
        raise OperandError(f"expected operands of one kind, got {left.kind} and {right.kind}")
    a, b, ptr = _aligned(left, right)
    with np.errstate(invalid="ignore"):
        data = _COMPARE[name](a, b) & ~_is_nan(a) & ~_is_nan(b)
    return Truth(data & _rows_of(_both(left, right), ptr, data), ptr)


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
        a, b, ptr = _aligned_data(result.data, result.ptr, other.data, other.ptr)
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
    starts = value.ptr[:-1][has_rows]
    if wants_truth:
        whole = np.full(len(counts), reduce == "all")
        each = np.asarray(flat.any(axis=1) if reduce == "any" else flat.all(axis=1))
        logic: np.ufunc = np.logical_or if reduce == "any" else np.logical_and
        if len(starts):
            whole[has_rows] = logic.reduceat(each, starts)
        return Truth(whole)
    data = np.full(len(counts), 0.0 if reduce == "sum" else np.nan)
    if len(starts):
        exact = flat.astype(np.float64)
        with np.errstate(all="ignore"):
            if reduce in ("max", "min"):
                join: np.ufunc = np.maximum if reduce == "max" else np.minimum
                each = join.reduce(exact, axis=1)
                data[has_rows] = join.reduceat(each, starts)
            else:
                data[has_rows] = np.add.reduceat(exact.sum(axis=1), starts)
                if reduce == "mean":
                    data[has_rows] /= counts[has_rows]
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
    return Truth(data & _rows_of(value.present, value.ptr, data), value.ptr)


def text_test(name: str, test: Callable[[str, str], bool], value: Value, other: Value) -> Truth:
    """Tests every string with a constant one."""
    if isinstance(value, Missing):
        return _all_false(value)
    if not (isinstance(value, Text) and isinstance(other, Text) and other.data.ndim == 0):
        raise OperandError(f"{name}: expected a field of strings and a string")
    constant = other.data.item()
    return _each(value.data, lambda text: test(text, constant))


def _each(texts: Array, test: Callable[[str], bool]) -> Truth:
    found = [text is not None and test(text) for text in texts.reshape(-1).tolist()]
    return Truth(np.array(found, bool).reshape(texts.shape))


def _contains(item: Value, whole: Value, *, is_negated: bool) -> Truth:
    if isinstance(whole, Elements):
        number = _atomic_number(item)
        found = Truth(whole.counts[:, number] > 0)
        return negated(found) if is_negated else found
    if isinstance(whole, Choices):
        if isinstance(item, Text):
            return _each(item.data, lambda text: (text in whole.items) != is_negated)
        if isinstance(item, Number):
            numbers = [x for x in whole.items if not isinstance(x, str)]
            data = np.isin(item.data, np.array(numbers, np.float64)) != is_negated
            data &= ~_is_nan(item.data)
            return Truth(data & _rows_of(item.present, item.ptr, data), item.ptr)
        raise OperandError(f"expected a number or a string before in, got {item.kind}")
    if isinstance(whole, Text) and isinstance(item, Text) and item.data.ndim == 0:
        part = item.data.item()
        return _each(whole.data, lambda text: (part in text) != is_negated)
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


def _compare_texts(test: Callable[[Any, Any], Any], left: Text, right: Text) -> Truth:
    a, b = np.broadcast_arrays(left.data, right.data)
    pairs = zip(a.reshape(-1).tolist(), b.reshape(-1).tolist(), strict=True)
    found = [x is not None and y is not None and bool(test(x, y)) for x, y in pairs]
    return Truth(np.array(found, bool).reshape(a.shape))


def _both(left: Number, right: Number) -> Array | bool:
    return left.present & right.present


def _rows_of(present: Array | bool, ptr: Array | None, data: Array) -> Array | bool:
    """Repeats the mask of molecules for their rows."""
    if isinstance(present, bool) or ptr is None:
        return present
    repeated: Array = np.repeat(present, np.diff(ptr))
    return repeated.reshape(-1, *[1] * (data.ndim - 1))


def _aligned(left: Number, right: Number) -> tuple[Array, Array, Array | None]:
    return _aligned_data(left.data, left.ptr, right.data, right.ptr)


def _aligned_data(
    a: Array, a_ptr: Array | None, b: Array, b_ptr: Array | None
) -> tuple[Array, Array, Array | None]:
    """Repeats values of molecules for the rows of the other operand."""
    if a_ptr is None and b_ptr is None:
        return a, b, None
    if a_ptr is not None and b_ptr is not None:
        if not np.array_equal(a_ptr, b_ptr):
            raise OperandError("expected operands with the same rows")
    elif a_ptr is None:
        a = _for_rows(a, b, b_ptr)
    else:
        b = _for_rows(b, a, a_ptr)
    ptr = b_ptr if a_ptr is None else a_ptr
    if a.ndim != b.ndim and a.ndim and b.ndim:  # one number per row next to vectors
        a, b = (x.reshape(x.shape + (1,) * (max(a.ndim, b.ndim) - x.ndim)) for x in (a, b))
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise OperandError(f"expected equal shapes, got {a.shape[1:]} and {b.shape[1:]}") from None
    return a, b, ptr


def _for_rows(values: Array, rows: Array, ptr: Array | None) -> Array:
    if values.ndim == 0:
        return values
    assert ptr is not None
    repeated: Array = np.repeat(values, np.diff(ptr))
    return repeated.reshape(-1, *[1] * (rows.ndim - 1))


def _is_nan(data: Array) -> Array:
    result: Array = np.isnan(data) if data.dtype.kind == "f" else np.zeros(data.shape, bool)
    return result
