"""JSON of arrays, as ASE writes it, for many structures at a time."""

from __future__ import annotations

import importlib
import json
from itertools import pairwise
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array


def array_text(dtype: object, shape: tuple[int, ...], numbers: str) -> str:
    """Returns ASE's JSON of an array.

    Args:
        dtype: type of its values.
        shape: its shape.
        numbers: its values, separated by commas.

    Returns:
        The text of an object ``__ndarray__``.
    """
    return f'{{"__ndarray__": [[{", ".join(map(str, shape))}], "{dtype}", [{numbers}]]}}'


def number_texts(values: Array, offsets: Array) -> list[str]:
    """Writes the numbers of several arrays, by the shortest digits that are read as the same value.

    Args:
        values: (n,) booleans, integers or floats.
        offsets: (B + 1,) the i-th array has the values from ``offsets[i]`` to ``offsets[i + 1]``.

    Returns:
        B texts: numbers separated by commas.
    """
    is_worth_it = len(offsets) > 2 and values.dtype.kind in "iuf"  # calls cost more than numbers
    texts = _joined(values, offsets) if is_worth_it else None
    if texts is None:
        return [_plain(values[first:last]) for first, last in pairwise(offsets.tolist())]
    for i in _with_odd_numbers(values, offsets):
        texts[i] = _plain(values[offsets[i] : offsets[i + 1]])
    return texts


def _plain(values: Array) -> str:
    return json.dumps(values.tolist())[1:-1]


def _joined(values: Array, offsets: Array) -> list[str] | None:
    """Writes all values in one call; None if that is impossible."""
    try:
        pa: Any = importlib.import_module("pyarrow")
        pc: Any = importlib.import_module("pyarrow.compute")
    except ImportError:  # it only makes writing faster
        return None
    if len(values) > np.iinfo(np.int32).max // 32:  # offsets into the text have 32 bits
        return None
    if values.dtype == np.float16:
        values = values.astype(np.float64)
    numbers = pc.cast(pa.array(values), pa.string())
    if values.dtype == np.float32:  # its texts must give the same value by way of float64
        read = pc.cast(numbers, pa.float64()).to_numpy().astype(np.float32)
        is_same = np.array_equal(read, values, equal_nan=True)
        numbers = numbers if is_same else pc.cast(pa.array(values.astype(np.float64)), pa.string())
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), numbers)
    joined: list[str] = pc.binary_join(lists, ",").to_pylist()
    return joined


def _with_odd_numbers(values: Array, offsets: Array) -> list[int]:
    """Indices of arrays with NaN, infinities or -0, whose short forms are no JSON or read as 0."""
    if values.dtype.kind != "f":
        return []
    odd = ~np.isfinite(values) | ((values == 0) & np.signbit(values))
    if not odd.any():
        return []
    found = np.searchsorted(offsets, np.flatnonzero(odd), side="right") - 1
    return [int(i) for i in np.unique(found)]
