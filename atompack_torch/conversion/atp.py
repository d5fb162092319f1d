"""``.atp`` files as source and target of conversions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from atompack_torch.conversion.converter import Source, SourceOptions, TargetOptions, TargetTraits
from atompack_torch.conversion.forwarding import ForwardingWriter, readable
from atompack_torch.conversion.records import BLOCK_ATOMS, BLOCK_STRUCTURES
from atompack_torch.conversion.report import Report
from atompack_torch.datasets.atp import AtpDataset
from atompack_torch.options import bytes_at
from atompack_torch.writers.atp import AtpWriter, Codec
from atompack_torch.writers.columns import Columns

_Path = str | os.PathLike[str]

TARGET = TargetTraits(("x", "w", "a"), has_schema=True, codecs=("none", "lz4", "zstd"))


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file or a folder of shards."""
    measure = partial(bytes_at, Path(path), "*.atp")
    return Source(path, lambda report: read(path, report=report), partial(count, path), measure)


def open_target(path: str, options: TargetOptions) -> Writer:
    """Opens a file for writing."""
    return Writer(path, options.codec, options.level, append=options.append)


def count(path: _Path) -> int:
    """Counts the molecules in a file or a folder of shards."""
    return len(AtpDataset(path))


def read(path: _Path, *, report: Report) -> Iterator[Columns]:
    """Yields the molecules of a file or of a folder of shards in blocks, in order, as stored.

    Args:
        path: the file or folder.
        report: receives molecules that cannot be read.

    Yields:
        Blocks of molecules.

    Raises:
        CorruptFileError: a record is damaged.
    """
    with AtpDataset(path, access="sequential") as dataset:
        n_atoms = dataset.n_atoms.numpy()  # reads the index
        ends = np.cumsum(n_atoms)
        first = 0
        while first < len(ends):
            before = ends[first] - n_atoms[first]
            by_atoms = int(np.searchsorted(ends, before + BLOCK_ATOMS, side="right"))
            last = max(min(by_atoms, first + BLOCK_STRUCTURES), first + 1)
            yield from readable(lambda i, j: dataset[i:j], first, last, report)
            first = last


class Writer(ForwardingWriter):
    """Writes one file, committed once, when the ``with`` block ends without an error.

    Args:
        path: path of the file.
        codec: codec, as for ``AtpWriter``.
        level: compression level.
        append: append to an existing file; otherwise it is replaced at the commit.
    """

    _writer: AtpWriter

    def __init__(self, path: _Path, codec: Codec | None, level: int, *, append: bool) -> None:
        self._writer = AtpWriter(path, codec=codec, level=level, mode="a" if append else "w")

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        self._writer.write_columns(columns)
