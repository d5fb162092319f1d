"""Batches of examples from shards: results of the native core, and collation in Python."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import Molecule, MoleculeBatch
from atompack_torch.datasets.options import DTypes
from atompack_torch.errors import FieldError, UnknownFieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTINS,
    GEOMETRY,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    FieldSpec,
    is_value_of,
    prefixed_id,
    public_names,
)

Head = tuple[int, str, Any]  # scope, key, level


def molecules_of(
    arena: Tensor, heads: Sequence[Head], values: list[Any], masks: Tensor
) -> MoleculeBatch:
    """Builds a batch from the native core's tensors: structure, then the fields of ``heads``."""
    names, infos, rows = _describe(tuple(heads))
    fields = dict(zip(names, values, strict=True))
    return MoleculeBatch(fields, infos, masks if rows else None, rows, arena)


@lru_cache(maxsize=64)
def _describe(heads: tuple[Head, ...]) -> tuple[list[str], dict[str, FieldInfo], dict[str, int]]:
    fields = [FieldInfo(*head) for head in heads]
    names = public_names([FieldId(*field[:2]) for field in fields], RESERVED)
    infos = STRUCTURE_INFO | dict(zip(names, fields, strict=True))
    return [*STRUCTURE, *names], infos, {name: row for row, name in enumerate(names)}


