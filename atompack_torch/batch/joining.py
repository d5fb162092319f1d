"""Joining molecules and batches to one batch; making a batch by hand.

This is the path for what is already in memory. Data sets do not come through here: the native core
collates their records at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import common_dtype, pack_tensors
from atompack_torch.batch.exact_values import check_unmasked, check_unmasked_items, converted
from atompack_torch.batch.molecule import Molecule
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.batch.storage import Value
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import (
    ATOM_INDICES,
    ATOM_PROPERTY,
    BUILTIN,
    BUILTINS,
    EDGE_INFO,
    EDGES,
    GEOMETRY,
    MOLECULE_PROPERTY,
    RESERVED,
    STRUCTURE,
    STRUCTURE_INFO,
    FieldId,
    FieldInfo,
    Level,
    public_names,
    squeeze_hint,
)


def collate(items: MoleculeBatch | Sequence[Molecule | MoleculeBatch]) -> MoleculeBatch:
    """One batch of molecules, batches, or both; the identity on a batch or a list of one.

    A field that only some have is masked for the others. ``DataLoader`` needs no ``collate_fn``:
    its default knows these classes.

    Raises:
        TypeError: something else is among the items.
        FieldError: the types of a field differ more than in float width.
        CorruptFileError: a molecule holds a damaged value.
    """
    if isinstance(items, MoleculeBatch):
        return items
    items = list(items)
    if len(items) == 1 and isinstance(items[0], MoleculeBatch):
        return items[0]
    return join(items)


def join(items: Sequence[Molecule | MoleculeBatch]) -> MoleculeBatch:
    """Concatenates; never the identity."""
    parts = [_undamaged_batch(item) if isinstance(item, Molecule) else item for item in items]
    for part in parts:
        if not isinstance(part, MoleculeBatch):
            raise TypeError(f"expected Molecule or MoleculeBatch, got {type(part).__name__}")
    if not parts:
        raise ValueError("expected at least one molecule or batch, got none")
    fields = _join_structure(parts)
    edges = _join_edges(parts)
    fields |= edges
    infos = STRUCTURE_INFO | {name: EDGE_INFO[name] for name in edges}
    ids = _field_ids(parts)
    names = public_names(ids, RESERVED)
    masks = []
    for field, name in zip(ids, names, strict=True):
        pieces = [_find_piece(part, field) for part in parts]
        level = next(p.info.level for p in pieces if p.info)
        fields[name] = _join_field(name, level, pieces, fields["ptr"])
        infos[name] = FieldInfo(*field, level)
        masks.append(torch.cat([piece.mask for piece in pieces]))
    rows = {name: row for row, name in enumerate(names)}
    return _pack(MoleculeBatch(fields, infos, torch.stack(masks) if masks else None, rows))


def _undamaged_batch(molecule: Molecule) -> MoleculeBatch:
    for fault in molecule._faults.values():
        raise CorruptFileError(fault)
    return batch_of_one(molecule)


def _field_ids(parts: Sequence[MoleculeBatch]) -> list[FieldId]:
    found: dict[FieldId, None] = {}
    for part in parts:
        for name, info in part._infos.items():
            if name not in STRUCTURE and name not in EDGES:
                found[FieldId(*info[:2])] = None
    return list(found)


def _join_structure(parts: Sequence[MoleculeBatch]) -> dict[str, Value]:
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
        "index": torch.where(index < 0, numbers, index),  # made by hand: numbered here
    }


def _join_edges(parts: Sequence[MoleculeBatch]) -> dict[str, Value]:
    """Atoms renumbered. Edges that only some parts have cannot be made up for the others."""
    joined: dict[str, Value] = {}
    for name in EDGES:
        n_having = sum(name in part._fields for part in parts)
        if n_having == 0:
            continue
        if n_having < len(parts):
            raise FieldError(f"edges: only some parts have them: no neighbor list (field {name!r})")
        tensors = [part[name] for part in parts]
        if name != "edge_index":
            joined[name] = _cat(name, tensors)
            continue
        firsts = accumulate([0, *(len(part.positions) for part in parts[:-1])])
        shifted = [index + first for index, first in zip(tensors, firsts, strict=True)]
        joined[name] = torch.cat(shifted, dim=1)
    return joined


class _FieldPiece:
    """What one part has of a field."""

    def __init__(self, part: MoleculeBatch, name: str | None) -> None:
        self.info = None if name is None else part._infos[name]
        self.value: Value | None = None if name is None else part._fields[name]
        none = torch.zeros(len(part), dtype=torch.bool, device=part.ptr.device)
        self.mask = none if name is None else part.mask(name)
        self.n_molecules = len(part)
        self.n_atoms = len(part.positions)
        self.ptr = part.ptr

    def per_molecule(self, level: Level) -> list[Any]:
        """One entry a molecule, None where it is masked."""
        if self.value is None:
            return [None] * self.n_molecules
        if isinstance(self.value, list):
            return self.value
        counts = self.ptr.diff().tolist()
        rows = torch.split(self.value, counts) if level == "atom" else self.value.unbind()
        return [row if has else None for row, has in zip(rows, self.mask.tolist(), strict=True)]


def _find_piece(part: MoleculeBatch, field: FieldId) -> _FieldPiece:
    names = [n for n, info in part._infos.items() if info[:2] == field and n not in STRUCTURE]
    return _FieldPiece(part, names[0] if names else None)


def _join_field(name: str, level: Level, pieces: list[_FieldPiece], ptr: Value) -> Value:
    if name in ATOM_INDICES:
        _shift_atom_indices(pieces)
    tensors = [p.value for p in pieces if isinstance(p.value, Tensor)]
    lists = [p.value for p in pieces if isinstance(p.value, list)]
    shapes = {tuple(t.shape[1:]) for t in tensors}
    if not lists and len(shapes) == 1:
        return _cat(name, [_rows_of_piece(name, piece, level, tensors[0]) for piece in pieces])
    if level in ("edge", "triplet"):
        raise FieldError(f"shapes that cannot share a batch: {sorted(shapes)} (field {name!r})")
    entries = [entry for piece in pieces for entry in piece.per_molecule(level)]
    return _stack_if_equal(name, level, entries, ptr)


def _shift_atom_indices(pieces: list[_FieldPiece]) -> None:
    first = 0
    for piece in pieces:
        if isinstance(piece.value, Tensor):
            piece.value = piece.value + first
        first += piece.n_atoms


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
    """One tensor where all values have one row shape; strings and what differs stay a list."""
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
    """Widths mix to the widest, kinds do not mix."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        return torch.cat(tensors)
    if (common := common_dtype(list(dtypes))) is None:
        kinds = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
        raise FieldError(f"types that cannot share a batch: {kinds} (field {name!r})")
    return torch.cat([tensor.to(common) for tensor in tensors])


