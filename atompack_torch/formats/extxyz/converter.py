"""Extended XYZ files as columns, and back; for the dialect see csrc/formats/extxyz/FORMAT.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from atompack_torch.batch.columns import Columns
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions, Target, TargetOptions
from atompack_torch.formats.extxyz.frames import Frames
from atompack_torch.formats.extxyz.text import text_of
from atompack_torch.formats.extxyz.text_files import Text
from atompack_torch.formats.paths import STDIN
from atompack_torch.publishing import published


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file, plain or compressed, a FIFO, or standard input (``"-"``)."""
    text = Text(path)
    frames = Frames(text, options.keys)
    return Source(
        text.name,
        frames.read,
        partial(len, frames),
        lambda: text.n_bytes,
        text.close,
        maps_keys=True,
        read_range=frames.read_range,
        example=frames.example,
    )


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a file for writing, or standard output (``"-"``)."""
    if path == STDIN:
        written = Writer(sys.stdout.buffer, options.report)
        yield written
        sys.stdout.buffer.flush()
        options.report.bytes_written += written.n_bytes
        return
    with published(Path(path)) as made, made.open("xb") as file:
        yield Writer(file, options.report)


class Writer:
    """Writes molecules as extended XYZ.

    Numbers are written so that they read back as the same float64. A custom property whose key has
    another meaning in the format is written as ``properties/KEY`` or ``atom_properties/KEY``.

    Args:
        file: receives the text.
        report: receives values that the format cannot represent.
    """

    def __init__(self, file: BinaryIO, report: Report) -> None:
        self._file, self._report = file, report
        self.n_bytes = 0

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        self.n_bytes += self._file.write(text_of(columns, self._report))
