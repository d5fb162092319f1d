"""Molecules from Parquet files, one per row, and from folders of them.

Positions and other per-atom values are lists, nested or flat. Files of ``parquet_writing`` are read
as they were written, and datasets that ``public_sets`` knows by their columns with their names,
units and signs; other files by common names, or with ``keys``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.keys import SourceNames, field_of
from atompack_torch.conversion.sources.parquet_blocks import (
    BlockReader,
    Field,
    Layout,
    form_of,
)
from atompack_torch.conversion.sources.public_sets import (
    COMMON_DERIVED,
    COMMON_NAMES,
    PublicSet,
    public_set,
    warn_of_stress,
)
from atompack_torch.conversion.sources.systems import BLOCK_STRUCTURES
from atompack_torch.conversion.targets.parquet import METADATA, TARGET, fields_of, open_target
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import BUILTIN, MOLECULE_PROPERTY, PREFIXES, FieldId, prefixed_id
from atompack_torch.formats.conversion_report import Report, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.options import bytes_at, files_in, short_list

__all__ = ["TARGET", "count", "open_source", "open_target", "read"]

# Types of columns, which are read from elsewhere.
_OWN_METADATA = {b"ARROW:schema", b"pandas", b"huggingface", METADATA.encode()}
_SUFFIX = ".parquet"
_BUFFER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 22  # of all columns
_STRUCTURE = ("positions", "atomic_numbers")


class _Plan(NamedTuple):
    """Interpretation of one file.

    Attributes:
        path: path of the file.
        n_rows: number of its molecules.
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
    """Counts the molecules, by the footers of the files.

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
    """Yields the molecules in blocks, in order, in the types of the file.

    Memory holds a block, and the pages of a row group that it needs.

    Args:
        path: a file, or a folder, whose files are read in the order of their paths.
        keys: name of a column, or ``COLUMN.PART`` of a column of structs → name here:
            ``positions``, ``atomic_numbers``, a label, or a property, with its scope
            (``atom_properties/q``) where the shape is ambiguous. Values of these columns stay as
            they are, whatever the set.
        report: receives the interpretation of columns and what was dropped.
        first: number of the first molecule.
        last: one past the last molecule; None: all.

    Yields:
        Blocks of molecules.

    Raises:
        FieldError: a column is missing, or no file has positions.
        CorruptFileError: a file is damaged, or a molecule is incomplete.
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
    with naming_damage(f"{path}: not a Parquet file"):
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
    """Returns the number of molecules per block, by the mean size of a row."""
    # Not by the numbers of values of columns: on damaged footers, asking for them kills the
    # process.
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    n_rows = max(sum(group.num_rows for group in groups), 1)
    row_bytes: int = sum(group.total_byte_size for group in groups) // n_rows
    return max(1, min(BLOCK_STRUCTURES, _BLOCK_BYTES // max(row_bytes, 1)))


def _plans(path: str, keys: Mapping[str, str], report: Report) -> list[_Plan]:
    """Returns the interpretation of each file that has structures."""
    plans, given, names = [], SourceNames(keys, report), set[str]()
    for name in _files(path):
        with _opened(name) as file:
            with naming_damage(name):
                schema, n_rows = file.schema_arrow, file.metadata.num_rows
                metadata = file.metadata.metadata or {}
            written = written_fields(metadata)
            for key in metadata.keys() - _OWN_METADATA:
                report.skip(f"metadata {key.decode(errors='replace')!r}", "of the whole file")
        names |= {*schema.names}
        plan = ColumnPlanner(name, schema, written, given, report)
        if plan.has_positions:
            plans.append(_Plan(name, n_rows, plan.fields(), plan.known))
        elif Path(path).is_dir():
            report.skip(f"file {Path(name).name!r}", "it has no column of positions")
    given.check_all_found(path, "no column")
    if not plans:
        columns = short_list(map(repr, sorted(names)), len(names))
        raise FieldError(
            f"{path}: expected a column of positions, got {columns}: map one by key_map (--key)"
        )
    return plans


def written_fields(metadata: Mapping[bytes, bytes] | None) -> dict[str, tuple[str, Layout]]:
    """Returns the fields of the columns of a file that ``parquet_writing`` wrote.

    Args:
        metadata: the metadata of the file.

    Returns:
        Column → name of its field with its scope, and its layout; empty for other files.
    """
    found = {}
    for column, entry in fields_of(metadata).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("field"), str):
            continue
        shape, is_of_atoms = entry.get("shape"), entry.get("level") == "atom"
        is_known = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
        layout = Layout(is_of_atoms, tuple(shape or ()) if is_known else None)
        found[column] = entry["field"], layout
    return found


class ColumnPlanner:
    """Assigns the columns of one file to fields.

    Args:
        path: path of the file, for messages.
        schema: its schema.
        written: column → field and layout, of a file that was written here; empty for others.
        given: names that ``key_map`` gives to columns.
        report: receives what is omitted.

    Attributes:
        known: the public set that the file belongs to; None: another file.
        has_positions: True if one of its columns is the positions.
    """

    def __init__(
        self,
        path: str,
        schema: Any,
        written: Mapping[str, tuple[str, Layout]],
        given: SourceNames,
        report: Report,
    ) -> None:
        self._path, self._given, self._report = path, given, report
        self._columns = dict(zip(schema.names, schema.types, strict=True))
        stated = {field.name: field.metadata or {} for field in schema}
        self._units = {name: m.get(b"units") or m.get(b"unit") for name, m in stated.items()}
        self.known = None if written else public_set(self._columns)
        self._names: Mapping[str, str] = COMMON_NAMES
        self._derived = COMMON_DERIVED
        if self.known is not None:
            self._names = self.known.names
            self._derived = self.known.derived
        elif written:
            self._names = {column: field for column, (field, _) in written.items()}
            self._derived = frozenset()
        self._layouts = {column: layout for column, (_, layout) in written.items()}
        self._parts = {key: part for key in given.keys if (part := self._part_of(key)) is not None}
        targets = [given.here(key, key, "column") for key in self._parts]
        others = [name for name in self._columns if name not in given.keys]
        targets += [self._names.get(name, name) for name in others]
        self.has_positions = "positions" in targets

    def _part_of(self, key: str) -> tuple[tuple[str, ...], Any] | None:
        """Returns the column of a key with the parts of its structs, and their type, if any."""
        if key in self._columns:
            return (key,), self._columns[key]
        name, *parts = key.split(".")
        type_ = self._columns.get(name)
        for part in parts:
            if type_ is None or not _is_struct(type_) or type_.get_field_index(part) < 0:
                return None
            type_ = type_.field(part).type
        return None if type_ is None else ((name, *parts), type_)

    def fields(self) -> list[Field]:
        """Returns the columns to read.

        Returns:
            The columns, with their interpretation.

        Raises:
            FieldError: positions or atomic numbers are missing, or two columns are one label.
        """
        given = [
            self._field(key, *part, self._given.keys[key]) for key, part in self._parts.items()
        ]
        found = [*given, *map(self._column, self._columns)]
        fields = [field for field in found if field is not None]
        targets = [field.target for field in fields]
        for name in _STRUCTURE:
            if FieldId(BUILTIN, name) not in targets:
                what = "positions" if name == "positions" else "atomic numbers or symbols"
                raise FieldError(
                    f"{self._path}: expected a column of {what}, got none: name it in key_map"
                )
        may_repeat = self.known.names if self.known is not None else ()
        for i, field in enumerate(fields):
            if field.target in targets[:i] and field.column not in may_repeat:
                other = fields[targets.index(field.target)].column
                both = f"{other!r} and {field.column!r}"
                what = field.target.key
                raise FieldError(f"{self._path}: {both} could both be {what}: say which in key_map")
        self._report_names(fields)
        return fields

    def _column(self, name: str) -> Field | None:
        """Returns the field of a column that ``keys`` do not name; None if it is omitted."""
        if name in self._parts:
            return None
        here = self._given.here(name, self._names.get(name, name), "column")
        if here is not None and name in self._derived:
            self._report.skip(f"column {name!r}", "it follows from the molecule")
        if here is None or name in self._derived or form_of(self._columns[name])[0] == "null":
            return None
        return self._field(name, (name,), self._columns[name], here)

    def _field(self, key: str, path: tuple[str, ...], type_: Any, name: str) -> Field | None:
        """Returns the field of a column, or part of one, by its name here; None: omitted."""
        target, is_given, fault = _target(name), key in self._given.keys, ""
        kind, depth = form_of(type_)
        if kind not in ("number", "string"):
            part = " (key_map can name its parts, COLUMN.PART)" if _is_struct(type_) else ""
            fault = f"neither numbers nor strings{part}"
        elif kind == "string" and not _holds_text(target, depth):
            fault = "lists of strings" if depth else "text, where numbers are expected"
        if fault and is_given:
            raise FieldError(
                f"{self._path}: key_map: {key!r} holds {type_}, which cannot be {name}"
            )
        if fault:
            self._report.skip(f"column {key!r}", fault)
            return None
        layout = self._layouts.get(key) if target.scope != BUILTIN and not is_given else None
        is_leveled = target.scope == BUILTIN or prefixed_id(name) is not None
        return Field(key, path, target, kind, is_leveled, is_given, layout)

    def _report_names(self, fields: list[Field]) -> None:
        report, known = self._report, self.known
        if known is not None:
            report.note(f"read as {known.title}: {known.units}")
        for field in fields:
            if unit := self._units.get(field.column):
                report.units[field.target.key] = unit.decode(errors="replace")
            if field.column != field.target.key and field.target.scope == BUILTIN:
                report.origin(field.target.key, field.column)
            if known is None or field.is_given or field.target.key != "stress":
                continue
            if known.stress == "unknown":
                warn_of_stress(known.title, field.column, report)


def _target(name: str) -> FieldId:
    return FieldId(BUILTIN, name) if name in _STRUCTURE else field_of(name, MOLECULE_PROPERTY)


def _holds_text(target: FieldId, depth: int) -> bool:
    """True if a field can hold (lists of) strings: symbols, a name, or a property."""
    if target == (BUILTIN, "atomic_numbers"):
        return depth == 1
    return depth == 0 and (target == (BUILTIN, "name") or target.scope == MOLECULE_PROPERTY)


def _is_struct(type_: Any) -> bool:
    import pyarrow.types as of

    return bool(of.is_struct(type_))
