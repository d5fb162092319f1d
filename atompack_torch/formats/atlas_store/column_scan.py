"""Result of a scan over many datasets of a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from atompack_torch.formats.atlas_store.column_html import scan_html
from atompack_torch.formats.atlas_store.stored_values import Values
from atompack_torch.options import short_list

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
        return scan_html(self, *self._described())

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
