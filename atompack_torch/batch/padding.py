"""Batches of a given shape, with masks: a dummy molecule after the others, or rows of atoms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import CollatedFields, Contents
from atompack_torch.batch.storage import Value
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, COLUMNS, EDGES, MASKS, STRUCTURE, FieldInfo, Level
from atompack_torch.options import checked_integer

# The dummy molecule needs two atoms, so that an edge between them has a length.
_MIN_ATOMS = 2


def padded(batch: CollatedFields, molecules: int, atoms: int, edges: int | None) -> Contents:
    """Pads a batch; see ``MoleculeBatch.padded_to``."""
    return Contents(*_Padding(batch, molecules, atoms, edges).contents())


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


class _Padding:
    def __init__(
        self, batch: CollatedFields, molecules: int, atoms: int, edges: int | None
    ) -> None:
        self._batch = batch
        has_edges = "edge_index" in batch._fields
        if edges is not None and not has_edges:
            raise FieldError("padded_to: expected a batch with edge_index, got edges without one")
        if edges is None and has_edges:
            raise FieldError("padded_to: expected a number of edges for a batch with edge_index")
        if is_padded(batch):
            raise FieldError("padded_to: the batch is padded already")
        for name in MASKS.values():
            if name in batch._fields:
                raise FieldError(f"padded_to: the batch has another field {name!r}: leave it out")
        self._sizes: dict[Level, int] = {
            "molecule": len(batch),
            "atom": int(batch.ptr[-1]) if batch.ptr.device.type == "cpu" else len(batch.positions),
        }
        self._wanted: dict[Level, int] = {
            "molecule": checked_integer("molecules", molecules),
            "atom": checked_integer("atoms", atoms),
        }
        if edges is not None:
            self._sizes["edge"] = int(batch.edge_index.shape[1])
            self._wanted["edge"] = checked_integer("edges", edges)
        self._check()

    def _more(self, level: Level) -> int:
        return self._wanted[level] - self._sizes[level]

    def _check(self) -> None:
        for level, count in self._wanted.items():
            if count < self._sizes[level]:
                raise FieldError(
                    f"padded_to: expected room for {self._sizes[level]} {level}s, got {count}"
                )
        if not any(self._more(level) for level in self._wanted):
            return
        if self._more("molecule") < 1 or self._more("atom") < _MIN_ATOMS:
            raise FieldError(
                f"padded_to: expected room for a dummy molecule of {_MIN_ATOMS} atoms next to "
                f"{self._sizes['molecule']} molecules and {self._sizes['atom']} atoms, got "
                f"{self._wanted['molecule']} molecules and {self._wanted['atom']} atoms"
            )

    def contents(self) -> tuple[Any, ...]:
        fields = {name: self._field(name, value) for name, value in self._batch._fields.items()}
        infos = dict(self._batch._infos)
        masks = {
            name: self._present(level) for level, name in MASKS.items() if level in self._wanted
        }
        fields |= masks
        infos |= {
            name: FieldInfo(BUILTIN, name, level) for level, name in MASKS.items() if name in masks
        }
        molecules = masks[MASKS["molecule"]]
        absent = molecules.new_zeros(self._more("molecule"))
        labels = [n for n in fields if n not in STRUCTURE and n not in masks and n not in EDGES]
        rows = [torch.cat([self._batch.mask(name), absent]) for name in labels]
        table = torch.stack(rows) if rows else molecules.new_zeros((0, len(molecules)))
        return fields, infos, table, {name: row for row, name in enumerate(labels)}, None

    def _present(self, level: Level) -> Tensor:
        device = self._batch.ptr.device
        return torch.arange(self._wanted[level], device=device) < self._sizes[level]

    def _field(self, name: str, value: Value) -> Value:
        level = self._batch._infos[name].level
        if level not in self._wanted:
            raise FieldError(
                f"padded_to: expected molecules, atoms and edges, got the {level} field {name!r}: "
                "leave it out"
            )
        if isinstance(value, Tensor):
            return torch.cat([value, self._padding_of(name, value, level)], int(name in COLUMNS))
        if any(isinstance(entry, Tensor) for entry in value):
            raise FieldError(
                f"padded_to: expected fields of one shape, got {name!r}, whose shape differs "
                "between molecules: leave it out"
            )
        return [*value, *[None] * self._more("molecule")]

    def _padding_of(self, name: str, value: Tensor, level: Level) -> Tensor:
        """Returns the values of the dummy molecule, and of the empty ones after it."""
        more, first = self._more(level), self._sizes["atom"]
        if name == "atomic_numbers":  # models know the element of the first atom
            return (value[:1] if len(value) else value.new_ones(1)).expand(more)
        if name == "cell":
            return torch.eye(3, dtype=value.dtype, device=value.device).expand(more, 3, 3)
        if name == "edge_index":
            return value.new_tensor([[first], [first + 1]]).expand(2, more)
        fills = {"batch": self._sizes["molecule"], "ptr": self._wanted["atom"], "index": -1}
        padding = value.new_full((more, *value.shape[1:]), fills.get(name, 0))
        if name == "positions":
            padding[:, 0] = torch.arange(more, device=value.device)
        elif name == "edge_vector":
            padding[:, 0] = 1
        elif name == "n_atoms":
            padding[:1] = self._more("atom")
        return padding
