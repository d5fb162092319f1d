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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as of

from atompack_torch._native import check_regular_file
from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.keys import ELEMENTS, SourceNames, field_of
from atompack_torch.conversion.sources.public_sets import (
    COMMON_DERIVED,
    COMMON_NAMES,
    public_set,
    stress_from_vasp,
    warn_of_stress,
)
from atompack_torch.conversion.sources.systems import BLOCK_STRUCTURES
from atompack_torch.conversion.targets.parquet import (
    METADATA,
    NUMBERS,
    POSITIONS,
    TARGET,
    fields_of,
    open_target,
)
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    PREFIXES,
    FieldId,
    prefixed_id,
)
from atompack_torch.formats.conversion_report import Report, naming_damage
from atompack_torch.formats.converter import Source, SourceOptions
from atompack_torch.formats.records import filled, stress_of_six
from atompack_torch.options import bytes_at, files_in, short_list

__all__ = ["TARGET", "count", "open_source", "open_target", "read"]

# Types of columns, which are read from elsewhere.
_OWN_METADATA = {b"ARROW:schema", b"pandas", b"huggingface", METADATA.encode()}
_SUFFIX = ".parquet"
_BUFFER_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 22  # of all columns
_STRUCTURE = (POSITIONS, NUMBERS)
_VOIGT = (6,)


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
            reader = BlockReader(plan, report)
            for batch, row in _batches(plan, low, high):
                with naming_damage(f"{plan.path}: from row {row} on"):
                    columns = reader.columns(batch, start + row)
                if columns is not None:
                    yield columns
        start += plan.n_rows


def _opened(path: str) -> Any:
    check_regular_file(path)
    with naming_damage(f"{path}: not a Parquet file"):
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, page_checksum_verification=True)


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
    given = SourceNames(keys, report)
    found = [_Plan(name, given, report) for name in _files(path)]
    plans = [plan for plan in found if plan.has_positions]
    for plan in found:
        if not plan.has_positions and Path(path).is_dir():
            report.skip(f"file {Path(plan.path).name!r}", "it has no column of positions")
    given.check_all_found(path, "no column")
    if not plans:
        names = {name for plan in found for name in plan.columns}
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


