"""Checks of the names and values of fields that are set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atompack_torch.batch.storage import Entry, Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    COLUMNS,
    EDGES,
    MOLECULE_PROPERTY,
    PREFIXES,
    STRUCTURE,
    FieldId,
    Level,
    prefixed_id,
    squeeze_hint,
)

if TYPE_CHECKING:
    from atompack_torch.batch.collated_fields import CollatedFields


def check_name(name: Any) -> None:
    """Raises an error unless this can be the name of a field.

    Args:
        name: the name.

    Raises:
        TypeError: the name is not a string.
        FieldError: the name is empty, or files cannot hold it.
    """
    if not isinstance(name, str):
        raise TypeError(f"field: expected a name (str), got {type(name).__name__}")
    if not name or name in PREFIXES.values():
        raise FieldError(f"field: expected a name, got {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise FieldError(f"field {name!r}: holds characters that UTF-8 has no bytes for") from None


def field_id(name: str, level: Level) -> FieldId:
    """Returns the identity of a new field from its name and level.

    Args:
        name: a canonical name, a key, or a key with its scope.
        level: the level of the field.

    Returns:
        Scope and key.

    Raises:
        FieldError: the scope in the name belongs to a different level.
    """
    if name in BUILTINS:
        return FieldId(BUILTIN, name)
    scope = ATOM_PROPERTY if level == "atom" else MOLECULE_PROPERTY
    named = prefixed_id(name)
    if named is None:
        return FieldId(scope, name)
    if named.scope != scope:
        expected = "atom" if named.scope == ATOM_PROPERTY else "molecule"
        raise FieldError(f"field {name!r}: expected level {expected!r}, got {level!r}")
    return named


def check_value(batch: CollatedFields, name: str, value: Any, level: Level) -> Value:
    """Returns a value that fits the batch.

    Args:
        batch: the batch.
        name: listed name of the field.
        value: the value to set.
        level: level of the field.

    Returns:
        The tensor itself, or a new list.

    Raises:
        TypeError: the value is neither a tensor nor, at level ``"molecule"``, a list of strings.
        FieldError: the length, shape, dtype or device is not that of the field.
    """
    if isinstance(value, (list, tuple)) and level == "molecule" and name not in STRUCTURE:
        return _check_strings(batch, name, value)
    if not isinstance(value, Tensor):
        kinds = "a tensor or a list of str" if level == "molecule" else "a tensor"
        raise TypeError(f"field {name!r}: expected {kinds}, got {type(value).__name__}")
    if value.layout is not torch.strided:
        raise FieldError(f"field {name!r}: expected a dense tensor, got {value.layout}")
    if value.device != batch.ptr.device:
        raise FieldError(f"field {name!r}: expected {batch.ptr.device}, got {value.device}")
    if level in ("edge", "triplet"):
        _check_shape(name, tuple(batch._fields[name].shape), value)  # type: ignore[union-attr]
    else:
        _check_rows(batch, name, value, level)
    _check_dtype(batch, name, value)
    return value


def _check_strings(batch: CollatedFields, name: str, value: Any) -> list[Entry]:
    if name in BUILTINS and name != "name":
        raise TypeError(f"field {name!r}: expected a tensor, got {type(value).__name__}")
    for entry in value:
        if entry is not None and not isinstance(entry, str):
            kind = type(entry).__name__
            raise TypeError(f"field {name!r}: expected a tensor or a list of str, got {kind} in it")
    if len(value) != len(batch):
        raise FieldError(f"field {name!r}: expected {len(batch)} strings, got {len(value)}")
    return list(value)


def _check_rows(batch: CollatedFields, name: str, value: Tensor, level: Level) -> None:
    rows = (len(batch.positions) if level == "atom" else len(batch)) + (name == "ptr")
    if name in BUILTINS and name != "name":
        return _check_shape(name, (rows, *BUILTINS[name].shape), value)
    if name in STRUCTURE:
        return _check_shape(name, (rows, 3) if name == "positions" else (rows,), value)
    if value.dim() == 0 or value.shape[0] != rows:
        raise FieldError(
            f"field {name!r}: expected {rows} rows (level {level!r}), got {tuple(value.shape)}"
        )


def _check_shape(name: str, expected: tuple[int, ...], value: Tensor) -> None:
    got = tuple(value.shape)
    if got != expected:
        hint = squeeze_hint(expected, got)
        raise FieldError(f"field {name!r}: expected {expected}, got {got}{hint}")


def _check_dtype(batch: CollatedFields, name: str, value: Tensor) -> None:
    if name == "name":
        raise TypeError("field 'name': expected a list of str, got a tensor")
    floating = name == "positions" or (name in BUILTINS and name != "pbc")
    floating = floating or (name in EDGES and name not in COLUMNS)
    kind = str(value.dtype).removeprefix("torch.")
    if floating and not value.is_floating_point():
        raise FieldError(f"field {name!r}: expected floats, got {kind}")
    if name == "pbc" and value.dtype != torch.bool:
        raise FieldError(f"field 'pbc': expected bool, got {kind}")
    whole = name in STRUCTURE or name in COLUMNS
    if whole and name != "positions" and value.dtype != torch.int64:
        raise FieldError(f"field {name!r}: expected int64, got {kind}")
