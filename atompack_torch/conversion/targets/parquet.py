"""Parquet files with one molecule per row, the target of conversions to ``.parquet``.

Columns are named like fields: ``positions`` and ``forces`` are lists of three numbers per atom,
``cell`` and ``stress`` three lists of three, ``atomic_numbers`` and custom values of atoms lists,
custom values of molecules numbers, strings or (nested) lists. A missing value is null. A custom
property has its scope as a prefix where its key alone would be ambiguous. The metadata of the file
has an entry ``atompack_torch``, a JSON object: column → ``field`` (its name with its scope),
``level`` (``atom`` or ``molecule``), ``dtype`` and ``shape`` of a row (null: it varies).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from atompack_torch.batch.columns import Array, Column, Columns
from atompack_torch.conversion.keys import label_of
from atompack_torch.fields import BUILTIN, BUILTINS, RESERVED, FieldId, prefixed_id
from atompack_torch.formats.converter import Target, TargetOptions, TargetTraits
from atompack_torch.formats.records import is_per_atom, present
from atompack_torch.publishing import published

TARGET = TargetTraits(has_schema=True, codecs=("zstd", "lz4", "none"))
METADATA = "atompack_torch"
# A row group is complete when it reaches either limit.
_GROUP_ROWS = 1 << 14
_GROUP_BYTES = 1 << 26
POSITIONS, NUMBERS = FieldId(BUILTIN, "positions"), FieldId(BUILTIN, "atomic_numbers")


def fields_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, dict[str, Any]]:
    """Returns the description of the columns of a file that was written here.

    Args:
        metadata: the metadata of the file, ``ParquetFile.metadata.metadata``.

    Returns:
        Column → its ``field``, ``level``, ``dtype`` and ``shape``; empty for other files.
    """
    try:
        found = json.loads((metadata or {})[METADATA.encode()])
    except (KeyError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def open_target(path: str, options: TargetOptions) -> Iterator[Target]:
    """Opens a new file."""
    with published(Path(path)) as made:
        writer = Writer(made, options)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()


class Writer:
    """Writes blocks to a new file, several to a row group.

    The columns are those of the fields found so far. If others are found later, what was written is
    copied group by group at the end, with nulls for them.

    Args:
        path: the file to create.
        options: codec and level, and the report for values that are null in the file.
    """

    def __init__(self, path: Path, options: TargetOptions) -> None:
        self._path, self._report = path, options.report
        codec = options.codec or "zstd"
        level = None if codec == "none" else options.level
        self._compression = {"compression": codec, "compression_level": level}
        self._types = {
            POSITIONS: ColumnType(True, np.dtype(np.float64), 1, (3,), is_fixed=True),
            NUMBERS: ColumnType(True, np.dtype(np.uint8), 0, (), is_fixed=True),
        }
        self._names = {field: field.key for field in self._types}
        self._group: list[Any] = []  # record batches
        self._parts: list[Path] = []  # complete files with fewer columns
        self._file: Any = None

    def write(self, columns: Columns) -> None:
        """Adds a block."""
        structure = [
            Column(*POSITIONS, columns.positions),
            Column(*NUMBERS, columns.atomic_numbers.astype(np.uint8)),
        ]
        if not self._group and self._file is None and not self._parts:
            made = type_of(structure[0])
            assert made is not None
            self._types[POSITIONS] = made
        n = len(columns.ptr) - 1
        fields = [f for c in columns.fields if (f := self._learned(c, n)) is not None]
        schema = self._schema()
        if self._group and self._group[0].schema != schema:
            self._end_group()
        if self._file is not None and self._file.schema != schema:
            self._end_part()
        arrays = {
            self._names[FieldId(*column[:2])]: array_of(
                column, self._types[FieldId(*column[:2])], columns.ptr
            )
            for column in (*structure, *fields)
        }
        whole = [arrays.get(f.name, pa.nulls(n, f.type)) for f in schema]
        self._group.append(pa.RecordBatch.from_arrays(whole, schema=schema))
        n_rows = sum(batch.num_rows for batch in self._group)
        if n_rows >= _GROUP_ROWS or sum(b.nbytes for b in self._group) >= _GROUP_BYTES:
            self._end_group()

    def finish(self) -> None:
        """Writes the end of the file."""
        self._end_group()
        if self._parts:
            self._end_part()
            self._file = self._opened(self._schema())
            for part in self._parts:
                self._copy(part)
        fields = {
            name: {
                "field": label_of(Column(*field, [])),
                "level": "atom" if self._types[field].is_of_atoms else "molecule",
                "dtype": "string" if (dtype := self._types[field].dtype) is None else str(dtype),
                "shape": self._types[field].shape,
            }
            for field, name in self._names.items()
        }
        self._file.add_key_value_metadata({METADATA: json.dumps(fields)})

    def close(self) -> None:
        """Closes the file, and removes intermediate ones."""
        if self._file is not None:
            self._close()
        for part in self._parts:
            part.unlink(missing_ok=True)

    def _learned(self, column: Column, n: int) -> Column | None:
        """Learns the type of a field; returns the column without values that do not fit it.

        Args:
            column: a column of n molecules, whose entries are None where its mask is False.
            n: their number.
        """
        n_none = _n_none(column.values)
        if n_lost := n_none - n + int(present(column, n).sum()) if n_none else 0:
            self._report.skip(label_of(column), "None is null, like a missing value", n_lost)
        field, made = FieldId(*column[:2]), type_of(column)
        if made is None:
            return None
        if field not in self._types:
            self._types[field] = made
            self._names[field] = self._new_name(field)
        known, values = self._types[field], column.values
        if known.dtype is None:
            return column
        n_axes = known.n_axes + known.is_of_atoms
        if not isinstance(values, np.ndarray):
            given: Any = values
            values = [v if v is None or v.ndim == n_axes else None for v in given]
        elif made.n_axes != known.n_axes:
            values = [None] * n
        if n_lost := _n_none(values) - n_none:
            why = f"expected {n_axes} axes as in the molecules before, got others"
            self._report.skip(label_of(column), why, n_lost)
        column = column.with_values(values)
        if shapes_of(column, known) - {known.shape}:
            self._types[field] = known._replace(shape=None)
            if known.n_axes > 1 and not isinstance(values, np.ndarray):
                self._report.note(
                    f"{label_of(column)}: tensors of various shapes; those without values keep "
                    "no shape"
                )
        return column

    def _new_name(self, field: FieldId) -> str:
        is_ambiguous = field.key in RESERVED or prefixed_id(field.key) is not None
        if field.scope != BUILTIN and (is_ambiguous or field.key in self._names.values()):
            return label_of(Column(*field, []))
        return field.key

    def _schema(self) -> Any:
        return pa.schema(
            [(name, self._types[field].arrow()) for field, name in self._names.items()]
        )

    def _opened(self, schema: Any) -> Any:
        self._sink = self._path.open("wb")  # unlike pyarrow's, its errors have an errno
        plain = [f.name for f in schema if not f.type.num_fields]
        words = [f.name for f in schema if f.type == pa.string()]
        return pq.ParquetWriter(
            self._sink,
            schema,
            use_dictionary=[*words, "atomic_numbers.list.element"],
            write_statistics=plain,
            write_page_checksum=True,
            **self._compression,
        )

    def _end_group(self) -> None:
        """Writes the pending blocks as a row group."""
        if self._file is None:
            self._file = self._opened(self._group[0].schema if self._group else self._schema())
        if self._group:
            table = pa.Table.from_batches(self._group)
            self._file.write_table(table, row_group_size=table.num_rows)
        self._group = []

    def _close(self) -> None:
        with self._sink:
            self._file.close()

    def _end_part(self) -> None:
        """Completes the file as one with fewer columns."""
        self._close()
        self._file = None
        part = self._path.with_name(f"{self._path.name}.{len(self._parts)}")
        self._path.rename(part)
        self._parts.append(part)

    def _copy(self, part: Path) -> None:
        schema = self._file.schema
        with pq.ParquetFile(part) as file:
            for i in range(file.num_row_groups):
                table = file.read_row_group(i)
                columns = [
                    table.column(field.name)
                    if field.name in table.column_names
                    else pa.nulls(len(table), field.type)
                    for field in schema
                ]
                made = pa.Table.from_arrays(columns, names=schema.names).cast(schema)
                self._file.write_table(made, row_group_size=len(table))


def _n_none(values: Any) -> int:
    return 0 if isinstance(values, np.ndarray) else sum(value is None for value in values)


class ColumnType(NamedTuple):
    """Type of a field in a file.

    Attributes:
        is_of_atoms: True if it has rows of atoms.
        dtype: type of its numbers; None: strings.
        n_axes: number of axes of the value of a molecule or of the row of an atom.
        shape: shape of that; None if it varies.
        is_fixed: True if its axes have the lengths of ``shape`` by definition.
    """

    is_of_atoms: bool
    dtype: np.dtype[Any] | None
    n_axes: int
    shape: tuple[int, ...] | None
    is_fixed: bool

    def arrow(self) -> Any:
        """Returns the type in Arrow."""
        if self.dtype is None:
            return pa.string()
        made = pa.from_numpy_dtype(self.dtype)
        sizes = self.shape if self.is_fixed and self.shape is not None else (-1,) * self.n_axes
        for size in reversed(sizes):
            made = pa.list_(made, size)
        return pa.list_(made) if self.is_of_atoms else made


def type_of(column: Column) -> ColumnType | None:
    """Returns the type of a column by the first of its values; None if it has none.

    Args:
        column: a column of a block; positions and atomic numbers as labels.

    Returns:
        The type; its shape is that of the first value.
    """
    is_structure = column[:2] in (POSITIONS, NUMBERS)
    of_atoms = is_structure or is_per_atom(column)
    if isinstance(column.values, np.ndarray):
        shape, dtype = column.values.shape[1:], column.values.dtype
    else:
        first = next((value for value in column.values if value is not None), None)
        if first is None:
            return None
        if isinstance(first, str):
            return ColumnType(False, None, 0, (), is_fixed=False)
        shape, dtype = first.shape[of_atoms:], first.dtype
    is_fixed = is_structure or (column.scope == BUILTIN and BUILTINS[column.key].shape == shape)
    return ColumnType(of_atoms, dtype, len(shape), shape, is_fixed=is_fixed)


def shapes_of(column: Column, type_: ColumnType) -> set[tuple[int, ...]]:
    """Returns the shapes of the values or rows of a numeric column."""
    if isinstance(column.values, np.ndarray):
        return {column.values.shape[1:]}
    start = int(type_.is_of_atoms)
    return {value.shape[start:] for value in column.values if isinstance(value, np.ndarray)}


def array_of(column: Column, type_: ColumnType, ptr: Array) -> Any:
    """Converts a column of a block to an Arrow array with one value per molecule.

    Args:
        column: the column; its values have the type, entries without one are None.
        type_: the type of the field.
        ptr: (B + 1,) index of the first atom of each molecule.

    Returns:
        The array; null where the mask is False, and for values None.
    """
    mask = present(column, len(ptr) - 1)
    n_axes, of_atoms = type_.n_axes + type_.is_of_atoms, int(type_.is_of_atoms)
    values: Any = column.values
    if type_.dtype is None:
        return pa.array(values, pa.string())
    if not n_axes and isinstance(values, np.ndarray):
        return pa.array(values, mask=~mask)
    if isinstance(values, np.ndarray):
        counts = np.diff(ptr) if of_atoms else np.ones(len(mask), dtype=np.int64)
        shapes = np.empty((int(mask.sum()), n_axes), dtype=np.int64)
        shapes[:, :of_atoms] = counts[mask, None]
        shapes[:, of_atoms:] = values.shape[1:]
        # Lists of fixed sizes have values where they are null, too.
        flat = values if type_.is_fixed and not of_atoms else values[np.repeat(mask, counts)]
        return _nested(flat.reshape(-1), shapes, type_, mask)
    there = [value for value in values if value is not None]
    mask = np.array([value is not None for value in values], dtype=bool)
    if not n_axes:
        return pa.array(
            [None if value is None else value.item() for value in values], type_.arrow()
        )
    flat = np.concatenate([np.zeros(0, type_.dtype), *(value.reshape(-1) for value in there)])
    shapes = np.array([value.shape for value in there], dtype=np.int64).reshape(-1, n_axes)
    return _nested(flat, shapes, type_, mask)


def _nested(flat: Array, shapes: Array, type_: ColumnType, mask: Array) -> Any:
    """Makes lists of the values of molecules.

    Args:
        flat: the values, in order.
        shapes: (K, axes) shapes of the values of the K molecules that have some.
        type_: their type.
        mask: (B,) bool, True for these molecules.
    """
    made, nulls = pa.array(flat), None if mask.all() else pa.array(~mask)
    sizes = type_.shape if type_.is_fixed and type_.shape is not None else ()
    n_free = shapes.shape[1] - len(sizes)
    for axis in reversed(range(len(sizes))):
        own = None if axis or n_free else nulls
        made = pa.FixedSizeListArray.from_arrays(made, sizes[axis], mask=own)
    for axis in reversed(range(n_free)):
        lengths = np.repeat(shapes[:, axis], np.prod(shapes[:, :axis], axis=1))
        if not axis:
            lengths = np.zeros(len(mask), dtype=np.int64)
            lengths[mask] = shapes[:, 0]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        own = None if axis else nulls
        made = pa.ListArray.from_arrays(pa.array(offsets), made, mask=own)
    return made