class _Plan:
    """Interpretation of one file: assigns its columns to fields.

    Args:
        path: path of the file.
        given: names that ``key_map`` gives to columns.
        report: receives what is omitted.

    Attributes:
        path: path of the file.
        n_rows: number of its molecules.
        columns: name of a column → its type.
        known: the public set that the file belongs to; None: another file.
        has_positions: True if one of its columns is the positions.
        fields: the columns to read, if it has positions.

    Raises:
        FieldError: atomic numbers are missing, or two columns are one label.
    """

    def __init__(self, path: str, given: SourceNames, report: Report) -> None:
        self.path, self._given, self._report = path, given, report
        with _opened(path) as file, naming_damage(path):
            schema, metadata = file.schema_arrow, file.metadata.metadata or {}
            self.n_rows: int = file.metadata.num_rows
        for key in metadata.keys() - _OWN_METADATA:
            report.skip(f"metadata {key.decode(errors='replace')!r}", "of the whole file")
        written = written_fields(metadata)
        self.columns = dict(zip(schema.names, schema.types, strict=True))
        stated = {field.name: field.metadata or {} for field in schema}
        self._units = {name: m.get(b"units") or m.get(b"unit") for name, m in stated.items()}
        self.known = None if written else public_set(self.columns)
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
        others = [name for name in self.columns if name not in given.keys]
        targets += [self._names.get(name, name) for name in others]
        self.has_positions = "positions" in targets
        self.fields = self._found_fields() if self.has_positions else []

    def _part_of(self, key: str) -> tuple[tuple[str, ...], Any] | None:
        """Returns the column of a key with the parts of its structs, and their type, if any."""
        if key in self.columns:
            return (key,), self.columns[key]
        name, *parts = key.split(".")
        type_ = self.columns.get(name)
        for part in parts:
            if type_ is None or not of.is_struct(type_) or type_.get_field_index(part) < 0:
                return None
            type_ = type_.field(part).type
        return None if type_ is None else ((name, *parts), type_)

    def _found_fields(self) -> list[Field]:
        """Returns the columns to read.

        Returns:
            The columns, with their interpretation.

        Raises:
            FieldError: positions or atomic numbers are missing, or two columns are one label.
        """
        given = [
            self._field(key, *part, self._given.keys[key]) for key, part in self._parts.items()
        ]
        found = [*given, *map(self._column, self.columns)]
        fields = [field for field in found if field is not None]
        targets = [field.target for field in fields]
        for part in _STRUCTURE:
            if part not in targets:
                what = "positions" if part == POSITIONS else "atomic numbers or symbols"
                raise FieldError(
                    f"{self.path}: expected a column of {what}, got none: name it in key_map"
                )
        may_repeat = self.known.names if self.known is not None else ()
        for i, field in enumerate(fields):
            if field.target in targets[:i] and field.column not in may_repeat:
                other = fields[targets.index(field.target)].column
                both = f"{other!r} and {field.column!r}"
                what = field.target.key
                raise FieldError(f"{self.path}: {both} could both be {what}: say which in key_map")
        self._report_names(fields)
        return fields

    def _column(self, name: str) -> Field | None:
        """Returns the field of a column that ``keys`` do not name; None if it is omitted."""
        if name in self._parts:
            return None
        here = self._given.here(name, self._names.get(name, name), "column")
        if here is not None and name in self._derived:
            self._report.skip(f"column {name!r}", "it follows from the molecule")
        if here is None or name in self._derived or form_of(self.columns[name])[0] == "null":
            return None
        return self._field(name, (name,), self.columns[name], here)

    def _field(self, key: str, path: tuple[str, ...], type_: Any, name: str) -> Field | None:
        """Returns the field of a column, or part of one, by its name here; None: omitted."""
        target, is_given, fault = _target(name), key in self._given.keys, ""
        kind, depth = form_of(type_)
        if kind not in ("number", "string"):
            part = " (key_map can name its parts, COLUMN.PART)" if of.is_struct(type_) else ""
            fault = f"neither numbers nor strings{part}"
        elif kind == "string" and not _holds_text(target, depth):
            fault = "lists of strings" if depth else "text, where numbers are expected"
        if fault and is_given:
            raise FieldError(f"{self.path}: key_map: {key!r} holds {type_}, which cannot be {name}")
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
    own = FieldId(BUILTIN, name)
    return own if own in _STRUCTURE else field_of(name, MOLECULE_PROPERTY)


def _holds_text(target: FieldId, depth: int) -> bool:
    """True if a field can hold (lists of) strings: symbols, a name, or a property."""
    if target == NUMBERS:
        return depth == 1
    return depth == 0 and (target == (BUILTIN, "name") or target.scope == MOLECULE_PROPERTY)


class Layout(NamedTuple):
    """Level and shape of the values of a property.

    Attributes:
        is_of_atoms: True if it has rows of atoms.
        shape: shape of a row, or of the value of a molecule; None if it varies.
    """

    is_of_atoms: bool
    shape: tuple[int, ...] | None


_UNKNOWN = Layout(is_of_atoms=True, shape=None)  # no atom has a value so far


class Field(NamedTuple):
    """A column to read.

    Attributes:
        column: its name in the file; with the name of a part, ``COLUMN.PART``.
        path: name of the column and, if it has structs, of the parts on the way to its values.
        target: the field that it becomes; ``positions`` and ``atomic_numbers`` as labels.
        kind: ``"number"`` or ``"string"``.
        is_leveled: True if the target says whether there are values of atoms.
        is_given: True if ``keys`` names it, and values stay as they are.
        layout: its level and row shape; None: learned from its values.
    """

    column: str
    path: tuple[str, ...]
    target: FieldId
    kind: str
    is_leveled: bool
    is_given: bool
    layout: Layout | None = None


