"""Code shared by conversions from and to the library's own data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from atompack_torch.batch.columns import Array, Column, Columns, of_batch
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.errors import AtompackError
from atompack_torch.fields import STRUCTURE, FieldSpec
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.writer_base import WriterBase

# A block is complete when it reaches either limit.
BLOCK_STRUCTURES = 4096
BLOCK_ATOMS = 1 << 16


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


def blocks_of(
    dataset: MoleculeDataset, report: Report, first: int, last: int | None = None
) -> Iterator[Columns]:
    """Yields the molecules of a data set in blocks of bounded size, in order.

    Args:
        dataset: the data set.
        report: receives molecules that cannot be read.
        first: number of the first molecule.
        last: one past the last molecule; None: all.

    Yields:
        Blocks of molecules.

    Raises:
        AtompackError: a molecule cannot be read, and the report does not skip it.
    """
    n_atoms = dataset.n_atoms.numpy()  # reads the index
    ends = np.cumsum(n_atoms[:last])
    while first < len(ends):
        before = ends[first] - n_atoms[first]
        by_atoms = int(np.searchsorted(ends, before + BLOCK_ATOMS, side="right"))
        end = max(min(by_atoms, first + BLOCK_STRUCTURES), first + 1)
        yield from readable(lambda i, j: dataset[i:j], first, end, report)
        first = end


def example_of(dataset: MoleculeDataset) -> Columns | None:
    """Returns two molecules of one atom that have all fields of a data set, in their types.

    Args:
        dataset: the data set.

    Returns:
        The block; None if there are no molecules.
    """
    if not len(dataset):
        return None
    schema = dataset.schema
    fields = [spec for name, spec in schema.items() if name not in STRUCTURE]
    declared = zip(dataset._declared_fields(), fields, strict=True)
    columns = [Column(*field, _values_of(spec)) for field, spec in declared]
    positions = np.zeros((2, 3), _dtype_of(schema["positions"]))
    return Columns(positions, np.ones(2, np.uint8), np.arange(3), columns)


def _values_of(spec: FieldSpec) -> Array | list[Array | str | None]:
    """Returns values of the type for two molecules of one atom."""
    if spec.dtype in ("string", "none"):
        return ["" if spec.dtype == "string" else None] * 2
    dtype = _dtype_of(spec)
    if spec.shape is None:  # tensors, which share a type whatever their shapes
        rows = (1,) if spec.level == "atom" else ()
        return [np.zeros((*rows, 1, n), dtype) for n in (1, 2)]
    return np.zeros((2, *spec.shape), dtype)


def _dtype_of(spec: FieldSpec) -> np.dtype[Any]:
    return np.dtype(str(spec.dtype).removeprefix("torch."))


class _Finishing(Protocol):
    """Writer that itself warns if it was not closed."""

    def close(self) -> None: ...
    def discard(self) -> None: ...


class ForwardingWriter(WriterBase):
    """Conversion target that forwards to another writer."""

    _writer: _Finishing

    def close(self) -> None:
        """Commits the output; discards it if that fails."""
        try:
            self._writer.close()
        except BaseException:
            self._writer.discard()
            raise

    def discard(self) -> None:
        """Discards the output."""
        self._writer.discard()

    def _is_unfinished(self) -> bool:
        return False  # the inner writer warns
