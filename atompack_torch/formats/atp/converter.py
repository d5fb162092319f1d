"""``.atp`` files as source and target of conversions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from atompack_torch.batch.columns import Columns
from atompack_torch.formats.atp.dataset import AtpDataset
from atompack_torch.formats.atp.writer import AtpWriter, Codec
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import (
    ForwardingWriter,
    Source,
    SourceOptions,
    TargetOptions,
    TargetTraits,
    blocks_of,
    example_of,
)
from atompack_torch.options import bytes_at, has_suffix, is_hidden, is_url, redact_path
from atompack_torch.remote.objects import RemoteObjects
from atompack_torch.remote.staging import Options

_Path = str | os.PathLike[str]

TARGET = TargetTraits(("x", "w", "a"), has_schema=True, codecs=("none", "lz4", "zstd"))


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file or a folder of shards."""
    given = options.storage_options

    def opened(access: Literal["auto", "sequential"] = "auto") -> AtpDataset:
        return AtpDataset(path, access=access, storage_options=given)

    def read(report: Report, first: int = 0, last: int | None = None) -> Iterator[Columns]:
        with opened("sequential") as dataset:
            yield from blocks_of(dataset, report, first, last)

    def example() -> Columns | None:
        with opened() as dataset:
            return example_of(dataset)

    return Source(
        redact_path(path),
        read,
        lambda: len(opened()),
        lambda: _remote_bytes(path, given) if is_url(path) else bytes_at(Path(path), ".atp"),
        read_range=read,
        example=example,
        keeps_open=True,
    )


def open_target(path: str, options: TargetOptions) -> Writer:
    """Opens a file for writing."""
    return Writer(path, options.codec, options.level, append=options.append)


def _remote_bytes(url: str, storage_options: Options) -> int:
    found = RemoteObjects(url, storage_options).find(url)
    names = (n for n in found if not n or (has_suffix(n, ".atp") and not is_hidden(n)))
    return sum(found[name].size for name in names)


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
