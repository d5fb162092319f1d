"""Structures from Parquet files, one per row, and from folders of them.

Positions and other values of atoms are lists, nested or flat. Files of ``parquet_writing`` are read
as they were written, and data sets that ``public_sets`` knows by their columns with their names,
units and signs; other files by common names, or with ``keys``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.keys import SourceNames
from atompack_torch.conversion.sources.parquet_blocks import BlockReader, Field
from atompack_torch.conversion.sources.parquet_plan import ColumnPlanner, written_fields
from atompack_torch.conversion.sources.public_sets import PublicSet
from atompack_torch.conversion.sources.systems import BLOCK_STRUCTURES
from atompack_torch.conversion.targets.parquet import METADATA, TARGET, open_target
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import PREFIXES
from atompack_torch.formats.conversion_report import Report, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.options import bytes_at, files_in

__all__ = ["TARGET", "count", "open_source", "open_target", "read"]

# Types of columns, which are read from elsewhere.
_OWN_METADATA = {b"ARROW:schema", b"pandas", b"huggingface", METADATA.encode()}
_SUFFIX = ".parquet"
_BUFFER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 22  # of all columns


class _Plan(NamedTuple):
    """Interpretation of one file.

    Attributes:
        path: path of the file.
        n_rows: number of its structures.
        fields: the columns to read.
        known: the public set that it belongs to; None: another file.
    """

    path: str
    n_rows: int
    fields: list[Field]
    known: PublicSet | None


def open_source(path: str, options: SourceOptions) -> Source:
    """Opens a file, or a folder of files that are read in the order of their paths."""
    keys = options.keys
    read_blocks = partial(read, path, keys)
    return Source(
        path,
        read_blocks,
        partial(count, path, keys),
        lambda: bytes_at(Path(path), _SUFFIX),
        maps_keys=True,
        is_arrays=True,
        read_range=read_blocks,
        names=partial(_names, path, keys),
        keeps_open=_is_own(path),
    )


def _is_own(path: str) -> bool:
    """True if ``convert`` wrote the first of the files, so that what it lacks was not there."""
    files = _files(path)
    if not files:
        return False
    with _opened(files[0]) as file, naming_damage(path):
        return bool(written_fields(file.metadata.metadata))


def _files(path: str) -> list[str]:
    place = Path(path)
    return files_in(place, _SUFFIX) if place.is_dir() else [path]


def _names(path: str, keys: Mapping[str, str]) -> set[str]:
    """Returns the names of all fields, with all scopes that their values may have."""
    targets = {
        field.target for plan in _plans(path, keys, Report(n_sources=0)) for field in plan.fields
    }
    names = {key for _, key in targets}
    return names.union(*({prefix + key for prefix in PREFIXES.values()} for key in names))


def count(path: str, keys: Mapping[str, str]) -> int:
    """Counts the structures, by the footers of the files.

    Args:
        path: a file, or a folder.
        keys: name in the file → name here.

    Returns:
        The number of rows of all files that have positions.

    Raises:
        CorruptFileError: a footer is damaged.
        FieldError: no file has positions.
    """
    return sum(plan.n_rows for plan in _plans(path, keys, Report(n_sources=0)))


def read(
    path: str, keys: Mapping[str, str], report: Report, first: int = 0, last: int | None = None
) -> Iterator[Columns]:
    """Yields the structures in blocks, in order, in the types of the file.

    Memory holds a block, and the pages of a row group that it needs.

    Args:
        path: a file, or a folder, whose files are read in the order of their paths.
        keys: name of a column, or ``COLUMN.PART`` of a column of structs → name here:
            ``positions``, ``atomic_numbers``, a label, or a property, with its scope
            (``atom_properties/q``) where the shape is ambiguous. Values of these columns stay as
            they are, whatever the set.
        report: receives the interpretation of columns and what was dropped.
        first: number of the first structure.
        last: one past the last structure; None: all.

    Yields:
        Blocks of structures.

    Raises:
        FieldError: a column is missing, or no file has positions.
        CorruptFileError: a file is damaged, or a structure is incomplete.
    """
    start = 0
    for plan in _plans(path, keys, report):
        low = max(first - start, 0)
        high = plan.n_rows if last is None else min(last - start, plan.n_rows)
        if low < high:
            reader = BlockReader(plan.path, plan.fields, plan.known, report)
            for batch, row in _batches(plan, low, high):
                with naming_damage(f"{plan.path}: from row {row} on"):
                    columns = reader.columns(batch, start + row)
                if columns is not None:
                    yield columns
        start += plan.n_rows


def _opened(path: str) -> Any:
    import pyarrow.parquet

    check_regular_file(path)
    with naming_damage(f"{path}: no Parquet file"):
        return pyarrow.parquet.ParquetFile(
            path, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
        )


def _batches(plan: _Plan, low: int, high: int) -> Iterator[tuple[Any, int]]:
    """Yields batches of the rows of a range, with the number of their first row."""
    columns = [".".join(field.path) for field in plan.fields]
    with _opened(plan.path) as file:
        with naming_damage(plan.path):
            size = _rows_of_block(file.metadata)
        for groups, start in _row_groups(file.metadata, size, low, high):
            # One reader for all groups would keep their buffers to its end.
            batches = file.iter_batches(size, row_groups=groups, columns=columns)
            row = start
            while True:
                with naming_damage(f"{plan.path}: from row {row} on"):
                    batch = next(batches, None)
                if batch is None:
                    break
                begin, stop = max(low - row, 0), min(high - row, len(batch))
                if begin < stop:
                    yield batch.slice(begin, stop - begin), row + begin
                row += len(batch)
            expected = sum(file.metadata.row_group(i).num_rows for i in groups)
            if row - start != expected:
                raise CorruptFileError(f"{plan.path}: expected {expected} rows, got {row - start}")


def _row_groups(metadata: Any, size: int, low: int, high: int) -> Iterator[tuple[list[int], int]]:
    """Yields runs of row groups with at least ``size`` rows, with the number of their first."""
    groups: list[int] = []
    first = start = 0
    for i in range(metadata.num_row_groups):
        end = start + metadata.row_group(i).num_rows
        if end > low and start < high:
            first = first if groups else start
            groups.append(i)
        if groups and end - first >= size:
            yield groups, first
            groups = []
        start = end
    if groups:
        yield groups, first


def _rows_of_block(metadata: Any) -> int:
    """Returns the number of structures per block, by the mean size of a row."""
    # Not by the numbers of values of columns: on damaged footers, asking for them ends the process.
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    n_rows = max(sum(group.num_rows for group in groups), 1)
    row_bytes: int = sum(group.total_byte_size for group in groups) // n_rows
    return max(1, min(BLOCK_STRUCTURES, _BLOCK_BYTES // max(row_bytes, 1)))


def _plans(path: str, keys: Mapping[str, str], report: Report) -> list[_Plan]:
    """Returns the interpretation of each file that has structures."""
    plans, given = [], SourceNames(keys, report)
    for name in _files(path):
        with _opened(name) as file:
            with naming_damage(name):
                schema, n_rows = file.schema_arrow, file.metadata.num_rows
                metadata = file.metadata.metadata or {}
            written = written_fields(metadata)
            for key in metadata.keys() - _OWN_METADATA:
                report.skip(f"metadata {key.decode(errors='replace')!r}", "of the whole file")
        plan = ColumnPlanner(name, schema, written, given, report)
        if plan.has_positions:
            plans.append(_Plan(name, n_rows, plan.fields(), plan.known))
        elif Path(path).is_dir():
            report.skip(f"file {Path(name).name!r}", "it has no column of positions")
    given.check_all_found(path, "no column")
    if not plans:
        raise FieldError(f"{path}: expected a column of positions, got none: name it in key_map")
    return plans
