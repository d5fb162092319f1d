"""Code shared by conversions from and to the library's own data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.conversion.report import Report
from atompack_torch.errors import AtompackError
from atompack_torch.writers.base import WriterBase
from atompack_torch.writers.columns import Columns, of_batch


def readable(
    read: Callable[[int, int], MoleculeBatch], first: int, last: int, report: Report
) -> Iterator[Columns]:
    """Yields a block of molecules in order; if reading the block fails, each molecule separately.

    This isolates molecules that are damaged or differ from others in a type.

    Args:
        read: reads a block, given its bounds.
        first: the first molecule.
        last: one past the last molecule.
        report: receives those that cannot be read.
    """
    try:
        batch = read(first, last)
    except AtompackError as error:
        if last - first == 1:
            report.refuse(error)
            return
        for i in range(first, last):
            yield from readable(read, i, i + 1, report)
        return
    yield of_batch(batch)


class _Finishing(Protocol):
    """Writer that itself warns if it was not closed."""

    def close(self) -> None: ...
    def discard(self) -> None: ...


class ForwardingWriter(WriterBase):
    """Conversion target that forwards to another writer."""

    _writer: _Finishing

    def close(self) -> None:
        """Commits the output."""
        self._writer.close()

    def discard(self) -> None:
        """Discards the output."""
        self._writer.discard()

    def _is_unfinished(self) -> bool:
        return False  # the inner writer warns
