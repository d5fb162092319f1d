"""Types of values in an ``.atp`` file."""

from __future__ import annotations

from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Array, Column
from atompack_torch.fields import BUILTIN, BUILTINS
from atompack_torch.formats.records import is_per_atom


class Kind(NamedTuple):
    """Type of a field's values.

    Attributes:
        form: None, strings or numbers.
        dtype: dtype of numbers: int32, int64, float32 or float64; bool for ``pbc``.
        shape: shape of a molecule's value or of an atom's row; None: tensors of various shapes.
    """

    form: Literal["none", "string", "number"]
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = ()

    def __str__(self) -> str:
        if self.form != "number":
            return "None" if self.form == "none" else "a string"
        if self.shape == ():
            return str(self.dtype)
        return f"{self.dtype} tensors" if self.shape is None else f"{self.dtype} {self.shape}"


def kinds(column: Column) -> list[Kind]:
    """Returns the kinds of all values of a column that have one."""
    mask = column.mask
    if isinstance(column.values, np.ndarray):
        if mask is not None and not mask.any():
            return []
        kind = kind_of_array(column, column.values.dtype, column.values.shape[1:])
        return [kind] if isinstance(kind, Kind) else []
    if are_strings(column):
        return [Kind("string")]
    present = [True] * len(column.values) if mask is None else mask.tolist()
    found = [
        kind_of_entry(column, value)
        for value, has in zip(column.values, present, strict=True)
        if has
    ]
    return [kind for kind in found if isinstance(kind, Kind)]


def are_strings(column: Column) -> bool:
    """True if a column of molecules has values, all of them strings that UTF-8 can represent."""
    values = column.values
    if isinstance(values, np.ndarray) or is_per_atom(column):
        return False
    present = [*values] if column.mask is None else [*compress(values, column.mask)]
    if {*map(type, present)} != {str}:
        return False
    try:
        "".join(map(str, present)).encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_of_entry(column: Column, value: Array | str | None) -> Kind | str:
    """Returns the kind of one molecule's value, or a description if it has none."""
    if value is None:
        return "None for atoms" if is_per_atom(column) else Kind("none")
    if isinstance(value, str):
        if is_per_atom(column):
            return "a string for atoms"
        try:
            value.encode()
        except UnicodeEncodeError:
            return "no valid text"
        return Kind("string")
    return kind_of_array(
        column, value.dtype, value.shape[1:] if is_per_atom(column) else value.shape
    )


def kind_of_array(column: Column, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Kind | str:
    """Returns the kind for a dtype and row shape, or a description if there is none."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        return f"{dtype} values" + (" for each atom" if is_per_atom(column) else "")
    if column.scope == BUILTIN and BUILTINS[column.key].dtype == "bool":
        return Kind("number", np.dtype(bool), shape)
    known = stored(dtype, scalar=shape == () and not is_per_atom(column))
    if column.scope == BUILTIN and known.kind == "i":
        known = np.dtype(np.float64)
    return Kind("number", known, shape)


def stored(dtype: np.dtype[Any], *, scalar: bool) -> np.dtype[Any]:
    """Returns the narrowest type of the format for a dtype; lossless except for uint64."""
    if dtype.kind == "f":
        return np.dtype(np.float64 if scalar or dtype.itemsize == 8 else np.float32)
    wide = scalar or dtype.itemsize == 8 or (dtype.kind == "u" and dtype.itemsize == 4)
    return np.dtype(np.int64 if wide else np.int32)


def widest(a: np.dtype[Any] | None, b: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type that holds both (int64 beyond 2**53 may not fit into float64)."""
    if a is None or a == b:
        return b
    if a.kind != b.kind:
        return np.dtype(np.float64)
    return a if a.itemsize > b.itemsize else b


def joined(known: Kind, new: Kind, column: Column) -> Kind:
    """Returns the kind that holds both; ``known`` if there is none."""
    if known.form == "none":
        return new
    if known.form != new.form or known.dtype is None or new.dtype is None:
        return known
    dtype = widest(known.dtype, new.dtype)
    if known.shape == new.shape:
        return Kind("number", dtype, known.shape)
    shapes = [shape for shape in (known.shape, new.shape) if shape is not None]
    if all(_is_tensor(shape, dtype, is_per_atom(column)) for shape in shapes):
        return Kind("number", dtype, None)
    return known


def holds(kind: Kind, own: Kind | str, column: Column) -> bool:
    """True if values of one kind can be stored as another."""
    if isinstance(own, str) or own.form != kind.form:
        return False
    if kind.shape is None and own.shape is not None and own.dtype is not None:
        dtype = widest(kind.dtype, own.dtype)
        return dtype == kind.dtype and _is_tensor(own.shape, dtype, is_per_atom(column))
    return own.shape == kind.shape and joined(kind, own, column) == kind


def _is_tensor(shape: tuple[int, ...], dtype: np.dtype[Any], per_atom: bool) -> bool:
    """True for tensors, whose shape may vary between molecules, unlike arrays and rows of three."""
    rank = len(shape) + per_atom
    return rank >= 2 and not (rank == 2 and shape[-1] == 3 and dtype.kind == "f")
