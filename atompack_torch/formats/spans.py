"""Ranges of structures of a source, and blocks of structures cut at their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.formats.records import select


class Block(NamedTuple):
    """Structures of a source in order.

    Attributes:
        columns: the structures.
        first: number of the first one in its source.
        is_inside: True if they belong to the part; otherwise only their types count.
        n_read: number of structures that were read for it; edits may leave some out.
    """

    columns: Columns
    first: int
    is_inside: bool
    n_read: int = 0


class Span(NamedTuple):
    """Range of structures of one source that belong to a part.

    Attributes:
        first: number of the first structure.
        last: one past the last structure; None: up to the end of the source.
    """

    first: int = 0
    last: int | None = None

    def length(self, count: int) -> int:
        """Returns the number of structures in the range, given that of the source."""
        return (count if self.last is None else self.last) - self.first

    def cut(self, blocks: Iterator[Columns], start: int = 0) -> Iterator[Block]:
        """Splits the blocks of a source at the bounds of the range.

        Args:
            blocks: the blocks of the source, in order.
            start: number of the first structure in them.

        Yields:
            The same structures in the same order.
        """
        for columns in blocks:
            n = len(columns.ptr) - 1
            end = n if self.last is None else min(max(self.last - start, 0), n)
            begin = min(max(self.first - start, 0), end)
            for low, high, is_inside in ((0, begin, False), (begin, end, True), (end, n, False)):
                if high - low == n:
                    yield Block(columns, start, is_inside)
                elif high > low:
                    numbers = np.arange(n)
                    piece = select(columns, (numbers >= low) & (numbers < high))
                    yield Block(piece, start + low, is_inside)
            start += n