class Examples:
    """Collates examples in Python, for batches that the native core does not support.

    Args:
        numbers: numbers of the examples in the dataset.
        levels: key of molecules → True if its values belong to the atoms.
        jagged: arrays that differ in their first dimension become a pair of tensors.
    """

    def __init__(self, numbers: Sequence[int], levels: Mapping[str, bool], *, jagged: bool) -> None:
        self._numbers, self._levels, self._jagged = numbers, levels, jagged

    def collate(self, column: list[Any]) -> Any:
        """Collates one value per example like default_collate, except for molecules and arrays.

        Without examples, the form of a batch is unknown, and the result is an empty list.
        """
        if not column:
            return []
        first = column[0]
        if _is_molecule(first) and all(map(_is_molecule, column)):
            return self._molecules(column)
        if isinstance(first, (np.ndarray, Tensor)):
            return self._arrays(column)
        if isinstance(first, dict) and all(isinstance(value, dict) for value in column):
            return self._dict(column)
        if isinstance(first, (list, tuple)):
            if any(not hasattr(v, "__len__") or len(v) != len(first) for v in column):
                raise RuntimeError("each element in list of batch should be of equal size")
            return [self.collate(list(values)) for values in zip(*column, strict=True)]
        return default_collate(column)

    def _dict(self, column: list[Any]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for example in column:
            if not column[0].keys() <= example.keys():
                absent = next(key for key in column[0] if key not in example)
                raise UnknownFieldError(
                    f"examples: expected the keys of the first one, got one without {absent!r}"
                )
        for key in column[0]:
            value = self.collate([example[key] for example in column])
            if not (self._jagged and isinstance(value, _Jagged)):
                made[key] = value
                continue
            offsets = f"{key}_offsets"
            if offsets in column[0]:
                raise FieldError(f"layout: jagged needs the key {offsets!r}, which examples have")
            made[key], made[offsets] = value
        return made

    def _arrays(self, column: list[Any]) -> Any:
        first = column[0]
        if not all(isinstance(value, (np.ndarray, Tensor)) for value in column):
            return default_collate(column)
        if len({tuple(value.shape) for value in column}) == 1:
            return default_collate(column)
        tensors = [torch.as_tensor(value) for value in column]
        rows = {tuple(t.shape[1:]) if t.dim() else None for t in tensors}
        if self._jagged and len(rows) == 1 and first.ndim > 0:
            counts = torch.tensor([0, *(len(t) for t in tensors)])
            return _Jagged((torch.cat(tensors), torch.cumsum(counts, 0)))
        return tensors

    def _molecules(self, column: list[dict[Any, Any]]) -> MoleculeBatch:
        levels = self._levels_in(column)
        shared = [key for key in BUILTINS if not BUILTINS[key].owns_key]
        others = {key for key in shared if not all(_may_be_label(key, each) for each in column)}
        labels = BUILTINS.keys() - others
        molecules = [_molecule(values, levels, labels) for values in column]
        batch = MoleculeBatch.from_molecules(molecules)
        batch.set_field("index", torch.tensor(self._numbers), "molecule")
        return batch

    def _levels_in(self, column: list[dict[Any, Any]]) -> dict[str, bool]:
        """Determines levels from this batch for keys that the dataset's levels do not name."""
        levels: dict[str, bool] = {}
        for values in column:
            n_atoms = getattr(values["atomic_numbers"], "shape", None)
            for key, value in values.items():
                has_rows = bool(n_atoms) and getattr(value, "shape", ())[:1] == n_atoms
                levels[key] = levels.get(key, True) and has_rows
        return levels | dict(self._levels)


class _Jagged(tuple[Tensor, Tensor]):
    """Rows of all examples, and the first row of each."""


def _is_molecule(value: Any) -> bool:
    return isinstance(value, dict) and "positions" in value and "atomic_numbers" in value


def _may_be_label(key: str, values: Mapping[Any, Any]) -> bool:
    """False if the value of a key is a property, as the label of that name has another form."""
    value = values.get(key)
    row = getattr(value, "shape", ())[BUILTINS[key].level == "atom" :]
    is_number = isinstance(value, Tensor) and value.is_floating_point()
    is_number |= isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return key not in values or is_value_of(key, tuple(row), is_number=is_number)


def _molecule(
    values: Mapping[str, Any], levels: Mapping[str, bool], own_labels: Collection[str]
) -> Molecule:
    labels: dict[str, Any] = {}
    scopes: tuple[dict[str, Any], dict[str, Any]] = {}, {}  # properties of molecules, of atoms
    for key, stored in values.items():
        if not isinstance(key, str):
            raise FieldError(f"molecule: expected keys that are str, got {key!r}")
        known, value = prefixed_id(key), _array(key, stored)
        if isinstance(value, (dict, bytes)):
            raise FieldError(f"{key}: expected numbers, a text or None, got {type(value).__name__}")
        if key in own_labels:
            labels[key] = value
        elif known is not None:
            scopes[known.scope == ATOM_PROPERTY][known.key] = value
        elif key not in ("positions", "atomic_numbers"):
            scopes[levels.get(key, False)][key] = value
    properties, atom_properties = scopes
    return Molecule(
        _array("positions", values["positions"]),
        _array("atomic_numbers", values["atomic_numbers"]),
        properties=properties,
        atom_properties=atom_properties,
        **labels,
    )


def _array(key: str, value: Any) -> Any:
    """Converts lists to arrays: NumPy keeps the 64 bits of Python numbers, torch does not."""
    if not isinstance(value, (list, tuple)):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FieldError(f"{key}: expected rows of equal length: {error}") from None


def cast_floats(batch: Any, dtype: DTypes | None) -> Any:
    """Casts floating tensors of a batch, except ``energy`` unless a dict names it.

    Args:
        batch: a tensor, a ``MoleculeBatch``, or lists and dicts of them.
        dtype: one dtype, or dtypes by name; None: nothing is cast.

    Returns:
        The batch, or a new one of the same structure.
    """
    if dtype is None:
        return batch
    if isinstance(batch, MoleculeBatch):
        old = contents_of(batch)
        fields = {name: _cast_entry(name, value, dtype) for name, value in old.fields.items()}
        return MoleculeBatch(fields, old.infos, old.masks, old.mask_rows, old.arena)
    if isinstance(batch, dict):
        return {key: _cast_entry(key, value, dtype) for key, value in batch.items()}
    return _cast_entry(None, batch, dtype)


def _cast_entry(name: Any, value: Any, dtype: DTypes) -> Any:
    if isinstance(value, (dict, MoleculeBatch)):
        return cast_floats(value, dtype)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([_cast_entry(name, entry, dtype) for entry in value])
    wanted = dtype.get(name) if isinstance(dtype, Mapping) else dtype
    if wanted is None or not isinstance(value, Tensor):
        return value
    is_cast = isinstance(dtype, Mapping) or (value.is_floating_point() and name != "energy")
    return value.to(wanted) if is_cast else value


def complete_examples(batch: Any, missing: str) -> Tensor | None:
    """Finds the examples whose molecules have all fields of their batch.

    Args:
        batch: a ``MoleculeBatch``, or lists and dicts of such.
        missing: option of the dataset.

    Returns:
        (B,) bool, or None if every example is to stay.

    Raises:
        FieldError: ``missing`` is ``"error"`` and a molecule lacks a field.
    """
    if missing == "nan":
        return None
    found: Tensor | None = None
    for molecules in _batches_in(batch):
        for name in set(contents_of(molecules).mask_rows) - GEOMETRY:
            mask = molecules.mask(name)
            if missing == "error" and not bool(mask.all()):
                number = int(molecules.index[~mask][0])
                raise FieldError(f"missing value (molecule {number}, field {name!r})")
            found = mask if found is None else found & mask
    return found


def _batches_in(batch: Any) -> Iterator[MoleculeBatch]:
    if isinstance(batch, MoleculeBatch):
        yield batch
    elif isinstance(batch, (dict, list, tuple)):
        for value in batch.values() if isinstance(batch, dict) else batch:
            yield from _batches_in(value)


def specs_of_batch(batch: Any) -> dict[str, FieldSpec]:
    """Describes the tensors and strings of a batch that is a ``MoleculeBatch`` or a dict."""
    specs: dict[str, FieldSpec] = {}
    if isinstance(batch, MoleculeBatch):
        hidden = ("batch", "ptr", "n_atoms", "index")
        values = {name: value for name, value in batch.items() if name not in hidden}
        levels = {name: batch.level(name) for name in values}
    elif isinstance(batch, dict):
        values, levels = {key: v for key, v in batch.items() if isinstance(key, str)}, {}
    else:
        return specs
    for name, value in values.items():
        level = levels.get(name, "molecule")
        if isinstance(value, Tensor):
            specs[name] = FieldSpec(value.dtype, level, tuple(value.shape[1:]))
        elif isinstance(value, list) and value and isinstance(value[0], str):
            specs[name] = FieldSpec("string", level, ())
    return specs
