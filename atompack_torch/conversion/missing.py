"""Treatment of all-NaN labels, by which some collections mark values not computed."""

from __future__ import annotations

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.fields import BUILTIN
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import is_per_atom


class MaskNan(Stage):
    """Marks labels as missing in molecules where all their values are NaN, and counts them.

    Labels with only some NaN values are counted; they and custom properties stay.
    """

    def apply(self, columns: Columns, run: Run) -> Columns:
        """Masks the labels of a block, which have their standard shapes."""
        report = run.block_report
        fields = [_without_nan(column, columns.ptr, report) for column in columns.fields]
        if all(new is old for new, old in zip(fields, columns.fields, strict=True)):
            return columns
        return columns._replace(fields=[column for column in fields if column is not None])


def _without_nan(column: Column, ptr: Array, report: Report) -> Column | None:
    if column.scope != BUILTIN:
        return column
    counts = _nan_counts(column, ptr)
    if counts is None:
        return column
    n_nan, n_values = counts
    mask = np.ones(len(ptr) - 1, dtype=bool) if column.mask is None else column.mask
    partly = mask & (n_nan > 0) & (n_nan < n_values)
    if partly.any():
        report.partly_nan[column.key] += int(partly.sum())
    whole = mask & (n_nan > 0) & (n_nan == n_values)
    if not whole.any():
        return column
    report.nan_as_missing[column.key] += int(whole.sum())
    kept = mask & ~whole
    return column._replace(mask=kept) if kept.any() else None


def _nan_counts(column: Column, ptr: Array) -> tuple[Array, Array] | None:
    """Counts NaN values (B,) and all values (B,) per structure; None if nothing is NaN."""
    values, n = column.values, len(ptr) - 1
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "f" or not np.isnan(values).any():
            return None
        rows = np.isnan(values).reshape(len(values), -1)
        width = rows.shape[1]
        if not is_per_atom(column):
            return rows.sum(axis=1), np.full(n, width)
        sums = np.concatenate([[0], np.cumsum(rows.sum(axis=1))])
        return sums[ptr[1:]] - sums[ptr[:-1]], np.diff(ptr) * width
    if {*map(type, values)} <= {str, type(None)}:
        return None
    arrays = [
        value if isinstance(value, np.ndarray) and value.dtype.kind == "f" else np.zeros(0)
        for value in values
    ]
    n_nan = np.array([np.isnan(array).sum() for array in arrays])
    return (n_nan, np.array([array.size for array in arrays])) if n_nan.any() else None