def _pack(batch: MoleculeBatch) -> MoleculeBatch:
    """Into one arena, so that it leaves a worker process as one piece."""
    if get_worker_info() is None:
        return batch
    structure, tensors = batch._disassemble()
    arena, views = pack_tensors(tensors)
    return MoleculeBatch._assemble(structure, views, batch._mask_rows.values(), arena)


def batch_of_one(molecule: Molecule) -> MoleculeBatch:
    """A batch of this molecule, with the fields that are present and sound."""
    batch, row = molecule._batch, molecule._row
    fields: dict[str, Value] = {name: molecule._value(name) for name in STRUCTURE}
    n_atoms = len(molecule)
    fields |= {
        "batch": torch.zeros(n_atoms, dtype=torch.int64, device=batch.ptr.device),
        "ptr": torch.tensor([0, n_atoms], device=batch.ptr.device),
        "n_atoms": batch.n_atoms[row : row + 1],
        "index": batch.index[row : row + 1],
    }
    infos = dict(STRUCTURE_INFO)
    for name in molecule.keys():
        if name in STRUCTURE or name in molecule._faults:
            continue
        value, infos[name] = molecule._value(name), batch._infos[name]
        per_molecule = infos[name].level == "molecule"
        if isinstance(value, Tensor):
            fields[name] = value.unsqueeze(0) if per_molecule else value
        else:
            fields[name] = [value]
    whole = MoleculeBatch(fields, infos)
    return whole.clone()  # of its own memory: what is kept or sent is these rows alone


def batch_from_values(
    positions: Any,
    atomic_numbers: Any,
    labels: Mapping[str, Any],
    properties: Mapping[str, Any],
    atom_properties: Mapping[str, Any],
) -> MoleculeBatch:
    """A batch of one molecule from plain values, checked."""
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
            raise TypeError(f"{key!r} is no label: custom values go into properties= and so on")
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
    return MoleculeBatch(fields, infos)


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _level_of(field: FieldId) -> Level:
    if field.scope == BUILTIN:
        return BUILTINS[field.key].level
    return "atom" if field.scope == ATOM_PROPERTY else "molecule"


def _value_of_one(name: str, field: FieldId, level: Level, value: Any, n_atoms: int) -> Value:
    if value is None or isinstance(value, str):
        return [value]
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
    """A number of a molecule: float64 or int64, or what neither of them can hold."""
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
        raise FieldError(f"{name}: not a tensor, number or string: {error}") from None
    if isinstance(value, (list, tuple)) and tensor.is_floating_point() and tensor.isinf().any():
        # torch takes its default type for lists.
        converted(name, np.asarray(value), str(tensor.dtype).removeprefix("torch."), rounds=True)
    return tensor
