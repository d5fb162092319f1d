"""Checks of the names and values of fields that are set, and of those of new molecules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.exact_values import (
    check_listed,
    check_unmasked,
    check_unmasked_items,
    converted,
    host_array,
    native,
)
from atompack_torch.batch.storage import Contents, Entry, Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    COLUMNS,
    EDGES,
    MOLECULE_PROPERTY,
    PREFIXES,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    Level,
    not_a_label,
    prefixed_id,
    public_names,
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


def fields_from_values(
    positions: Any,
    atomic_numbers: Any,
    labels: Mapping[str, Any],
    properties: Mapping[str, Any],
    atom_properties: Mapping[str, Any],
) -> Contents:
    """Builds the fields of a single molecule from plain values.

    Args:
        positions: (n, 3), floating.
        atomic_numbers: (n,) integers.
        labels: builtin fields by name; None for an absent one.
        properties: custom values of the molecule by key.
        atom_properties: custom values of its atoms by key, n rows each.

    Returns:
        Fields of a batch with B = 1.

    Raises:
        TypeError: a label is not a builtin field.
        FieldError: a value has the wrong shape or type.
    """
    places = _structure_tensor("positions", positions, None)
    n = len(places)
    fields: dict[str, Value] = {
        "positions": places,
        "atomic_numbers": _structure_tensor("atomic_numbers", atomic_numbers, n),
        "batch": torch.zeros(n, dtype=torch.int64),
        "ptr": torch.tensor([0, n]),
        "n_atoms": torch.tensor([n]),
        "index": torch.tensor([-1]),
    }
    given: list[tuple[FieldId, Any]] = []
    for key, value in labels.items():
        if key not in BUILTINS:
            raise TypeError(not_a_label(key))
        if value is not None:
            given.append((FieldId(BUILTIN, key), value))
    given += [(FieldId(ATOM_PROPERTY, key), value) for key, value in atom_properties.items()]
    given += [(FieldId(MOLECULE_PROPERTY, key), value) for key, value in properties.items()]
    infos = dict(STRUCTURE_INFO)
    names = public_names([field for field, _ in given], RESERVED)
    for name, (field, value) in zip(names, given, strict=True):
        infos[name] = FieldInfo(*field, _level_of(field))
        fields[name] = molecule_value(name, infos[name], value, n)
    return Contents(fields, infos, None, {})


def molecule_value(name: str, info: FieldInfo, value: Any, n_atoms: int) -> Value:
    """Returns a value as the field of a batch with one molecule.

    Args:
        name: name of the field, for errors.
        info: the field: molecule, label, or property of the molecule or its atoms.
        value: the value of the molecule.
        n_atoms: its number n of atoms.

    Returns:
        A tensor with a first dimension of 1 or n, or a list of one string or None.

    Raises:
        FieldError: the value has the wrong shape or type.
    """
    if name in STRUCTURE:
        return _structure_tensor(name, value, n_atoms)
    is_label = info.scope == BUILTIN
    if is_label and info.key != "name" and isinstance(value, str):
        raise FieldError(f"{name}: expected numbers, got {value!r}")
    if value is None or isinstance(value, str):
        return [value]
    if is_label and info.key == "name":
        raise FieldError(f"name: expected a string, got {value!r}")
    tensor = _tensor(name, value)
    if is_label:
        builtin = BUILTINS[info.key]
        expected = (n_atoms, *builtin.shape) if info.level == "atom" else builtin.shape
        if tuple(tensor.shape) != expected:
            got = tuple(tensor.shape)
            hint = squeeze_hint(expected, got)
            raise FieldError(f"{name}: expected shape {expected}, got {got}{hint}")
        if info.key == "pbc":
            if tensor.dtype != torch.bool:
                converted(name, host_array(name, tensor), bool)  # an error for all but 0 and 1
            tensor = tensor.bool()
        elif tensor.is_complex():
            raise FieldError(f"{name}: expected real numbers, got {_describe(tensor)}")
        elif not tensor.is_floating_point() or info.key == "energy":
            if not tensor.is_floating_point():
                converted(name, host_array(name, tensor), np.float64)
            tensor = tensor.double()
    if info.level == "molecule":
        return (_widen_scalar(name, tensor) if tensor.dim() == 0 else tensor).unsqueeze(0)
    if tensor.dim() == 0 or len(tensor) != n_atoms:
        raise FieldError(f"{name}: expected {n_atoms} rows, got shape {tuple(tensor.shape)}")
    return tensor


def _structure_tensor(name: str, value: Any, n_atoms: int | None) -> Tensor:
    """Returns positions or atomic numbers; for any number of atoms if that is None."""
    tensor = _tensor(name, value)
    is_positions = name == "positions"
    n = len(tensor) if n_atoms is None and tensor.dim() else n_atoms
    expected = (n, 3) if is_positions else (n,)
    if tuple(tensor.shape) != expected or tensor.is_floating_point() != is_positions:
        shape = "(n, 3)" if n_atoms is None else str(expected)
        kind = "floats" if is_positions else "integers"
        raise FieldError(f"{name}: expected {shape} {kind}, got {_describe(tensor)}")
    return tensor if is_positions else tensor.long()


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {_dtype_name(tensor)}"


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _level_of(field: FieldId) -> Level:
    if field.scope == BUILTIN:
        return BUILTINS[field.key].level
    return "atom" if field.scope == ATOM_PROPERTY else "molecule"


def _widen_scalar(name: str, tensor: Tensor) -> Tensor:
    """Converts a scalar of a molecule to float64 or int64; complex and bool stay."""
    if tensor.is_floating_point():
        return tensor.double()
    if tensor.is_complex() or tensor.dtype == torch.bool:
        return tensor
    if tensor.dtype == torch.uint64 and tensor.item() >= 1 << 63:
        raise FieldError(f"{name}: expected an integer below 2**63, got {tensor.item()}")
    return tensor.long()


def _tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, (list, tuple)):
        check_unmasked_items(name, value)
    check_unmasked(name, value)
    if isinstance(value, np.ndarray) and not (
        value.dtype.isnative and min(value.strides, default=0) >= 0
    ):
        value = native(value)  # torch has no such tensors
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        if name == "atomic_numbers" and "str" in str(error):
            raise FieldError(f"{name}: expected integers, got symbols") from None
        raise FieldError(f"{name}: not a tensor, number or string: {error}") from None
    if isinstance(value, (list, tuple)) and tensor.is_floating_point():
        # torch converts lists to its default dtype, which may be too narrow.
        if tensor.isinf().any():
            converted(name, np.asarray(value), _dtype_name(tensor), rounds=True)
        check_listed(name, value, host_array(name, tensor))
    return tensor
