"""Column scans the slow and obvious way: slice each dataset, then stack or concatenate in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from reference.compare import assert_same


@dataclass
class Expected:
    """The parts of a ``ColumnScan``."""

    values: Any
    offsets: torch.Tensor | None
    mask: torch.Tensor


def sliced(value: Any, start: Sequence[int] | None, shape: Sequence[int] | None) -> Any:
    """The slice of one dataset, clamped to its extent."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        return value[box(tuple(value.shape), start, shape)].clone()
    if isinstance(value, str):
        return value
    strings = np.array(value, object)
    return strings[box(strings.shape, start, shape)].tolist()


def box(
    extents: Sequence[int], start: Sequence[int] | None, shape: Sequence[int] | None
) -> tuple[slice, ...]:
    """Python's own slices clamp as ours do."""
    first = [0] * len(extents) if start is None else start
    count = extents if shape is None else shape
    return tuple(slice(f, f + c) for f, c in zip(first, count, strict=True))


def scan(
    column: Sequence[Any],
    start: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
    layout: str = "stacked",
    dtype: torch.dtype | None = None,
) -> Expected:
    """What a scan over these values should give; None: the dataset does not have the array."""
    rows = [sliced(value, start, shape) for value in column]
    mask = torch.tensor([row is not None for row in rows], dtype=torch.bool)
    if dtype is not None:
        rows = [None if row is None else row.to(dtype) for row in rows]
    if layout == "list":
        return Expected(rows, None, mask)
    present = [row for row in rows if row is not None]
    if not present or isinstance(present[0], torch.Tensor):
        return joined(rows, present, layout, mask)
    if layout == "stacked":
        return Expected(rows, None, mask)
    flat = [value for row in present for value in row]
    return Expected(flat, _offsets(rows), mask)


def joined(
    rows: Sequence[Any], present: Sequence[torch.Tensor], layout: str, mask: torch.Tensor
) -> Expected:
    """Numbers, stacked or one after another."""
    if layout == "jagged":
        return Expected(torch.cat(list(present)), _offsets(rows), mask)
    missing = torch.zeros_like(present[0])
    if missing.is_floating_point():
        missing.fill_(torch.nan)
    return Expected(torch.stack([missing if r is None else r for r in rows]), None, mask)


def _offsets(rows: Sequence[Any]) -> torch.Tensor:
    lengths = [0 if row is None else len(row) for row in rows]
    return torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int64)


def assert_scan(got: Any, expected: Expected, what: str = "column") -> None:
    """A ``ColumnScan`` holds exactly this."""
    assert_same(got.mask, expected.mask, f"mask of {what}")
    assert (got.offsets is None) == (expected.offsets is None)
    if expected.offsets is not None:
        assert_same(got.offsets, expected.offsets, f"offsets of {what}")
    assert_same(got.values, expected.values, what)
