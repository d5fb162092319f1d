"""HTML of column scans for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from atompack_torch.display.charts import Series, bins_of, histogram, meter
from atompack_torch.display.fragments import fragment
from atompack_torch.display.markup import Markup, percent, short, table

if TYPE_CHECKING:
    from atompack_torch.formats.atlas_store.column_scan import ColumnScan

_MOST_DATASETS, _MOST_VALUES = 8, 100_000


def scan_html(scan: ColumnScan, layout: str, values: str) -> str:
    """Returns the coverage of a scan, the names of some datasets, and a histogram.

    Args:
        scan: the scan.
        layout: name of its layout.
        values: its values in words.

    Returns:
        The HTML.
    """
    n, there = len(scan.mask), int(scan.mask.sum())
    names = ", ".join(short(name, 40) for name in scan.datasets[:_MOST_DATASETS])
    names += ", …" if n > _MOST_DATASETS else ""
    rows: list[tuple[object, object]] = [
        ("layout", layout),
        ("values", values),
        ("datasets with the array", meter(there, n, f"{percent(there, n)} ({there:,})")),
        ("datasets", names),
    ]
    return fragment("ColumnScan", f"{n:,} datasets", table((), rows), _histogram(scan))


def _histogram(scan: ColumnScan) -> Markup:
    if not isinstance(scan.values, Tensor) or scan.values.dtype == torch.bool:
        return Markup()
    flat = scan.values.flatten()
    flat = flat[:: max(1, -(-len(flat) // _MOST_VALUES))].double()
    finite = flat[flat.isfinite()]
    if len(finite) < 2:
        return Markup()
    low, high = finite.aminmax()
    edges = bins_of(low.item(), high.item(), 40)
    counts = torch.histc(finite, 40, edges[0], edges[-1]).long().tolist()
    return histogram(edges, [Series("", counts)], label="values", unit="values")
