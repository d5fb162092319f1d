"""Extended XYZ files as columns, and back; for the dialect see csrc/formats/extxyz/FORMAT.md."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Literal

from atompack_torch.batch.columns import Columns, of_batch
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.errors import file_exists
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import Source, SourceOptions, TargetOptions
from atompack_torch.formats.extxyz.frames import Frames
from atompack_torch.formats.extxyz.keys import Notices
from atompack_torch.formats.extxyz.text import text_of
from atompack_torch.formats.extxyz.text_files import Text
from atompack_torch.formats.paths import STDIN
from atompack_torch.formats.writer_base import WriterBase
from atompack_torch.publishing import hidden_part, naming_errors, publish


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


def open_target(path: str, options: TargetOptions) -> Writer | StdoutWriter:
    """Opens a file for writing, or standard output (``"-"``)."""
    if path == STDIN:
        return StdoutWriter(options.report)
    return Writer(path, report=options.report, mode="w")


def count(path: str | os.PathLike[str]) -> int:
    """Counts the frames, up to any damage, by scanning the comment lines."""
    with contextlib.closing(Text(path)) as text:
        return len(Frames(text, {}))


class _Warnings:
    """Default report that issues each warning once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def skip(self, what: str, why: str, count: int = 1) -> None:
        self.note(f"{what} omitted: {why}")

    def note(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            warnings.warn(text, stacklevel=4)


class StdoutWriter(AbstractContextManager["StdoutWriter"]):
    """Writes columns to standard output as they come.

    Args:
        report: receives the number of bytes, and values that the format cannot represent.
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def write(self, columns: Columns) -> None:
        """Writes a block."""
        text = text_of(columns, self._report)
        sys.stdout.buffer.write(text)
        self._report.bytes_written += len(text)

    def __exit__(self, *_: object) -> None:
        sys.stdout.buffer.flush()


class Writer(WriterBase):
    """Writes columns or batches as an extended XYZ file, which appears when it is complete.

    A context manager; an exception in the block leaves no file. Numbers are written so that they
    read back as the same float64. A custom property whose key has another meaning in the format is
    written as ``properties/KEY`` or ``atom_properties/KEY``.

    Args:
        path: the file.
        mode: ``"x"``: the path must not exist; ``"w"``: replace an existing file.
        report: receives values that the format cannot represent; without one, warnings are issued.

    Raises:
        FileExistsError: mode ``"x"``, and the path exists.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Literal["x", "w"] = "x",
        report: Notices | None = None,
    ) -> None:
        if mode not in ("x", "w"):
            raise ValueError(f"mode: expected x or w, got {mode!r}")
        self._path = Path(path)
        if mode == "x" and self._path.exists():
            raise file_exists(self._path, "mode='w' replaces it")
        self._mode = mode
        self._report = _Warnings() if report is None else report
        self._part = hidden_part(self._path)
        with naming_errors(self._path, self._part):
            self._file = self._part.open("xb")
        self.n_frames = 0

    def write(self, molecules: Columns | MoleculeBatch) -> None:
        """Appends molecules.

        Args:
            molecules: columns or a batch.

        Raises:
            FieldError: columns differ in length, or an atomic number is not from 0 to 255.
        """
        columns = of_batch(molecules) if isinstance(molecules, MoleculeBatch) else molecules
        with naming_errors(self._path, self._part):
            self._file.write(text_of(columns, self._report))
        self.n_frames += len(columns.ptr) - 1

    def close(self) -> None:
        """Publishes the file; further calls do nothing."""
        if self._file.closed:
            return
        try:
            with naming_errors(self._path, self._part):
                self._file.close()
                publish(self._part, self._path, self._mode)
        except FileExistsError:
            self._remove()
            raise file_exists(self._path, "mode='w' replaces it") from None
        except BaseException:
            self._remove()
            raise

    def discard(self) -> None:
        """Removes everything written so far."""
        if not self._file.closed:
            self._remove()

    def _remove(self) -> None:
        self._part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # unflushed data is discarded anyway
            self._file.close()

    def _is_unfinished(self) -> bool:
        return not getattr(getattr(self, "_file", None), "closed", True)


def write(
    path: str | os.PathLike[str],
    batches: Iterable[Columns | MoleculeBatch],
    *,
    mode: Literal["x", "w"] = "x",
    report: Notices | None = None,
) -> int:
    """Writes all batches and returns the number of frames; see ``Writer``."""
    with Writer(path, mode=mode, report=report) as writer:
        for batch in batches:
            writer.write(batch)
    return writer.n_frames
