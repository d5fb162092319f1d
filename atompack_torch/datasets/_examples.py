"""Batches of examples: what the native core hands over, and what is left to Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from atompack_torch._core import FieldTable
from atompack_torch.batch.molecule_batch import Molecule, MoleculeBatch
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_PROPERTY,
    BUILTINS,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    prefixed_id,
    public_names,
)

Heads = tuple[tuple[int, str, Any], ...]


def molecules_of(
    arena: Tensor, table: FieldTable, values: list[Any], masks: Tensor, faults: list[Any]
) -> MoleculeBatch:
    """A batch from what the native core hands over: structure, then the fields of ``table``."""
    names, infos, rows = _describe(tuple(table.fields()))
    fields = dict(zip(names, values, strict=True))
    return MoleculeBatch(fields, infos, masks if rows else None, rows, arena)


@lru_cache(maxsize=64)
def _describe(heads: Heads) -> tuple[list[str], dict[str, FieldInfo], dict[str, int]]:
    fields = [FieldInfo(*head) for head in heads]
    names = public_names([FieldId(*field[:2]) for field in fields], RESERVED)
    infos = STRUCTURE_INFO | dict(zip(names, fields, strict=True))
    return [*STRUCTURE, *names], infos, {name: row for row, name in enumerate(names)}


class Examples:
    """Collates examples one by one, for batches that the native core leaves alone.

    Args:
        numbers: of the examples in the data set.
        levels: key of molecules → whether it is one of atoms.
        jagged: arrays that differ in their first dimension become a pair of tensors.
    """

    def __init__(self, numbers: Sequence[int], levels: Mapping[str, bool], *, jagged: bool) -> None:
        self._numbers, self._levels, self._jagged = numbers, levels, jagged

    def collate(self, column: list[Any]) -> Any:
        """One batch of values, one an example: what default_collate makes, and our exceptions.

        Without examples nothing tells what a batch is like: an empty list.
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
        batch = MoleculeBatch.from_molecules([_molecule(values, levels) for values in column])
        batch.set_field("index", torch.tensor(self._numbers), "molecule")
        return batch

    def _levels_in(self, column: list[dict[Any, Any]]) -> dict[str, bool]:
        """Keys that the data set's levels do not name have those of this batch."""
        levels: dict[str, bool] = {}
        for values in column:
            n_atoms = getattr(values["atomic_numbers"], "shape", None)
            for key, value in values.items():
                has_rows = bool(n_atoms) and getattr(value, "shape", ())[:1] == n_atoms
                levels[key] = levels.get(key, True) and has_rows
        return levels | dict(self._levels)


class _Jagged(tuple[Tensor, Tensor]):
    """Rows of all examples, and where those of each begin."""


def _is_molecule(value: Any) -> bool:
    return isinstance(value, dict) and "positions" in value and "atomic_numbers" in value


def _molecule(values: Mapping[str, Any], levels: Mapping[str, bool]) -> Molecule:
    labels: dict[str, Any] = {}
    scopes: tuple[dict[str, Any], dict[str, Any]] = {}, {}  # of molecules, of atoms
    for key, stored in values.items():
        if not isinstance(key, str):
            raise FieldError(f"molecule: expected keys that are str, got {key!r}")
        known, value = prefixed_id(key), _array(key, stored)
        if isinstance(value, (dict, bytes)):
            raise FieldError(f"{key}: expected numbers, a text or None, got {type(value).__name__}")
        if key in BUILTINS:
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
    """Lists as arrays: Python keeps their numbers in 64 bits, as NumPy does and torch does not."""
    if not isinstance(value, (list, tuple)):
        return value
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FieldError(f"{key}: expected rows of equal length: {error}") from None
