"""Conversion of batches to Arrow tables with one row for each molecule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from torch import Tensor

from atompack_torch.batch.columns import Array, array_of
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.fields import FieldSpec
from atompack_torch.formats.atp.dataset import AtpDataset

LEVEL = b"atompack_torch.level"  # key of the metadata of a column: b"atom" or b"molecule"
DATA, SHAPE = "data", "shape"  # of the structs for tensors of various shapes


def arrow_schema(dataset: AtpDataset) -> pa.Schema:
    """Returns the types of the tables of a dataset.

    Args:
        dataset: the dataset.

    Returns:
        The schema: ``index``, then the fields in the order of the dataset.
    """
    requested = dataset[:0].keys()
    fields = [
        pa.field(name, _type_of(spec), metadata={LEVEL: spec.level.encode()})
        for name, spec in dataset.schema.items()
        if name in requested
    ]
    return pa.schema([pa.field("index", pa.int64()), *fields])


def _type_of(spec: FieldSpec) -> pa.DataType:
    if isinstance(spec.dtype, str):
        return pa.string() if spec.dtype == "string" else pa.null()
    cell = pa.from_numpy_dtype(np.dtype(str(spec.dtype).removeprefix("torch.")))
    if spec.shape is None:
        return pa.struct([(DATA, pa.list_(cell)), (SHAPE, pa.list_(pa.int64()))])
    for size in reversed(spec.shape):
        cell = pa.list_(cell, size)
    return pa.list_(cell) if spec.level == "atom" else cell


def bytes_per_row(schema: pa.Schema, atoms_per_row: float) -> float:
    """Estimates the size of a row of a table in memory.

    Args:
        schema: types of the table.
        atoms_per_row: mean number of atoms of a molecule.

    Returns:
        The number of bytes.
    """
    total = 0.0
    for field in schema:
        kind, rows = field.type, 1.0
        while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            rows *= atoms_per_row if pa.types.is_list(kind) else kind.list_size
            kind = kind.value_type
        total += rows * (kind.bit_width / 8 if pa.types.is_primitive(kind) else 32)
    return total


def table_of(batch: MoleculeBatch, schema: pa.Schema) -> pa.Table:
    """Converts a batch; numbers are not copied.

    Args:
        batch: a batch of the dataset.
        schema: types of its tables.

    Returns:
        The table; values that a molecule does not have are null.
    """
    ptr = array_of(batch.ptr)
    columns = []
    for field in schema:
        if field.name not in batch.keys():
            columns.append(pa.nulls(len(batch), field.type))
            continue
        mask = array_of(batch.mask(field.name))
        columns.append(_column(field, batch[field.name], mask, ptr))
    return pa.Table.from_arrays(columns, schema=schema)


def _column(field: pa.Field, values: Any, mask: Array, ptr: Array) -> pa.Array:
    kind = field.type
    absent = None if mask.all() else ~mask
    if pa.types.is_null(kind):
        return pa.nulls(len(mask))
    if pa.types.is_string(kind):
        shown = zip(values, mask.tolist(), strict=True)
        return pa.array([value if has else None for value, has in shown], kind)
    if pa.types.is_struct(kind):
        if isinstance(values, Tensor):  # of one shape in this batch
            per_atom = field.metadata[LEVEL] == b"atom"
            array = array_of(values)
            values = np.split(array, ptr[1:-1]) if per_atom else [*array]
        return _tensors(kind, values, mask)
    array = array_of(values)
    if pa.types.is_list(kind):
        items = _nested(kind.value_type, array)
        starts = pa.array(ptr.astype(np.int32))
        return pa.ListArray.from_arrays(
            starts, items, type=kind, mask=None if absent is None else pa.array(absent)
        )
    return _nested(kind, array, absent)


def _nested(kind: pa.DataType, array: Array, absent: Array | None = None) -> pa.Array:
    """Converts rows of one shape to numbers or nested lists of fixed size."""
    if not pa.types.is_fixed_size_list(kind):
        return pa.array(array, kind, mask=absent)
    items = _nested(kind.value_type, array.reshape(-1, *array.shape[2:]))
    mask = None if absent is None else pa.array(absent)
    return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)


def _tensors(kind: pa.DataType, values: Any, mask: Array) -> pa.Array:
    rows = []
    for value, has in zip(values, mask.tolist(), strict=True):
        array = array_of(value) if isinstance(value, Tensor) else value
        rows.append({DATA: array.reshape(-1), SHAPE: array.shape} if has else None)
    return pa.array(rows, kind)
