"""Frames of extended XYZ files by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from atompack_torch.batch.columns import Columns
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import blocks_of, example_of
from atompack_torch.formats.extxyz.dataset import ExtxyzDataset


class Frames:
    """Frames of a plain file by number, for parts of a conversion.

    Args:
        path: the file.
        keys: key in the file → name of a field or of a custom property.
    """

    def __init__(self, path: str, keys: Mapping[str, str]) -> None:
        self._path, self._keys = path, keys

    @cached_property
    def _dataset(self) -> ExtxyzDataset:
        dataset = ExtxyzDataset(self._path, key_map=self._keys)  # all parts share its index
        return dataset._with_nan_labels()

    def read(self, report: Report, first: int, last: int) -> Iterator[Columns]:
        """Yields the frames from ``first`` up to ``last`` in blocks."""
        yield from blocks_of(self._dataset, report, first, last)

    def example(self) -> Columns | None:
        """Returns frames with all fields of the file, in their types; None if it has none."""
        return example_of(self._dataset)
