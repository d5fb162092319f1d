"""Batches of a given shape, with masks: a dummy molecule after the others, or rows of atoms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import CollatedFields
from atompack_torch.batch.storage import Contents, Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, COLUMNS, EDGES, MASKS, STRUCTURE, FieldInfo, Level
from atompack_torch.options import checked_integer

# The dummy molecule needs two atoms, so that an edge between them has a length.
_MIN_ATOMS = 2


def padded(batch: CollatedFields, molecules: int, atoms: int, edges: int | None) -> Contents:
    """Pads a batch; see ``MoleculeBatch.padded_to``."""
    wanted: dict[Level, int] = {
        "molecule": checked_integer("molecules", molecules),
        "atom": checked_integer("atoms", atoms),
    }
    sizes: dict[Level, int] = {"molecule": len(batch), "atom": len(batch.positions)}
    if edges is not None:
        if "edge_index" not in batch._fields:
            raise FieldError("padded_to: expected a batch with edge_index, got edges without one")
        wanted["edge"] = checked_integer("edges", edges)
        sizes["edge"] = batch.edge_index.shape[1]
    elif "edge_index" in batch._fields:
        raise FieldError("padded_to: expected a number of edges for a batch with edge_index")
    if is_padded(batch):
        raise FieldError("padded_to: the batch is padded already")
    for name in MASKS.values():
        if name in batch._fields:
            raise FieldError(f"padded_to: the batch has another field {name!r}: leave it out")
    _check_room(sizes, wanted)
    more = {level: count - sizes[level] for level, count in wanted.items()}
    fields = {
        name: _pad(name, value, batch._infos[name].level, sizes, more)
        for name, value in batch._fields.items()
    }
    labels = [name for name in fields if name not in STRUCTURE and name not in EDGES]
    absent = torch.zeros(more["molecule"], dtype=torch.bool, device=batch.ptr.device)
    rows = [torch.cat([batch.mask(name), absent]) for name in labels]
    table = torch.stack(rows) if rows else absent.new_zeros((0, wanted["molecule"]))
    infos = dict(batch._infos)
    for level, count in wanted.items():
        name = MASKS[level]
        fields[name] = torch.arange(count, device=batch.ptr.device) < sizes[level]
        infos[name] = FieldInfo(BUILTIN, name, level)
    return Contents(fields, infos, table, {name: row for row, name in enumerate(labels)})


def _check_room(sizes: dict[Level, int], wanted: dict[Level, int]) -> None:
    for level, count in wanted.items():
        if count < sizes[level]:
            raise FieldError(f"padded_to: expected room for {sizes[level]} {level}s, got {count}")
    has_room = wanted["molecule"] > sizes["molecule"]
    has_room = has_room and wanted["atom"] >= sizes["atom"] + _MIN_ATOMS
    if wanted != sizes and not has_room:
        raise FieldError(
            f"padded_to: expected room for a dummy molecule of {_MIN_ATOMS} atoms next to "
            f"{sizes['molecule']} molecules and {sizes['atom']} atoms, got "
            f"{wanted['molecule']} molecules and {wanted['atom']} atoms"
        )


def _pad(
    name: str, value: Value, level: Level, sizes: dict[Level, int], more: dict[Level, int]
) -> Value:
    """Adds the values of the dummy molecule, and of the empty ones after it, to a field."""
    if level not in more:
        raise FieldError(
            f"padded_to: expected molecules, atoms and edges, got the {level} field {name!r}: "
            "leave it out"
        )
    if isinstance(value, Tensor):
        padding = _padding_of(name, value, level, sizes, more)
        return torch.cat([value, padding], int(name in COLUMNS))
    if any(isinstance(entry, Tensor) for entry in value):
        raise FieldError(
            f"padded_to: expected fields of one shape, got {name!r}, whose shape differs "
            "between molecules: leave it out"
        )
    return [*value, *[None] * more["molecule"]]


def _padding_of(
    name: str, value: Tensor, level: Level, sizes: dict[Level, int], more: dict[Level, int]
) -> Tensor:
    n, first = more[level], sizes["atom"]
    if name == "atomic_numbers":  # models know the element of the first atom
        return (value[:1] if len(value) else value.new_ones(1)).expand(n)
    if name == "cell":
        return torch.eye(3, dtype=value.dtype, device=value.device).expand(n, 3, 3)
    if name == "edge_index":
        return value.new_tensor([[first], [first + 1]]).expand(2, n)
    fills = {"batch": sizes["molecule"], "ptr": first + more["atom"], "index": -1}
    padding = value.new_full((n, *value.shape[1:]), fills.get(name, 0))
    if name == "positions":
        padding[:, 0] = torch.arange(n, device=value.device)
    elif name == "edge_vector":
        padding[:, 0] = 1
    elif name == "n_atoms":
        padding[:1] = more["atom"]
    return padding


def is_padded(batch: CollatedFields) -> bool:
    """True if the batch was made by ``padded_to``."""
    info = batch._infos.get(MASKS["molecule"])
    return info is not None and info.scope == BUILTIN


def dense(batch: CollatedFields, pad: int) -> dict[str, Value]:
    """Implements ``MoleculeBatch.dense``."""
    mask_name = MASKS["atom"]
    if mask_name in batch._fields:
        raise FieldError(f"dense: expected no field {mask_name!r}, which the result has: drop it")
    n_molecules, n_atoms = len(batch), len(batch.positions)
    width = int(batch.n_atoms.max()) if n_molecules else 0
    shape = (n_molecules, width)
    rows = None  # places of the atoms; molecules of one size are in place already
    if n_atoms != n_molecules * width:
        starts = torch.arange(n_molecules, device=batch.ptr.device) * width - batch.ptr[:-1]
        rows = torch.arange(n_atoms, device=batch.ptr.device) + starts[batch.batch]

    def spread(values: Tensor, fill: Any) -> Tensor:
        if rows is not None:
            empty = values.new_full((n_molecules * width, *values.shape[1:]), fill)
            values = empty.index_copy(0, rows, values)
        return values.reshape(*shape, *values.shape[1:])

    made: dict[str, Value] = {}
    for name, value in batch.items():
        level = batch.level(name)
        if name in ("batch", "ptr"):
            continue
        if level not in ("molecule", "atom") or (level == "atom" and not isinstance(value, Tensor)):
            raise FieldError(
                f"dense: expected values of molecules, and of atoms in one shape, got the {level} "
                f"field {name!r}: drop it"
            )
        if level == "atom" and isinstance(value, Tensor):
            value = spread(value, pad if name == "atomic_numbers" else 0)
        made[name] = value
    made[mask_name] = spread(batch.batch.new_ones(n_atoms, dtype=torch.bool), False)
    return made