class BlockReader:
    """Converts the batches of one file.

    Args:
        plan: the interpretation of the file.
        report: receives molecules that are refused, and values that are omitted.
    """

    def __init__(self, plan: _Plan, report: Report) -> None:
        self._path, self._known, self._report = plan.path, plan.known, report
        self._structure = {f.target.key: f for f in plan.fields if f.target in _STRUCTURE}
        self._fields = [field for field in plan.fields if field.target not in _STRUCTURE]
        self._layouts: dict[str, Layout | None] = {}

    def columns(self, batch: Any, first: int) -> Columns | None:
        """Converts a batch.

        Args:
            batch: an Arrow record batch.
            first: number of its first molecule in the source.

        Returns:
            The molecules; None if none of them is complete.

        Raises:
            CorruptFileError: a molecule is incomplete, unless such are skipped.
            FieldError: atomic numbers are neither integers nor symbols.
        """
        index = np.arange(len(batch)) + first
        while len(batch):
            fields = (*self._fields, *self._structure.values())
            block = _Block({field.column: leaves_of(_values_at(batch, field)) for field in fields})
            numbers = self._numbers(block)
            self._check_labels(block)
            if not block.faults:
                return self._made(block, numbers)
            for i, fault in sorted(block.faults.items()):
                self._report.refuse(
                    CorruptFileError(f"{self._path}: {fault} (molecule {int(index[i])})")
                )
            keep = np.delete(np.arange(len(batch)), [*block.faults])
            batch, index = batch.take(keep), index[keep]
        return None

    def _numbers(self, block: _Block) -> Array:
        """Returns the atomic numbers; finds molecules without them, or without positions."""
        field = self._structure["atomic_numbers"]
        found = block.leaves[field.column]
        block.n_atoms = np.diff(found.offsets)
        places = block.leaves[self._structure["positions"].column]
        for name, present in (
            ("atomic_numbers", found.present),
            ("positions", without_nulls(places)),
        ):
            for i in np.flatnonzero(~present).tolist():
                block.faults.setdefault(i, f"{name}: expected values, got null")
        block.fault_of_shape("positions", places, block.n_atoms, (3,))
        if field.kind == "string":
            indices, symbols = symbols_of(found)
            table = np.array([ELEMENTS.get(symbol, 0) for symbol in symbols] + [0], dtype=np.uint8)
            numbers = table[indices]
            for atom in np.flatnonzero((numbers == 0) & (indices >= 0)).tolist():
                i = int(np.searchsorted(found.offsets, atom, side="right")) - 1
                symbol = symbols[indices[atom]]
                block.faults.setdefault(i, f"expected symbols of elements, got {symbol!r:.40}")
            return numbers
        good = np.ones(len(found.present), dtype=bool)
        numbers = dense(found, good, block.n_atoms, ())
        if numbers.dtype.kind not in "iu":
            where = f"{self._path}: {field.column}"
            raise FieldError(f"{where}: expected integers or symbols, got {numbers.dtype}")
        return numbers

    def _check_labels(self, block: _Block) -> None:
        """Finds molecules with labels of other shapes."""
        for field in self._fields:
            if _is_label(field):
                found = block.leaves[field.column]
                counts, shape = self._form(block, field.target.key, found)
                block.fault_of_shape(field.column, found, counts, shape)

    def _form(self, block: _Block, key: str, found: Leaves) -> tuple[Array, tuple[int, ...]]:
        """Returns the number of rows of each molecule for a label, and their shape in the file."""
        shape, counts = BUILTINS[key].shape, block.counts(is_of_atoms=BUILTINS[key].level == "atom")
        if key == "pbc" and found.depth == 0:
            return counts, ()
        if key == "stress" and found.depth == 1 and found.present.any():
            first = int(found.counts[found.present][0])
            return counts, _VOIGT if first == _VOIGT[0] else shape
        return counts, shape

    def _made(self, block: _Block, numbers: Array) -> Columns:
        made: dict[FieldId, Column] = {}
        for field in self._fields:
            own = self._column(block, field)
            if own is not None and (own.mask is None or own.mask.any()):
                made[field.target] = filled(made.get(field.target), own, block.n_atoms)
        ptr = np.concatenate([[0], np.cumsum(block.n_atoms)])
        everything = np.ones(len(block.n_atoms), dtype=bool)
        found = block.leaves[self._structure["positions"].column]
        places = dense(found, everything, block.n_atoms, (3,))
        return Columns(places, numbers, ptr, [*made.values()])

    def _column(self, block: _Block, field: Field) -> Column | None:
        """Returns the values of a field; None if no molecule has it."""
        found = block.leaves[field.column]
        if not found.present.any():
            return None
        if _is_label(field):
            return self._label(block, field, found)
        if field.kind == "number" and field.target.scope != BUILTIN:
            return self._property(block, field, found)
        texts: Any = found.values.to_pylist()
        if field.kind == "number":  # a name
            texts = np.asarray(found.values).astype(str).tolist()
        return Column(*field.target, texts, _or_none(found.present))

    def _label(self, block: _Block, field: Field, found: Leaves) -> Column:
        key = field.target.key
        counts, shape = self._form(block, key, found)
        values = dense(found, found.present, counts, shape)
        if key == "pbc":
            values = np.broadcast_to(values.reshape(len(values), -1) != 0, (len(values), 3))
        if key == "stress":
            known = None if field.is_given else self._known
            if shape == _VOIGT:
                values = stress_of_six(values, self._report, is_voigt=known is not None)
            if known is not None and known.stress == "vasp":
                values = stress_from_vasp(values, self._report, field.column)
        return Column(BUILTIN, key, values, _or_none(found.present))

    def _property(self, block: _Block, field: Field, found: Leaves) -> Column | None:
        """Returns a numeric property; None if no molecule has it in the shape of the first."""
        if field.column not in self._layouts:
            learned = field.layout or self._layout(field, found, block.n_atoms)
            if learned is _UNKNOWN:  # not equal: rows of atoms may vary in shape, too
                return None
            self._layouts[field.column] = learned
        layout = self._layouts[field.column]
        what = f"column {field.column!r}"
        n_there = int(found.present.sum())
        if layout is None:
            self._report.skip(what, "its lists vary in length, and not with the atoms", n_there)
            return None
        counts = block.counts(is_of_atoms=layout.is_of_atoms)
        scope = ATOM_PROPERTY if layout.is_of_atoms else field.target.scope
        if layout.shape is None:
            good, entries = entries_of(found, counts if layout.is_of_atoms else None)
            made = Column(scope, field.target.key, entries, _or_none(good))
        else:
            good = fits(found, counts, layout.shape)
            values = dense(found, good, counts, layout.shape)
            made = Column(scope, field.target.key, values, _or_none(good))
        if n_lost := n_there - int(good.sum()):
            why = f"expected {'rows of atoms' if layout.is_of_atoms else layout.shape}, got others"
            self._report.skip(what, why, n_lost)
        return made if good.any() else None

    def _layout(self, field: Field, found: Leaves, n_atoms: Array) -> Layout | None:
        """Determines the level and the row shape of a property."""
        if found.depth == 0:
            return Layout(is_of_atoms=False, shape=())
        counts, n_atoms = found.counts[found.present], n_atoms[found.present]
        may_be_atoms = bool((counts == n_atoms).all())
        may_be_one = bool((counts == counts[0]).all())
        of_atoms = field.target.scope == ATOM_PROPERTY
        if not field.is_leveled:
            of_atoms = may_be_atoms
            if may_be_atoms and may_be_one:
                of_atoms = int(counts[0]) != 3 or found.depth > 1
                level = "each atom" if of_atoms else "the molecule"
                self._report.note(
                    f"{field.column!r} taken as a property of {level}; key_map can say otherwise"
                )
        if not (may_be_atoms if of_atoms else may_be_one):
            return None
        sizes = np.diff(found.offsets)[found.present]
        rows = counts if of_atoms else np.ones_like(counts)
        if not rows.sum():
            return _UNKNOWN
        n_values = int(sizes.sum()) // int(rows.sum())
        width = int(found.widths[0]) if found.widths is not None and len(found.widths) else 0
        n_axes = found.depth - of_atoms
        if n_axes == 0:
            return Layout(of_atoms, ())
        if n_axes == 1 or not width or n_values % width:
            return Layout(of_atoms, (n_values,))
        return Layout(of_atoms, (n_values // width, width))


class _Block:
    """Values of one batch, and the molecules found to be incomplete."""

    def __init__(self, leaves: dict[str, Leaves]) -> None:
        self.leaves = leaves
        self.faults: dict[int, str] = {}
        self.n_atoms = np.zeros(0, dtype=np.int64)

    def counts(self, *, is_of_atoms: bool) -> Array:
        """Returns the number of rows of each molecule: its atoms, or 1."""
        return self.n_atoms if is_of_atoms else np.ones_like(self.n_atoms)

    def fault_of_shape(
        self, name: str, leaves: Leaves, counts: Array, shape: tuple[int, ...]
    ) -> None:
        """Records the molecules that have a different number of values, or other rows."""
        wrong = leaves.present & ~fits(leaves, counts, shape)
        for i in np.flatnonzero(wrong).tolist():
            expected = int(counts[i]) * int(np.prod(shape))
            got = int(leaves.offsets[i + 1] - leaves.offsets[i])
            rows = f" in rows of {shape[-1]}" if shape else ""
            fault = f"{name}: expected {expected} values{rows}, got {got}"
            self.faults.setdefault(i, fault)


def _values_at(batch: Any, field: Field) -> Any:
    """Returns the array of a column, or of a part of its structs."""
    column, *parts = field.path
    return pc.struct_field(batch.column(column), parts) if parts else batch.column(column)


def _is_label(field: Field) -> bool:
    """True for numbers of a label."""
    is_builtin = field.target.scope == BUILTIN and field.target.key != "name"
    return is_builtin and field.kind == "number"


def _or_none(mask: Array) -> Array | None:
    return None if mask.all() else mask


class Leaves(NamedTuple):
    """Values of B rows of an array, in order, with nested lists flattened.

    Attributes:
        values: the innermost values, an Arrow array without lists.
        offsets: (B + 1,) index of the first value of each row.
        present: (B,) bool, False for rows that are null, or have null among values that are not
            floats.
        counts: (B,) lengths of the outermost lists; 1 if a row is one value.
        widths: (R,) lengths of the innermost lists; None if a row is one value.
        rows: (B + 1,) index of the first innermost list of each row.
        depth: number of nested lists.
    """

    values: Any
    offsets: Array
    present: Array
    counts: Array
    widths: Array | None
    rows: Array
    depth: int


def form_of(type_: pa.DataType) -> tuple[str, int]:
    """Returns the kind of the innermost values of a type, and its depth.

    Args:
        type_: type of an Arrow column.

    Returns:
        ``"number"``, ``"string"``, or the type as text if columns have no place for it; and the
        number of nested lists.
    """
    depth = 0
    while _is_list(type_) or isinstance(type_, pa.BaseExtensionType):
        depth += _is_list(type_)
        type_ = type_.value_type if _is_list(type_) else type_.storage_type
    if of.is_dictionary(type_):
        type_ = type_.value_type
    if of.is_floating(type_) or of.is_integer(type_) or of.is_boolean(type_):
        return "number", depth
    is_string = of.is_string(type_) or of.is_large_string(type_) or of.is_string_view(type_)
    return "string" if is_string else str(type_), depth


def leaves_of(array: pa.Array) -> Leaves:
    """Flattens the nested lists of an array.

    Args:
        array: an Arrow array of values or lists.

    Returns:
        Its values.
    """
    present = _numpy(array.is_valid())
    offsets = rows = np.arange(len(array) + 1, dtype=np.int64)
    counts = np.ones(len(array), dtype=np.int64)
    widths, depth = None, 0
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        if not _is_list(array.type):
            break
        widths = _numpy(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
        rows, offsets = offsets, np.concatenate([[0], np.cumsum(widths)])[offsets]
        counts = counts if depth else widths
        array = array.flatten()
        depth += 1
    found = Leaves(array, offsets, present, counts, widths, rows, depth)
    return found if of.is_floating(array.type) else found._replace(present=without_nulls(found))


def fits(leaves: Leaves, counts: Array, shape: tuple[int, ...]) -> Array:
    """Finds the rows whose values have the expected number and shape.

    Values may also be one flat list.

    Args:
        leaves: the values.
        counts: (B,) number of entries per row, such as its number of atoms.
        shape: shape of an entry.

    Returns:
        (B,) bool; False for rows that are null.
    """
    good = leaves.present & (np.diff(leaves.offsets) == counts * int(np.prod(shape)))
    if leaves.depth > 1 and shape and leaves.widths is not None:
        wrong = np.flatnonzero(leaves.widths != shape[-1])
        good[np.searchsorted(leaves.rows, wrong, side="right") - 1] = False
    return np.asarray(good)


def dense(leaves: Leaves, good: Array, counts: Array, shape: tuple[int, ...]) -> Array:
    """Returns the values of some rows as one array; those of the others are zeros.

    Args:
        leaves: values, numbers.
        good: (B,) bool, rows that ``fits`` found.
        counts: (B,) number of entries per row.
        shape: shape of an entry.

    Returns:
        (sum of ``counts``, *shape) numbers; null in a list of floats is NaN.
    """
    values = _numpy(leaves.values)
    if good.all():
        return values.reshape(int(counts.sum()), *shape)
    made = np.zeros((int(counts.sum()), *shape), dtype=values.dtype)
    lengths = np.diff(leaves.offsets)
    made[np.repeat(good, counts)] = values[np.repeat(good, lengths)].reshape(-1, *shape)
    return made


def entries_of(leaves: Leaves, counts: Array | None) -> tuple[Array, list[Array | str | None]]:
    """Returns the values of each row as an array of its own shape, of up to three axes.

    Args:
        leaves: values, numbers.
        counts: (B,) expected lengths of the outermost lists; None: any.

    Returns:
        (B,) bool, False for rows that are null or whose lists differ in length; and the values,
        None for those rows.
    """
    flat, good = _numpy(leaves.values), leaves.present.copy()
    entries: list[Array | str | None] = [None] * len(good)
    for i in np.flatnonzero(good).tolist():
        lists = slice(leaves.rows[i], leaves.rows[i + 1])
        widths = [] if leaves.widths is None or leaves.depth < 2 else leaves.widths[lists].tolist()
        n, size = int(leaves.counts[i]), int(leaves.offsets[i + 1] - leaves.offsets[i])
        width = widths[0] if widths else 0
        shape: tuple[int, ...] = (
            (n, width) if leaves.depth == 2 else (n, len(widths) // max(n, 1), width)
        )
        shape = (n,) if leaves.depth == 1 else shape
        is_expected = counts is None or n == counts[i]
        if size != int(np.prod(shape)) or not is_expected or len({*widths}) > 1:
            good[i] = False
        else:
            entries[i] = flat[leaves.offsets[i] : leaves.offsets[i + 1]].reshape(shape)
    return good, entries


def without_nulls(leaves: Leaves) -> Array:
    """Finds the rows that have no null among their values.

    Args:
        leaves: the values.

    Returns:
        (B,) bool.
    """
    good = leaves.present.copy()
    if leaves.values.null_count:
        nulls = np.flatnonzero(_numpy(leaves.values.is_null()))
        good[np.searchsorted(leaves.offsets, nulls, side="right") - 1] = False
    return good


def symbols_of(leaves: Leaves) -> tuple[Array, list[Any]]:
    """Returns (V,) indices of strings, -1 for null, and the strings themselves, each once."""
    array = leaves.values
    if not of.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = _numpy(array.indices.cast("int64").fill_null(-1))
    return indices, array.dictionary.to_pylist()


def _numpy(array: Any) -> Array:
    """Converts an array without lists; null becomes NaN in floats, and 0 elsewhere."""
    if of.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        is_bool = of.is_boolean(array.type)
        array = array.fill_null(
            float("nan") if of.is_floating(array.type) else False if is_bool else 0
        )
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def _is_list(type_: Any) -> bool:
    return bool(of.is_list(type_) or of.is_large_list(type_) or of.is_fixed_size_list(type_))
