"""Rows of ASE databases in LMDB for passes that read each row once, without an index."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from atompack_torch._native import FieldMap, LmdbRowBlockSource, LmdbRowReader, MoleculeSource
from atompack_torch.batch.conversions import masses_of
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.request import Request
from atompack_torch.formats.aselmdb.keys import fields_of_rows
from atompack_torch.formats.extxyz.keys import FoundKey
from atompack_torch.options import threads_or_cores

_BLOCK_ROWS = 4096
_BLOCK_BYTES = 4 << 20  # of the file, where rows are compressed


class RowBlocks:
    """Reads the rows of a database in blocks, parsed on all cores.

    Args:
        path: the file.

    Raises:
        CorruptFileError: a page is damaged.
        UnsupportedFormatError: it is no ASE database.
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._reader = LmdbRowReader(self._path, threads_or_cores(None))

    def __len__(self) -> int:
        return len(self._reader)

    def read(self, first: int, last: int) -> RowBlock:
        """Reads the rows from ``first`` up to ``last``, or fewer of them if they are large.

        Labels that are NaN throughout are not missing.

        Args:
            first: number of the first row.
            last: one past the last row.

        Returns:
            The rows as a data set.

        Raises:
            CorruptFileError: a row is damaged.
        """
        block = self._reader.read(first, min(last, first + _BLOCK_ROWS), _BLOCK_BYTES)
        found = [FoundKey(*field) for field in block.fields]
        mapped = fields_of_rows(self._path, found, {})
        targets = [(*key[:2], *field, *key[2:], momenta) for key, field, momenta in mapped]
        has_momenta = any(momenta for *_, momenta in mapped)
        masses = masses_of(np.arange(256)).tolist() if has_momenta else []
        fields = FieldMap(targets, block.has_cells, masses, True, [])
        return RowBlock(self._path, LmdbRowBlockSource(block, fields), block.left_out)


class RowBlock(MoleculeDataset):
    """Consecutive rows in memory.

    Args:
        path: the file, for messages.
        source: the rows.
        left_out: keys of values that batches have no place for → number of rows that have them.
    """

    def __init__(self, path: str, source: MoleculeSource, left_out: dict[str, int]) -> None:
        self._path: Any = path
        self._request = Request(None, (), None, "nan", None, None, None)
        self._rows = source
        self.left_out = left_out

    def _size(self) -> int:
        return len(self._rows)

    def _open_source(self) -> MoleculeSource:
        return self._rows
