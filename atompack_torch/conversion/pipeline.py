"""Conversion of sources to a target, block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from atompack_torch.conversion.changes import Changes
from atompack_torch.conversion.checks import checked
from atompack_torch.conversion.converter import Mode, Source, TargetOptions, TargetTraits
from atompack_torch.conversion.formats import open_source, open_target, target_format, traits_of
from atompack_torch.conversion.hints import name_warnings, no_labels_warning
from atompack_torch.conversion.keys import KeyMap, label_of
from atompack_torch.conversion.missing import nan_as_missing
from atompack_torch.conversion.remote_ends import RemoteEnds
from atompack_torch.conversion.report import OnError, Report
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.conversion.text_files import STDIN
from atompack_torch.errors import CorruptFileError, file_exists
from atompack_torch.fields import BUILTIN
from atompack_torch.formats import Format
from atompack_torch.options import bytes_at, check_level, checked_path, is_url
from atompack_torch.progress import Progress
from atompack_torch.writers.atp import Codec
from atompack_torch.writers.columns import Column, Columns

_Path = str | os.PathLike[str]


def convert(
    src: _Path | Sequence[_Path],
    dst: _Path,
    *,
    format: str | None = None,  # noqa: A002  (the word users look for)
    target: str | None = None,
    codec: Codec | None = None,
    level: int = 3,
    shards: tuple[int, int, int] | None = None,
    mode: Literal["x", "w", "a"] = "x",
    keys: Mapping[str, str] | None = None,
    padding: int | None = None,
    changes: Changes | None = None,
    nan_is_missing: bool = True,
    on_error: OnError = "raise",
    progress: bool = True,
    storage_options: Mapping[str, object] | None = None,
) -> Report:
    """Converts atomistic data to ``.atp``, or from it to shards, extended XYZ or an ASE database.

    Structures are streamed in blocks, so memory does not grow with the files (unless ASE's own
    reader loads a file whole). The output appears under its name when it is complete; after an
    error or an interrupt ``dst`` is unchanged. Values, units and signs are preserved, apart from
    ``changes`` and all-NaN labels, which become missing; values that the target cannot represent
    are left out and counted in the report, which also warns of likely mistakes.

    The types of a property must agree within an ``.atp`` file: if they differ between structures
    and a wider type holds all of them, that type is used (the sources are then read a second
    time).

    Args:
        src: a file, a folder of ``.atp`` shards or of Atlas shards, or several of them, which are
            concatenated. Extended XYZ may be compressed (gzip, bzip2, xz), a FIFO, or ``"-"`` for
            standard input; its text is then kept in a temporary file (see ``TMPDIR``). URLs of
            ``.atp`` files are read where they are, all others are downloaded first.
        dst: the file to create; for a URL it is made in the temporary folder and then uploaded.
        format: format of the sources: ``"atp"``, ``"shards"``, ``"extxyz"``, ``"ase-db"``,
            ``"npz"``, ``"hdf5"``, ``"mace-hdf5"``, ``"deepmd"``, ``"ase"`` (any that ASE reads) or
            ``"ase:NAME"`` (with ASE's name for it); None: detected by content, and by suffix where
            that does not tell.
        target: ``"atp"``, ``"shards"``, ``"extxyz"`` or ``"ase-db"``; None: by the suffix of
            ``dst``, which shards do not have.
        codec: codec of an ``.atp`` target, as for ``AtpWriter``.
        level: compression level.
        shards: examples per shard, examples per block and strategy, as for ``ShardWriter``; None:
            10000, 100 and 2.
        mode: ``"x"`` rejects an existing ``dst``, ``"w"`` replaces it (except shards), ``"a"``
            appends to an ``.atp``.
        keys: name in the source → label or property here, e.g. ``{"REF_energy": "energy"}``.
        padding: atomic number of padding rows in NPZ and HDF5 files.
        changes: changes of units, signs and dtypes.
        nan_is_missing: labels that are all NaN in a structure become missing, and are counted;
            False: they stay NaN.
        on_error: ``"skip"`` leaves out structures that cannot be read, and counts them.
        progress: show a progress bar on stderr.
        storage_options: options of the store of URLs; see ``AtpDataset``.

    Returns:
        Counts of what was read, written, changed and left out, with warnings.

    Raises:
        FileExistsError: ``mode="x"`` and ``dst`` exists.
        CorruptFileError: a structure cannot be read.
        UnsupportedFormatError: a source is a socket or a device, or a pipe with another format than
            extended XYZ.
        FieldError: a label has the wrong shape, or a name in ``keys`` occurs in no structure.
    """
    if mode not in ("x", "w", "a"):
        raise ValueError(f"mode: expected x, w or a, got {mode!r}")
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error: expected raise or skip, got {on_error!r}")
    paths = [src] if isinstance(src, (str, os.PathLike)) else [*src]
    if not paths:
        raise ValueError("src: expected at least one file, got none")
    remote = RemoteEnds(storage_options, progress=progress)
    known = target_format(dst, target)
    traits = traits_of(known)
    with remote:
        dst, mode = remote.target(dst, mode, has_shards=traits.has_shards)
        paths = [remote.source(path, format) for path in paths]
        for path in (*(path for path in paths if not is_url(path)), dst):
            checked_path(path)
        _check_target(dst, known, traits, mode, codec, level, shards)
        _check_ends(paths, dst, mode, traits)
        sources = [
            open_source(path, format, keys or {}, padding, storage_options) for path in paths
        ]
        fit = None
        if traits.has_schema:
            fit = SchemaUnifier.of_file(dst) if mode == "a" else SchemaUnifier()
        job = _Job(
            sources,
            keys or {},
            dst,
            known,
            codec,
            level,
            shards,
            mode == "a",
            changes or Changes(),
            nan_is_missing,
            progress,
        )
        try:
            return _run(job, on_error, fit)
        finally:
            for source in sources:
                source.close()


def _check_ends(paths: Sequence[_Path], dst: _Path, mode: Mode, traits: TargetTraits) -> None:
    """Raises if the target is a source, or exists and must not."""
    local = [path for path in paths if os.fspath(path) != STDIN and not is_url(path)]
    files = [path for path in local if Path(path).exists()]
    if any(Path(dst).exists() and Path(dst).samefile(path) for path in files):
        raise ValueError(f"{dst}: is a source itself")
    if mode == "x" and Path(dst).exists():
        raise file_exists(dst, _instead(traits))


def _check_target(
    dst: _Path,
    known: Format,
    traits: TargetTraits,
    mode: Mode,
    codec: Codec | None,
    level: int,
    shards: tuple[int, int, int] | None,
) -> None:
    """Raises ValueError if targets of the format do not have an option."""
    if mode == "a" and mode not in traits.modes:
        raise ValueError(f"mode: {dst} is of format {known.source}, which is not appended to")
    if mode == "w" and mode not in traits.modes and Path(dst).exists():
        raise ValueError(f"mode: {known.source} are not replaced, take {dst} away first")
    if shards is not None and not traits.has_shards:
        raise ValueError(f"shards: only shards have them, {dst} is of format {known.source}")
    if traits.codecs:
        check_level(traits.codecs[0] if len(traits.codecs) == 1 else codec, level)


def _instead(traits: TargetTraits) -> str:
    """Returns the advice for a target that exists."""
    actions = {"w": "mode='w' replaces it", "a": "mode='a' appends to it"}
    offered = [text for mode, text in actions.items() if mode in traits.modes]
    return ", ".join(offered) or "remove it, or choose another path"


def _run(job: _Job, on_error: OnError, fit: SchemaUnifier | None) -> Report:
    report = Report(on_error)
    if not job.run(report, fit):  # types were too narrow; now they are all known
        report = Report(on_error)
        if not job.run(report, fit):
            raise CorruptFileError(f"{job.dst}: expected sources that stay as they are")
    return report


class _Job(NamedTuple):
    """One conversion, ready to run."""

    sources: list[Source]
    keys: Mapping[str, str]
    dst: _Path
    target: Format
    codec: Codec | None
    level: int
    shards: tuple[int, int, int] | None
    append: bool
    changes: Changes
    nan_is_missing: bool
    progress: bool

    def run(self, report: Report, fit: SchemaUnifier | None) -> bool:
        """Converts everything; False if types turned out too narrow, and nothing was written."""
        counts = [source.count() for source in self.sources]
        total = None if None in counts else sum(n for n in counts if n is not None)
        blocks = self._blocks(report)
        label = Path(self.dst).name
        with Progress(total, "structures", label=label, enabled=self.progress) as bar:
            try:
                self._write(blocks, report, fit, bar)
            except _TooNarrowError:
                assert fit is not None
                for columns in blocks:
                    fit.learn(columns)
                    bar.update(len(columns.ptr) - 1)
                return False
        self._say(report)
        report.bytes_read = sum(source.n_bytes() for source in self.sources)
        report.bytes_written = bytes_at(Path(self.dst))
        report.finish()
        return True

    def _say(self, report: Report) -> None:
        """Adds changes and warnings to the report."""
        report.changes += self.changes.describe(report.changed)
        report.source_units += self.changes.source_units(report.labels)
        n = report.structures_written
        warnings = [
            *name_warnings(report.sources, self.changes),
            *(self.changes.unused(report.changed) if n else ()),
        ]
        for warning in self.changes.unit_warnings(report.labels):
            report.note(warning)
        for warning in warnings:
            report.warn(warning)

    def _write(
        self, blocks: Iterator[Columns], report: Report, fit: SchemaUnifier | None, bar: Progress
    ) -> None:
        options = TargetOptions(report, self.append, self.codec, self.level, self.shards)
        with open_target(self.dst, self.target, options) as target:
            for columns in blocks:
                if fit is not None:
                    if fit.learn(columns):
                        raise _TooNarrowError
                    columns = fit.fit(columns, report)
                target.write(columns)
                _count(columns, report)
                bar.update(len(columns.ptr) - 1)

    def _blocks(self, report: Report) -> Iterator[Columns]:
        """Yields the blocks of all sources, checked and changed."""
        for source in self.sources:
            keys = KeyMap({} if source.maps_keys else self.keys, report)
            if source.note:
                report.note(source.note)
            first = 0
            fields: dict[str, None] = {}
            for columns in _until_fault(source.read(report), report):
                n = len(columns.ptr) - 1
                report.structures_read += n
                columns = checked(keys.apply(columns), source.path, first, report)
                if self.nan_is_missing:
                    columns = nan_as_missing(columns, report)
                _count_changes(columns, changed := self.changes.apply(columns, report), report)
                fields |= {label_of(column): None for column in changed.fields}
                yield changed
                first += n
            keys.check_all_found()
            warning = no_labels_warning(fields, report.skipped, is_arrays=source.is_arrays)
            if first and warning:
                report.warn(f"{source.path}: {warning}")


def _until_fault(blocks: Iterator[Columns], report: Report) -> Iterator[Columns]:
    """Yields blocks up to a fault that the reader cannot recover from; it skips others itself."""
    try:
        yield from blocks
    except CorruptFileError as error:
        if report.on_error == "raise":
            raise
        report.skip("the rest of a file", str(error))


class _TooNarrowError(Exception):
    """A type already written turned out too narrow."""


def _count_changes(before: Columns, after: Columns, report: Report) -> None:
    """Counts the structures that have each label, and those whose label got another type."""
    n = len(after.ptr) - 1
    report.changed["positions"] += n
    if after.positions.dtype != before.positions.dtype:
        report.changed["dtype positions"] += n
    old = {column[:2]: column for column in before.fields}
    for column in after.fields:
        if column.scope == BUILTIN:
            count = n if column.mask is None else int(np.sum(column.mask))
            report.changed[column.key] += count
            if _dtypes(column) != _dtypes(old[column[:2]]):
                report.changed[f"dtype {column.key}"] += count


def _dtypes(column: Column) -> set[str]:
    values = [column.values] if isinstance(column.values, np.ndarray) else column.values
    return {str(value.dtype) for value in values if isinstance(value, np.ndarray)}


def _count(columns: Columns, report: Report) -> None:
    n = len(columns.ptr) - 1
    report.structures_written += n
    report.atoms_written += len(columns.positions)
    for column in columns.fields:
        report.labels[label_of(column)] += n if column.mask is None else int(np.sum(column.mask))
