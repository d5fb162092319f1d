"""Extended XYZ files as columns, and back; for the dialect see csrc/formats/extxyz/FORMAT.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from atompack_torch._native import (
    ExtxyzRemarks,
    ExtxyzScanner,
    ExtxyzSource,
    MoleculeSource,
    ParsedIndex,
    file_version,
)
from atompack_torch.batch.columns import Array, Column, Columns, of_batch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.request import Request
from atompack_torch.fields import ATOM_PROPERTY, BUILTIN, PREFIXES
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.converter import (
    Source,
    SourceOptions,
    Target,
    TargetOptions,
    blocks_of,
    example_of,
)
from atompack_torch.formats.extxyz.keys import (
    FieldTarget,
    field_map,
    found_keys,
    native_targets,
    targets_of,
)
from atompack_torch.formats.extxyz.text import text_of
from atompack_torch.formats.extxyz.text_files import Text
from atompack_torch.formats.indexes import scan
from atompack_torch.formats.paths import STDIN
from atompack_torch.formats.records import VOIGT, stress_of_six
from atompack_torch.options import threads_or_cores
from atompack_torch.publishing import published


class Frames:
    """Molecules of a text, found by an index that is made once.

    Args:
        text: the text, which the caller closes.
        keys: key in the file → name of a field or of a custom property.
    """

    def __init__(self, text: Text, keys: Mapping[str, str]) -> None:
        self._text, self._keys = text, keys

    @cached_property
    def _scanned(self) -> tuple[ExtxyzScanner, ParsedIndex]:
        scanner = ExtxyzScanner(self._text.path, self._text.name, threads_or_cores(None))
        return scanner, scan(scanner, self._text.name, strict=False)

    def __len__(self) -> int:
        return len(self._scanned[1])

    def read_range(self, report: Report, first: int, last: int) -> Iterator[Columns]:
        """Yields the molecules from ``first`` up to ``last`` in blocks.

        Args:
            report: receives values that columns cannot represent, and molecules that cannot be
                read.
            first: number of the first molecule.
            last: one past the last molecule.

        Yields:
            Blocks of molecules.

        Raises:
            CorruptFileError: the text violates the format; the molecules before it were yielded.
            FieldError: a label has the wrong shape or is not a number, two keys denote one field,
                or one of the keys does not occur.
        """
        molecules = self._open(report)
        yield from blocks_of(molecules, report, first, last, molecules.columns)
        scanner, index = self._scanned
        if last < len(index):
            return
        scanner.check(self._text.name, index)
        if index.ends_open:
            report.note(f"{self._text.name}: the last line has no end; it may have been cut")

    def example(self) -> Columns | None:
        """Returns molecules with all fields of the file, in their types; None if it has none."""
        return example_of(self._open(Report()))

    def _open(self, report: Report) -> _Molecules:
        return _Molecules(self._text, self._scanned[1], self._keys, report)


class _Molecules(MoleculeDataset):
    """Molecules of one text with the values that it has: also flags, and labels that are NaN."""

    def __init__(
        self, text: Text, index: ParsedIndex, keys: Mapping[str, str], report: Report
    ) -> None:
        self._path: Any = text.name
        self._request = Request(None, (), None, "nan", None, None, None)
        self._index, self._report, self._remarks = index, report, ExtxyzRemarks()
        found = found_keys(index.survey)
        self._targets = targets_of(text.name, found, keys, report, report.miss_key)
        for (_, key), target in self._targets.items():
            if target.key != key:
                report.origin(PREFIXES.get(target.scope, "") + target.key, key)
        has_momenta = any(target.from_momenta for target in self._targets.values())
        natives = native_targets(found, self._targets)
        fields = field_map(natives, index.survey.has_cells, is_exact=True)
        version = file_version(text.path)
        self._frames = ExtxyzSource(
            text.path, text.name, version, index, fields, "read", False, self._remarks
        )
        # Columns are in the order of the keys; velocities that were computed come last.
        order = [(BUILTIN, "pbc"), (BUILTIN, "cell")]
        order += [self._targets[field[:2]][:2] for field in found]
        if has_momenta:
            order += [(BUILTIN, "velocities"), (ATOM_PROPERTY, "velocities")]
        self._order = {field: i for i, field in enumerate(order)}

    def _size(self) -> int:
        return len(self._index)

    def _open_source(self) -> MoleculeSource:
        return self._frames

    def _atom_counts(self) -> Tensor:
        counts = torch.empty(len(self._index), dtype=torch.int64)
        self._index.copy_counts(counts.numpy())
        return counts

    def columns(self, first: int, last: int) -> Columns:
        """Reads molecules, and reports what their columns lack."""
        self._remarks.take()  # those about a block that could not be read
        columns = of_batch(self[first:last])
        fields = {column[:2]: column for column in columns.fields}
        for (remark, key), numbers in self._remarks.take().items():
            rows = np.unique(numbers) - first
            if remark == "plain comment":
                self._report.skip("comment lines", "there is no key=value in them", len(rows))
            elif remark == "unnamed words":
                what = "columns after the positions"
                self._report.skip(what, "the file does not name them", len(rows))
            elif remark == "text of atoms":
                self._report.skip(f"column {key!r}", "text of atoms", len(rows))
            elif remark == "none":
                _put_none(fields, self._targets["molecule", key], rows, last - first)
            else:
                stress = fields[BUILTIN, "stress"].values
                assert isinstance(stress, np.ndarray)
                six = stress[(rows[:, None], *VOIGT)]
                stress[rows] = stress_of_six(six, self._report, is_voigt=key == "stress")
        there = [one for one in fields.values() if one.mask is None or one.mask.any()]
        there.sort(key=lambda one: self._order[one[:2]])
        elements = columns.atomic_numbers.astype(np.uint8)
        return Columns(columns.positions, elements, columns.ptr, there)


def _put_none(
    fields: dict[tuple[int, str], Column], target: FieldTarget, rows: Array, n_molecules: int
) -> None:
    """Puts the value None into a column of strings; a label that is None is missing."""
    if target.scope == BUILTIN:
        return
    field = (target.scope, target.key)
    values: list[Any] = [None] * n_molecules
    mask = np.zeros(n_molecules, dtype=bool)
    if field in fields:
        column = fields[field]
        values = [*column.values]
        mask = np.ones_like(mask) if column.mask is None else column.mask.copy()
    mask[rows] = True
    for row in rows:
        values[row] = None
    fields[field] = Column(*field, values, None if mask.all() else mask)


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file, plain or compressed, a FIFO, or standard input (``"-"``)."""
    text = Text(path)
    frames = Frames(text, options.keys)
    return Source(
        text.name,
        lambda report: frames.read_range(report, 0, len(frames)),
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
