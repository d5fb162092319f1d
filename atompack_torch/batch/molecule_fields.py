"""Fields of a single molecule, from plain Python and NumPy values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import Contents
from atompack_torch.batch.exact_values import check_unmasked, check_unmasked_items, converted
from atompack_torch.batch.storage import Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    MOLECULE_PROPERTY,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    Level,
    not_a_label,
    public_names,
    squeeze_hint,
)


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
    positions = _tensor("positions", positions)
    numbers = _tensor("atomic_numbers", atomic_numbers)
    if not positions.is_floating_point() or positions.dim() != 2 or positions.shape[1] != 3:
        raise FieldError(f"positions: expected (n, 3) floats, got {_describe(positions)}")
    n = len(positions)
    if numbers.shape != (n,) or numbers.is_floating_point():
        raise FieldError(f"atomic_numbers: expected ({n},) integers, got {_describe(numbers)}")
    fields: dict[str, Value] = {
        "positions": positions,
        "atomic_numbers": numbers.long(),
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
        level = _level_of(field)
        fields[name] = _value_of_one(name, field, level, value, n)
        infos[name] = FieldInfo(*field, level)
    return Contents(fields, infos, None, {})


def checked_value(name: str, info: FieldInfo, value: Any, n_atoms: int) -> Value:
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
    if name not in STRUCTURE:
        return _value_of_one(name, FieldId(*info[:2]), info.level, value, n_atoms)
    tensor = _tensor(name, value)
    expected = (n_atoms, 3) if name == "positions" else (n_atoms,)
    kind = "floats" if name == "positions" else "integers"
    if tuple(tensor.shape) != expected or tensor.is_floating_point() != (kind == "floats"):
        raise FieldError(f"{name}: expected {expected} {kind}, got {_describe(tensor)}")
    return tensor if name == "positions" else tensor.long()


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _level_of(field: FieldId) -> Level:
    if field.scope == BUILTIN:
        return BUILTINS[field.key].level
    return "atom" if field.scope == ATOM_PROPERTY else "molecule"


def _value_of_one(name: str, field: FieldId, level: Level, value: Any, n_atoms: int) -> Value:
    if field.scope == BUILTIN and field.key != "name" and isinstance(value, str):
        raise FieldError(f"{name}: expected numbers, got {value!r}")
    if value is None or isinstance(value, str):
        return [value]
    if field == FieldId(BUILTIN, "name"):
        raise FieldError(f"name: expected a string, got {value!r}")
    tensor = _tensor(name, value)
    if field.scope == BUILTIN:
        builtin = BUILTINS[field.key]
        expected = (n_atoms, *builtin.shape) if level == "atom" else builtin.shape
        if tuple(tensor.shape) != expected:
            got = tuple(tensor.shape)
            hint = squeeze_hint(expected, got)
            raise FieldError(f"{name}: expected shape {expected}, got {got}{hint}")
        if field.key == "pbc":
            tensor = tensor.bool()
        elif tensor.is_complex():
            raise FieldError(f"{name}: expected real numbers, got {_describe(tensor)}")
        elif not tensor.is_floating_point() or field.key == "energy":
            tensor = tensor.double()
    if level == "molecule":
        return (_widen_scalar(name, tensor) if tensor.dim() == 0 else tensor).unsqueeze(0)
    if tensor.dim() == 0 or len(tensor) != n_atoms:
        raise FieldError(f"{name}: expected {n_atoms} rows, got shape {tuple(tensor.shape)}")
    return tensor


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
    try:
        tensor = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        if name == "atomic_numbers" and "str" in str(error):
            raise FieldError(f"{name}: expected integers, got symbols") from None
        raise FieldError(f"{name}: not a tensor, number or string: {error}") from None
    if isinstance(value, (list, tuple)) and tensor.is_floating_point() and tensor.isinf().any():
        # torch converts lists to its default dtype, which may be too narrow.
        converted(name, np.asarray(value), str(tensor.dtype).removeprefix("torch."), rounds=True)
    return tensor
