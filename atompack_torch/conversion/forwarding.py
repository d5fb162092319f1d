"""What conversions from and to the library's own data sets share."""

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
    """A block of molecules, in order; where it is refused as a whole, each by itself.

    So those that are damaged, or differ from others in a type, stand alone.

    Args:
        read: a block by its bounds.
        first: the first molecule.
        last: behind the last one.
        report: is told of those that cannot be read.
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
    """A writer that says itself when it was forgotten."""

    def close(self) -> None: ...
    def discard(self) -> None: ...


class ForwardingWriter(WriterBase):
    """A target of conversions that is another writer's."""

    _writer: _Finishing

    def close(self) -> None:
        """The commit."""
        self._writer.close()

    def discard(self) -> None:
        """Nothing of it stays."""
        self._writer.discard()

    def _is_unfinished(self) -> bool:
        return False  # the writer inside tells
