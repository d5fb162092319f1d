"""The work of one conversion: blocks of the sources, checked, changed and written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Column, Columns
from atompack_torch.conversion.changes import Changes, known_unit
from atompack_torch.conversion.checks import checked, with_periodicity
from atompack_torch.conversion.edits import Edit
from atompack_torch.conversion.formats import open_target
from atompack_torch.conversion.hints import (
    OrderVotes,
    name_warnings,
    no_labels_warning,
    said_units,
    similar_names,
)
from atompack_torch.conversion.keys import KeyMap, label_of
from atompack_torch.conversion.missing import nan_as_missing
from atompack_torch.conversion.parts import Part, spans
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import BUILTIN, BUILTINS, prefixed_id
from atompack_torch.formats import Format
from atompack_torch.formats.atp.writer import Codec
from atompack_torch.formats.conversion_report import OnError, Report, pass_on
from atompack_torch.formats.converter import Source, TargetOptions
from atompack_torch.formats.extxyz.text_files import STDIN
from atompack_torch.formats.spans import Block, Span
from atompack_torch.options import bytes_at, short_list
from atompack_torch.publishing import naming_errors


class Job(NamedTuple):
    """One conversion, ready to run.

    Attributes:
        sources: the sources, which the caller closes.
        keys: ``key_map``: name in the source → label or property here.
        dst: local path of the target.
        target: format of the target.
        codec: codec of the target.
        level: compression level.
        shards: sizes and strategy of shards.
        append: append to the target.
        changes: changes of values.
        nan_is_missing: treat labels that are all NaN as missing.
        progress: show a progress bar.
        on_error: treatment of structures that cannot be read.
        part: the part of all structures to convert; None: all.
        counts: number of structures of each source; None where it is unknown, which no part is.
        edits: made after all else, in this order.
    """

    sources: list[Source]
    keys: Mapping[str, str]
    dst: str | os.PathLike[str]
    target: Format
    codec: Codec | None
    level: int
    shards: tuple[int, int, int] | None
    append: bool
    changes: Changes
    nan_is_missing: bool
    progress: bool
    on_error: OnError
    part: Part | None
    counts: Sequence[int | None]
    edits: Sequence[Edit] = ()

    def steps(self, report: Report, fit: SchemaUnifier | None) -> Generator[int, None, None]:
        """Converts everything, block by block.

        Args:
            report: receives what is done.
            fit: types known before reading; None: types need not agree.

        Yields:
            The number of structures read for each block, when it is written.

        Raises:
            CorruptFileError: a structure cannot be read.
            TooNarrowError: at the end, if types were too narrow; ``fit`` knows all of them now.
        """
        with closing(self._blocks(report)) as blocks:  # a held error must not hold files open
            try:
                yield from self._write(blocks, report, fit)
            except TooNarrowError:
                assert fit is not None
                for block in blocks:
                    if len(block.columns.ptr) > 1:
                        fit.learn(block.columns)
                    yield block.n_read
                raise
        self._say(report)
        report.bytes_read = sum(source.n_bytes() for source in self.sources)
        if os.fspath(self.dst) != STDIN:
            report.bytes_written = bytes_at(Path(self.dst))
        report.finish()

    def learn_examples(self, fit: SchemaUnifier) -> bool:
        """Learns the types of the sources of a part that tell them without being read.

        Args:
            fit: learns the types.

        Returns:
            True if the types of all structures will be known, not only those of the part.
        """
        is_known = True
        for source, count in zip(self.sources, self.counts, strict=True):
            if source.read_range is None or not count:
                continue
            example, report = source.example(), Report()
            try:
                if example is None:
                    is_known = False
                    continue
                columns = KeyMap(source.other_keys(self.keys), report).apply(example)
                is_virial = "stress" in self.keys.values()
                fit.learn(self.changes.apply(columns, report, is_virial=is_virial))
            except FieldError:  # keys need values of other shapes
                is_known = False
        return is_known

    def _spans(self) -> list[Span]:
        counts = [count for count in self.counts if count is not None]
        return [Span()] * len(self.sources) if self.part is None else spans(self.part, counts)

    def total(self) -> int | None:
        """Returns the number of structures to read, those before a part included; None: unknown."""
        total = 0
        for source, count, span in zip(self.sources, self.counts, self._spans(), strict=True):
            if count is None:
                return None
            total += span.length(count) if source.read_range else count
        return total

    def _say(self, report: Report) -> None:
        """Adds changes and warnings to the report."""
        if not report.structures_read and self.part is None:
            report.warn("no molecules were read: the sources have none")
        total: Counter[str] = Counter()
        for made, counts in report.changed.items():
            assert isinstance(made, Changes)
            report.changes += made.describe(counts, self.changes)
            total += counts
            for field in made.source_units(report.labels):
                if field not in report.source_units:
                    report.source_units.append(field)
            is_stated = made != self.changes  # not asked for, so a note is not enough
            for text in made.unit_warnings(report.labels):
                (report.warn if is_stated and "/" not in text else report.note)(text)
        for warning in (
            *name_warnings(report.sources, self.changes),
            *(self.changes.unused(total) if report.structures_written else ()),
        ):
            report.warn(warning)

    def _stated(self, source: Source, report: Report) -> dict[str, tuple[str, str]]:
        """Returns label → its field in the source and the unit that the source states so far."""
        keys = {name: key for key, name in source.other_keys(self.keys).items()}
        stated = {}
        for label in ("positions", *BUILTINS):
            scoped = prefixed_id(keys.get(label, label))
            for key in (label, keys.get(label, label) if scoped is None else scoped.key):
                if key in report.units:
                    stated[label] = key, report.units[key]
        return stated

    def _changed(
        self, source: Source, columns: Columns, report: Report, own: Report, units: dict[str, Any]
    ) -> Columns:
        """Changes a block; ``units`` holds those of the labels in the blocks before."""
        stated = self._stated(source, report)
        changes = self.changes.with_units({label: unit for label, (_, unit) in stated.items()})
        if not stated and (said := said_units(columns)):
            own.warn(f"{source.path}: {said}: units are those of the source unless one is given")
        labels = [column.key for column in columns.fields if column.scope == BUILTIN]
        for label in ("positions", *labels):
            unit = changes.unit(label)
            if units.setdefault(label, unit) != unit:
                raise FieldError(
                    f"{source.path}: {label}: expected one unit, got {unit or 'none'} after "
                    f"{units[label] or 'none'}: keep_units=True keeps the values"
                )
        is_virial = "stress" in self.keys.values()
        changed = changes.apply(columns, own, is_virial=is_virial)
        _count_changes(columns, changed, own.changed[changes])
        return changed

    def _say_units(self, source: Source, report: Report) -> None:
        """Names the units that the source states and that were not converted."""
        stated = self._stated(source, report)
        changes = self.changes.with_units({label: unit for label, (_, unit) in stated.items()})
        left = dict(report.units)
        for label, (key, unit) in stated.items():
            own = self.changes.unit(label)
            if changes.unit(label) is not None:
                left.pop(key, None)
            if own is not None and own != known_unit(label, unit):
                report.warn(f"{label}: converted from {own}, but {source.path} states {unit!r}")
            elif own is None and known_unit(label, unit) is None:
                report.warn(
                    f"{label}: {source.path} states the unit {unit!r}, which is not known: values "
                    "stay as they are"
                )
        if left:
            listed = short_list((f"{key!r} in {unit}" for key, unit in left.items()), len(left))
            report.note(f"{source.path} states units that were kept: {listed}")

    def _write(
        self, blocks: Iterator[Block], report: Report, fit: SchemaUnifier | None
    ) -> Iterator[int]:
        options = TargetOptions(report, self.append, self.codec, self.level, self.shards)
        with open_target(self.dst, self.target, options) as target:
            for columns, _, is_inside, n_read in blocks:
                has_structures = len(columns.ptr) > 1  # edits may have left out all
                if fit is not None and has_structures and fit.learn(columns):
                    raise TooNarrowError
                if is_inside and has_structures:
                    fitted = columns if fit is None else fit.fit(columns, report)
                    target.write(fitted)
                    _count(fitted, report)
                yield n_read

    def _blocks(self, report: Report) -> Generator[Block, None, None]:
        """Yields the blocks of all sources, checked and changed; of a part also those outside."""
        total = None if None in self.counts else sum(filter(None, self.counts))
        edits = [edit.begin(report, total) for edit in self.edits]
        n_kept = 0
        for source, span in zip(self.sources, self._spans(), strict=True):
            outside = Report(report.on_error, report.options)  # of no interest
            keys = {own: KeyMap(source.other_keys(self.keys), own) for own in (report, outside)}
            if source.note:
                report.note(source.note)
            report.units.clear()
            report.is_order_assumed = False
            votes = OrderVotes()
            n_inside = 0
            units: dict[str, Any] = {}
            fields: dict[str, None] = {}
            for columns, first, is_inside, _ in self._read(source, span, report):
                own = report if is_inside else outside
                n = len(columns.ptr) - 1
                own.structures_read += n
                n_inside += n if is_inside else 0
                columns = checked(keys[own].apply(columns), source.path, first, own)
                if self.nan_is_missing:
                    columns = nan_as_missing(columns, own)
                if report.is_order_assumed:
                    votes.count(columns)
                if not source.keeps_open:
                    columns = with_periodicity(columns, source.path, first, own)
                n_kept += len(columns.ptr) - 1
                edited = changed = self._changed(source, columns, report, own, units)
                for edit in edits:
                    edited = edit.apply(edited)
                if is_inside:
                    found = (*changed.fields, *edited.fields)
                    fields |= {label_of(column): None for column in found}
                yield Block(edited, first, is_inside, n)
            if self.part is None or source.read_range is None:
                keys[report].check_all_found(source.path, keys[outside])
            self._say_units(source, report)
            if report.is_order_assumed and (warning := votes.warning()):
                report.warn(f"{source.path}: {warning}")
            for warning in similar_names(fields, report.skipped) if n_inside else ():
                report.warn(f"{source.path}: {warning}")
            warning = no_labels_warning(fields, report.skipped, is_arrays=source.is_arrays)
            if n_inside and warning:
                report.warn(f"{source.path}: {warning}")
        if not n_kept and self.part is None:
            report.check_not_all_refused()
        for edit in edits:
            edit.finish()

    def _read(self, source: Source, span: Span, report: Report) -> Iterator[Block]:
        """Yields the blocks of a source: those of the span alone where the source can seek."""
        if self.part is None:
            return span.cut(_until_fault(source, source.read(report), report))
        if source.read_range is None:
            own = Report(report.on_error, report.options)
            return span.cut(
                _of_span(_until_fault(source, source.read(own), own), span, own, report)
            )
        count = self.counts[self.sources.index(source)]
        assert count is not None
        first, last = span.first, count if span.last is None else span.last
        if first == last:
            return iter(())
        blocks = source.read_range(report, first, last)
        return Span().cut(_until_fault(source, blocks, report), first)


def count_structures(sources: list[Source], on_error: OnError, *, exact: bool) -> list[int | None]:
    """Returns the number of structures of each source.

    Args:
        sources: the sources.
        on_error: treatment of structures that cannot be read.
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


