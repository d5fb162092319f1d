"""Scans of one array of many datasets: options, and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from atompack_torch.display.charts import Series, bins_of, histogram, meter
from atompack_torch.display.fragments import fragment
from atompack_torch.display.markup import Markup, percent, short, table
from atompack_torch.formats.atlas_store.array_schema import Values, extents
from atompack_torch.options import check_choice, check_threads, short_list

_MOST_DATASETS, _MOST_VALUES = 8, 100_000


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


Layout = Literal["stacked", "jagged", "list"]
LAYOUTS = ("stacked", "jagged", "list")


@dataclass(frozen=True, repr=False)
class ColumnScan:
    """Values of one array in D datasets.

    Attributes:
        values: layout ``"stacked"``: (D, *shape), rows of datasets without the array are NaN (0 for
            integers) and masked; ``"jagged"``: (sum of lengths, *rest), concatenated along the
            first axis; ``"list"``: D tensors, each in its own shape, None where the array is
            missing. Strings and binary values: a list with one entry per dataset (``"jagged"``:
            one per value) of ``str`` or ``bytes``, in lists nested once per axis. Timestamps are
            int64 nanoseconds since 1970 (UTC).
        offsets: (D + 1,) int64, layout ``"jagged"``: dataset i has rows ``offsets[i]`` to
            ``offsets[i + 1]``.
        mask: (D,) bool, True for datasets that have the array.
        datasets: names of the datasets.
    """

    values: Tensor | Sequence[Values | None]
    offsets: Tensor | None
    mask: Tensor
    datasets: Sequence[str]

    def __repr__(self) -> str:
        layout, values = self._described()
        names = short_list(self.datasets, len(self.datasets), most=3)
        n_missing = len(self.mask) - int(self.mask.sum())
        return (
            f"ColumnScan({layout}, values: {values}, {len(self.datasets):,} datasets"
            f"{f' ({n_missing:,} without the array)' if n_missing else ''}"
            f"{f': {names}' if names else ''})"
        )

    def _repr_html_(self) -> str:
        layout, values = self._described()
        n, there = len(self.mask), int(self.mask.sum())
        names = ", ".join(short(name, 40) for name in self.datasets[:_MOST_DATASETS])
        rows: list[tuple[object, object]] = [
            ("layout", layout),
            ("values", values),
            ("datasets with the array", meter(there, n, f"{percent(there, n)} ({there:,})")),
            ("datasets", names + (", …" if n > _MOST_DATASETS else "")),
        ]
        return fragment("ColumnScan", f"{n:,} datasets", table((), rows), _histogram(self))

    def _described(self) -> tuple[str, str]:
        """Returns the layout, and the values in words."""
        if self.offsets is not None:
            layout = "jagged"
        else:
            layout = "stacked" if isinstance(self.values, Tensor) else "list"
        if not isinstance(self.values, Tensor):
            return layout, f"list of {len(self.values):,}"
        dtype = str(self.values.dtype).removeprefix("torch.")
        return layout, f"{tuple(self.values.shape)} {dtype}"

    def nested(self) -> Tensor:
        """Views jagged values as a ``torch.nested`` tensor of layout ``torch.jagged``.

        Returns:
            (D, lengths, *rest), sharing the memory of ``values``.

        Raises:
            ValueError: the layout is not ``"jagged"``, or the values are strings.
        """
        if self.offsets is None or not isinstance(self.values, Tensor):
            raise ValueError('nested: expected a column of numbers with layout="jagged"')
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)


class ScanOptions(NamedTuple):
    """Slice of each array that a scan reads, and form of its result; see ``AtlasStore.scan``."""

    start: Sequence[int] | None = None
    shape: Sequence[int] | None = None
    layout: Layout = "stacked"
    dtype: torch.dtype | None = None
    num_threads: int | None = None

    def native(self, max_unstored_bytes: int | None) -> dict[str, Any]:
        """Checks the options, and returns them as the native core takes them."""
        check_choice("layout", self.layout, LAYOUTS)
        check_threads(self.num_threads)
        return {
            "start": extents("start", self.start),
            "count": extents("shape", self.shape),
            "layout": self.layout,
            "dtype": None if self.dtype is None else str(self.dtype).removeprefix("torch."),
            "max_threads": self.num_threads or 0,
            "max_unstored_bytes": max_unstored_bytes,
        }
