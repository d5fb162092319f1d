"""Blocks of single structures with one array per field, where their types and shapes agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.formats.records import blocks, is_per_atom

_BLOCK_STRUCTURES = 1024


def stacked_blocks(records: Iterable[Parts]) -> Iterator[Columns]:
    """Groups structures into blocks of bounded size, with one array for each uniform field."""
    return map(stacked, blocks(records, _BLOCK_STRUCTURES))


def stacked(columns: Columns) -> Columns:
    """Converts fields with a list of values of one type and shape to arrays.

    Args:
        columns: a block.

    Returns:
        The block; missing values in the new arrays are zeros, and masked.
    """
    counts = np.diff(columns.ptr)
    return columns._replace(fields=[_stacked(column, counts) for column in columns.fields])


def _stacked(column: Column, counts: Array) -> Column:
    if isinstance(column.values, np.ndarray):
        return column
    mask = np.ones(len(counts), dtype=bool) if column.mask is None else column.mask
    present: list[Any] = [v for v, has in zip(column.values, mask.tolist(), strict=True) if has]
    if not present or not all(type(value) is np.ndarray for value in present):
        return column
    per_atom = is_per_atom(column)
    forms = {(value.dtype, value.shape[per_atom:]) for value in present}
    if len(forms) != 1 or (per_atom and [*map(len, present)] != counts[mask].tolist()):
        return column
    whole = np.concatenate(present) if per_atom else np.stack(present)
    if mask.all():
        return column._replace(values=whole, mask=None)
    ((dtype, shape),) = forms
    values = np.zeros((int(counts.sum()) if per_atom else len(counts), *shape), dtype=dtype)
    values[np.repeat(mask, counts) if per_atom else mask] = whole
    return column._replace(values=values)
