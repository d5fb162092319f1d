"""Joins the fields of several batches into those of one.

This is the path for data in memory. Datasets do not use it: the native core collates their records
in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import common_dtype, pack_tensors
from atompack_torch.batch import storage
from atompack_torch.batch.collated_fields import CollatedFields
from atompack_torch.batch.storage import Contents, Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import (
    ATOM_INDICES,
    COLUMNS,
    GEOMETRY,
    NEIGHBOR_INFO,
    NEIGHBORS,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    Level,
    public_names,
)


def join(parts: Sequence[CollatedFields]) -> Contents:
    """Concatenates batches; fields that only some of them have are masked for the others.

    Args:
        parts: at least one.

    Returns:
        The joined fields; those of N atoms in total have N rows.

    Raises:
        FieldError: the types of a field cannot share a batch, or only some parts have edges or
            triplets.
    """
    fields = _join_structure(parts)
    neighbors = _join_neighbors(parts)
    fields |= neighbors
    infos = STRUCTURE_INFO | {name: NEIGHBOR_INFO[name] for name in neighbors}
    ids = _field_ids(parts)
    names = public_names(ids, RESERVED)
    masks = []
    for field, name in zip(ids, names, strict=True):
        pieces = [_FieldPiece(part, field) for part in parts]
        level = next(p.info.level for p in pieces if p.info)
        fields[name] = _join_field(name, level, pieces, fields["ptr"])
        infos[name] = FieldInfo(*field, level)
        masks.append(torch.cat([piece.mask for piece in pieces]))
    rows = {name: row for row, name in enumerate(names)}
    return _pack(Contents(fields, infos, torch.stack(masks) if masks else None, rows))


def _field_ids(parts: Sequence[CollatedFields]) -> list[FieldId]:
    found: dict[FieldId, None] = {}
    for part in parts:
        for name, info in part._infos.items():
            if name not in STRUCTURE and name not in NEIGHBORS:
                found[FieldId(*info[:2])] = None
    return list(found)


def _join_structure(parts: Sequence[CollatedFields]) -> dict[str, Value]:
    n_atoms = torch.cat([part.n_atoms for part in parts])
    ptr = torch.zeros(len(n_atoms) + 1, dtype=torch.int64, device=n_atoms.device)
    torch.cumsum(n_atoms, 0, out=ptr[1:])
    numbers = torch.arange(len(n_atoms), device=n_atoms.device)
    index = torch.cat([part.index for part in parts])
    return {
        "positions": _cat("positions", [part.positions for part in parts]),
        "atomic_numbers": torch.cat([part.atomic_numbers for part in parts]),
        "batch": torch.repeat_interleave(numbers, n_atoms),
        "ptr": ptr,
        "n_atoms": n_atoms,
        "index": torch.where(index < 0, numbers, index),  # of a batch made by hand
    }


def _join_neighbors(parts: Sequence[CollatedFields]) -> dict[str, Value]:
    """Concatenates edges and triplets; they refer to atoms and edges of the joined batch."""
    joined: dict[str, Value] = {}
    for name, level in NEIGHBORS.items():
        n_having = sum(name in part._fields for part in parts)
        if n_having == 0:
            continue
        if n_having < len(parts):
            what = f"{level}s: only some parts have them"
            raise FieldError(f"{what}: no neighbor list (field {name!r})")
        tensors = [torch.as_tensor(part._fields[name]) for part in parts]
        if name not in COLUMNS:
            joined[name] = _cat(name, tensors)
            continue
        if name in ATOM_INDICES:
            counts = [len(part.positions) for part in parts]
        else:
            counts = [part.edge_index.shape[1] for part in parts]
        firsts = accumulate([0, *counts[:-1]])
        shifted = [index + first for index, first in zip(tensors, firsts, strict=True)]
        joined[name] = torch.cat(shifted, dim=1)
    return joined


class _FieldPiece:
    """The rows of a field in one part; without a value where the part lacks the field."""

    def __init__(self, part: CollatedFields, field: FieldId) -> None:
        infos = part._infos.items()
        name = next((n for n, info in infos if info[:2] == field and n not in STRUCTURE), None)
        self.info = None if name is None else part._infos[name]
        self.value: Value | None = None if name is None else part._fields[name]
        none = torch.zeros(len(part), dtype=torch.bool, device=part.ptr.device)
        self.mask = none if name is None else part.mask(name)
        self.n_molecules = len(part)
        self.n_atoms = len(part.positions)
        self.ptr = part.ptr

    def per_molecule(self, level: Level) -> list[Any]:
        """Returns one entry per molecule, None where it is masked."""
        if self.value is None:
            return [None] * self.n_molecules
        if isinstance(self.value, list):
            return self.value
        counts = self.ptr.diff().tolist()
        rows = torch.split(self.value, counts) if level == "atom" else self.value.unbind()
        return [row if has else None for row, has in zip(rows, self.mask.tolist(), strict=True)]


def _join_field(name: str, level: Level, pieces: list[_FieldPiece], ptr: Value) -> Value:
    if name in ATOM_INDICES:
        firsts = accumulate((piece.n_atoms for piece in pieces), initial=0)
        for piece, first in zip(pieces, firsts, strict=False):
            if isinstance(piece.value, Tensor):
                piece.value = piece.value + first
    tensors = [p.value for p in pieces if isinstance(p.value, Tensor)]
    lists = [p.value for p in pieces if isinstance(p.value, list)]
    shapes = {tuple(t.shape[1:]) for t in tensors}
    if not lists and len(shapes) == 1:
        return _cat(name, [_rows_of_piece(name, piece, level, tensors[0]) for piece in pieces])
    if level in ("edge", "triplet"):
        raise FieldError(f"shapes that cannot share a batch: {sorted(shapes)} (field {name!r})")
    entries = [entry for piece in pieces for entry in piece.per_molecule(level)]
    return _stack_if_equal(name, level, entries, ptr)


def _rows_of_piece(name: str, piece: _FieldPiece, level: Level, like: Tensor) -> Tensor:
    if isinstance(piece.value, Tensor):
        return piece.value
    rows = {"atom": piece.n_atoms, "molecule": piece.n_molecules}.get(level, 0)
    return _missing_rows(name, (rows, *like.shape[1:]), like)


def _missing_rows(name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
    value: complex = 0
    if like.is_complex():
        value = complex("nan+nanj")
    elif like.is_floating_point() and name not in GEOMETRY:
        value = float("nan")
    return torch.full(shape, value, dtype=like.dtype, device=like.device)


def _stack_if_equal(name: str, level: Level, entries: list[Any], ptr: Value) -> Value:
    """Returns one tensor if all values have the same row shape; else the list of values."""
    tensors = [entry for entry in entries if isinstance(entry, Tensor)]
    others = [entry for entry in entries if entry is not None and not isinstance(entry, Tensor)]
    if tensors and others:
        raise FieldError(f"types that cannot share a batch: tensors and strings (field {name!r})")
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1 and (common := common_dtype(list(dtypes))) is not None:
        entries = [e.to(common) if isinstance(e, Tensor) else e for e in entries]
        tensors = [entry for entry in entries if isinstance(entry, Tensor)]
    start = 1 if level == "atom" else 0
    with_rows = [t for t in tensors if level == "molecule" or len(t)]
    shapes = {tuple(t.shape[start:]) for t in with_rows}
    if len(shapes) != 1:
        return entries
    like = with_rows[0]
    if level == "molecule":
        full = [_missing_rows(name, tuple(like.shape), like) if e is None else e for e in entries]
        return _cat(name, [value.unsqueeze(0) for value in full])
    counts = torch.as_tensor(ptr).diff().tolist()
    filled = [
        _missing_rows(name, (n, *like.shape[1:]), like) if e is None or not len(e) else e
        for e, n in zip(entries, counts, strict=True)
    ]
    return _cat(name, filled)


def _cat(name: str, tensors: list[Tensor]) -> Tensor:
    """Concatenates tensors in their common dtype; types of different kinds are an error."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return torch.cat(tensors)
    if (common := common_dtype(list(dtypes))) is None:
        kinds = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise FieldError(f"types that cannot share a batch: {kinds} (field {name!r})")
    return torch.cat([tensor.to(common) for tensor in tensors])


def _pack(contents: Contents) -> Contents:
    """Moves everything into one arena in a worker process, which then sends a single block."""
    if get_worker_info() is None:
        return contents
    fields, infos, masks, rows, _ = contents
    structure, tensors = storage.disassemble(fields, infos, rows or {})
    arena, views = pack_tensors(tensors if masks is None else [*tensors, masks])
    packed = None if masks is None else views[-1]
    return Contents(storage.assemble(structure, views), infos, packed, rows, arena)
