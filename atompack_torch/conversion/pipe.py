"""The pipe of a conversion: blocks of the sources run through stages into targets."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.formats import open_target
from atompack_torch.conversion.keys import label_of
from atompack_torch.conversion.parts import Part
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.conversion.stages import Run, Stage
from atompack_torch.errors import CorruptFileError
from atompack_torch.formats import Format
from atompack_torch.formats.conversion_report import OnError, Report, pass_on
from atompack_torch.formats.converter import Source, TargetOptions
from atompack_torch.formats.paths import STDIN
from atompack_torch.formats.records import select
from atompack_torch.options import ChangeOptions, bytes_at, is_hidden, part_range
from atompack_torch.progress import Progress
from atompack_torch.publishing import naming_errors


class Piece(NamedTuple):
    """Molecules of a source in order.

    Attributes:
        columns: the molecules.
        first: number of the first one in its source.
        is_inside: True if they belong to the part; otherwise only their types count.
    """

    columns: Columns
    first: int
    is_inside: bool


class Span(NamedTuple):
    """Range of molecules of one source that belong to a part.

    Attributes:
        first: number of the first molecule.
        last: one past the last molecule; None: up to the end of the source.
    """

    first: int = 0
    last: int | None = None

    def length(self, count: int) -> int:
        """Returns the number of molecules in the range, given that of the source."""
        return (count if self.last is None else self.last) - self.first

    def cut(self, columns: Columns, start: int) -> Iterator[Piece]:
        """Splits a block of a source at the bounds of the range.

        Args:
            columns: the block.
            start: number of its first molecule.

        Yields:
            The same molecules in the same order.
        """
        n = len(columns.ptr) - 1
        end = n if self.last is None else min(max(self.last - start, 0), n)
        begin = min(max(self.first - start, 0), end)
        for low, high, is_inside in ((0, begin, False), (begin, end, True), (end, n, False)):
            if high - low == n:
                yield Piece(columns, start, is_inside)
            elif high > low:
                numbers = np.arange(n)
                piece = select(columns, (numbers >= low) & (numbers < high))
                yield Piece(piece, start + low, is_inside)


def spans(part: Part, counts: list[int]) -> list[Span]:
    """Returns the range of each source that belongs to a part of all of them.

    Args:
        part: number of the part and number of parts.
        counts: number of molecules of each source.

    Returns:
        The ranges. The one with the last molecule of a source has no end, so that nothing is lost
        if there are more molecules than counted.
    """
    whole = part_range(part, sum(counts))
    found, start = [], 0
    for count in counts:
        end = start + count
        first, last = (min(max(i - start, 0), count) for i in (whole.start, whole.stop))
        has_last = whole.start < end <= whole.stop or (end == 0 and part[0] == 0)
        found.append(Span(first, None if has_last else last))
        start = end
    return found


class Reading(NamedTuple):
    """The sources of a conversion, read once for all targets.

    Attributes:
        sources: the sources, which the caller closes.
        counts: number of molecules of each source; None where it is unknown, which no part is.
        part: the part of all molecules to convert; None: all.
        on_error: treatment of molecules that cannot be read.
        changes: changes of values, of which readers heed some.
    """

    sources: Sequence[Source]
    counts: Sequence[int | None]
    part: Part | None
    on_error: OnError
    changes: ChangeOptions

    @property
    def n_molecules(self) -> int | None:
        """Number of molecules in all sources; None if unknown."""
        return None if None in self.counts else sum(filter(None, self.counts))

    def total(self) -> int | None:
        """Returns the number of molecules to read, those before a part included; None: unknown."""
        total = 0
        for source, count, span in zip(self.sources, self.counts, self.spans(), strict=True):
            if count is None:
                return None
            total += span.length(count) if source.read_range else count
        return total

    def spans(self) -> list[Span]:
        """Returns the range of each source that belongs to the part."""
        counts = [count for count in self.counts if count is not None]
        return [Span()] * len(self.sources) if self.part is None else spans(self.part, counts)

    def blocks(
        self, number: int, span: Span, reports: Sequence[Report]
    ) -> Generator[Piece, None, None]:
        """Reads one source: the range alone if it can be read from the middle, otherwise all.

        Args:
            number: number of the source.
            span: its range that belongs to the part.
            reports: receive the notices of the reader about each block before that is yielded.

        Yields:
            The blocks, cut at the bounds of the range.
        """
        source, count = self.sources[number], self.counts[number]
        told = Report(self.on_error, self.changes, n_sources=0)
        start, cut = 0, span
        if self.part is None or source.read_range is None:
            columns_of_blocks = source.read(told)
        else:
            assert count is not None
            start, last, cut = span.first, count if span.last is None else span.last, Span()
            if start == last:
                return
            columns_of_blocks = source.read_range(told, start, last)
        for columns in _until_fault(source, columns_of_blocks, told):
            is_inside = cut.first <= start and (cut.last is None or start < cut.last)
            _pass_on(told, reports, counts=is_inside)
            yield from cut.cut(columns, start)
            start += len(columns.ptr) - 1
        _pass_on(told, reports, counts=cut.last is None)


class Pipe:
    """The stages of one target, and the target.

    Args:
        path: local path of the target.
        format: format of the target.
        options: options of the target, whose report is replaced by that of each run.
        stages: the stages, in their order.
        types: the last stage, if the types of a field must agree in the target.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: Format,  # noqa: A002
        options: TargetOptions,
        stages: Sequence[Stage],
        types: SchemaUnifier | None,
    ) -> None:
        self.path, self._format, self._options = path, format, options
        self._types = types
        self._stages = [*stages] if types is None else [*stages, types]
        self._target = ExitStack()

    @property
    def is_too_narrow(self) -> bool:
        """True if types turned out too narrow in the last run, which wrote nothing."""
        return self._types is not None and self._types.is_too_narrow

    def begin(self, reading: Reading) -> ExitStack:
        """Opens the target; the stack that is returned discards it after an error."""
        n_sources = 1 if reading.part is not None else len(reading.sources)  # of what a part reads
        self.report = Report(reading.on_error, reading.changes, n_sources)
        self._run = Run(self.report, reading.n_molecules, reading.part is not None)
        with ExitStack() as stack:
            options = self._options._replace(report=self.report)
            self._writer = stack.enter_context(open_target(self.path, self._format, options))
            for stage in self._stages:
                stage.begin(self._run)
            self._target = stack.pop_all()
        return self._target

    def begin_source(self, source: Source) -> None:
        """Starts with the next source."""
        self._run.begin_source(source)
        for stage in self._stages:
            stage.begin_source(self._run)

    def push(self, block: Piece) -> None:
        """Sends a block through all stages and writes it, unless it is outside of the part."""
        columns, report = block.columns, self.report
        self._run.begin_block(block.first, len(columns.ptr) - 1, is_inside=block.is_inside)
        for stage in self._stages:
            columns = stage.apply(columns, self._run)
        if self.is_too_narrow:
            fault = TypeError("types of fields are too narrow")
            self._target.__exit__(TypeError, fault, None)
        elif block.is_inside and (n := len(columns.ptr) - 1):
            self._writer.write(columns)
            report.structures_written += n
            report.atoms_written += len(columns.positions)
            for column in columns.fields:
                n_there = n if column.mask is None else int(np.sum(column.mask))
                report.labels[label_of(column)] += n_there

    def end_source(self) -> None:
        """Ends the source."""
        for stage in self._stages:
            stage.end_source(self._run)

    def finish(self, bytes_read: int) -> None:
        """Publishes the target, unless types were too narrow, and completes the report.

        Args:
            bytes_read: size of the sources.
        """
        report = self.report
        if not report.structures_read and not self._run.is_part:
            report.warn("no molecules were read: the sources have none")
        for stage in self._stages:
            stage.finish(self._run)
        self._target.close()
        report.bytes_read = bytes_read
        if not self.is_too_narrow and os.fspath(self.path) != STDIN:
            report.bytes_written = bytes_at(Path(self.path))
        report.finish()