def _of_span(
    blocks: Iterator[Columns], span: Span, told: Report, report: Report
) -> Iterator[Columns]:
    """Yields all blocks; the report receives the notices about those that begin in the span.

    So each thing that is left out is in the report of one part.
    """
    start = 0
    for columns in blocks:
        is_inside = span.first <= start and (span.last is None or start < span.last)
        pass_on(told, report, counts=is_inside)
        told.skipped.clear()
        start += len(columns.ptr) - 1
        yield columns
    pass_on(told, report, counts=span.last is None)


class TooNarrowError(Exception):
    """A type already written turned out too narrow, so that nothing was written in the end."""


def _count_changes(before: Columns, after: Columns, counts: Counter[str]) -> None:
    """Counts the structures that have each label, and those whose label got another type."""
    n = len(after.ptr) - 1
    counts["positions"] += n
    if after.positions.dtype != before.positions.dtype:
        counts["dtype positions"] += n
    old = {column[:2]: column for column in before.fields}
    for column in after.fields:
        if column.scope == BUILTIN:
            count = n if column.mask is None else int(np.sum(column.mask))
            counts[column.key] += count
            if column[:2] in old and _dtypes(column) != _dtypes(old[column[:2]]):
                counts[f"dtype {column.key}"] += count


def _dtypes(column: Column) -> set[str]:
    values = [column.values] if isinstance(column.values, np.ndarray) else column.values
    return {str(value.dtype) for value in values if isinstance(value, np.ndarray)}


def _count(columns: Columns, report: Report) -> None:
    n = len(columns.ptr) - 1
    report.structures_written += n
    report.atoms_written += len(columns.positions)
    for column in columns.fields:
        report.labels[label_of(column)] += n if column.mask is None else int(np.sum(column.mask))