def run_pipes(reading: Reading, pipes: Sequence[Pipe], *, progress: bool) -> list[Report]:
    """Reads the sources once for all pipes, and once more if types were too narrow.

    Args:
        reading: what is read.
        pipes: a pipe for each target.
        progress: show a progress bar.

    Returns:
        The report of each target.

    Raises:
        CorruptFileError: a molecule cannot be read, or a source changes in the meantime. Targets
            that were not complete by then do not appear.
    """
    waiting = pipes
    for _ in range(2):
        _run_once(reading, waiting, progress=progress)
        waiting = [pipe for pipe in waiting if pipe.is_too_narrow]
        if not waiting:
            return [pipe.report for pipe in pipes]
    raise CorruptFileError(f"{waiting[0].path}: expected sources that stay as they are")


def _run_once(reading: Reading, pipes: Sequence[Pipe], *, progress: bool) -> None:
    label = Path(pipes[0].path).name if len(pipes) == 1 else f"{len(pipes)} files"
    if is_hidden(label):  # a copy in the cache of the user
        label = f"converting {Path(reading.sources[0].path).name}"
    with (
        Progress(reading.total(), "molecules", label=label, enabled=progress) as bar,
        ExitStack() as stack,
    ):
        for pipe in pipes:
            stack.push(pipe.begin(reading))
        reports = [pipe.report for pipe in pipes]
        for number, span in enumerate(reading.spans()):
            for pipe in pipes:
                pipe.begin_source(reading.sources[number])
            # Closed also after an error: one that is held must not hold files open.
            with closing(reading.blocks(number, span, reports)) as blocks:
                for block in blocks:
                    for pipe in pipes:
                        pipe.push(block)
                    bar.update(len(block.columns.ptr) - 1)
            for pipe in pipes:
                pipe.end_source()
        n_bytes = sum(source.n_bytes() for source in reading.sources)
        for pipe in pipes:
            pipe.finish(n_bytes)


def count_molecules(
    sources: Sequence[Source], on_error: OnError, *, exact: bool
) -> list[int | None]:
    """Returns the number of molecules of each source.

    Args:
        sources: the sources.
        on_error: treatment of molecules that cannot be read.
        exact: read sources of unknown length to their end.

    Returns:
        The numbers; None where they are unknown.
    """
    counts = [source.count() for source in sources]
    if not exact:
        return counts
    report = Report(on_error, n_sources=len(sources))
    return [
        sum(len(columns.ptr) - 1 for columns in _until_fault(source, source.read(report), report))
        if count is None
        else count
        for source, count in zip(sources, counts, strict=True)
    ]


def _until_fault(source: Source, blocks: Iterator[Columns], report: Report) -> Iterator[Columns]:
    """Yields blocks up to a fault that the reader cannot recover from; it skips others itself."""
    try:
        with naming_errors(source.path):
            yield from blocks
    except CorruptFileError as error:
        if report.on_error == "raise":
            raise
        report.skip("the rest of a file", str(error))


def _pass_on(told: Report, reports: Sequence[Report], *, counts: bool) -> None:
    """Gives what a reader has reported about a block to the reports of all targets."""
    for report in reports:
        pass_on(told, report, counts=counts)
        report.units = dict(told.units)  # a file says nothing about the next one
    told.skipped.clear()
    told.missing.clear()
