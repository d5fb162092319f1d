"""Splits a batch into its structure and its tensors, and assembles it again.

Pickling, moving, cloning and pytrees all use these two steps, so that the arena is transferred as
one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from atompack_torch._core import places_of, view_arena
from atompack_torch.fields import FieldInfo

# A field of a single molecule.
Entry = Tensor | str | None
# A field of a batch: a tensor, or a list with one entry per molecule (tensors of differing shape,
# strings, None).
Value = Tensor | list[Entry]

# A view of an arena: dtype, offset in bytes, shape.
Place = tuple[torch.dtype, int, Sequence[int]]


class Contents(NamedTuple):
    """Everything that a batch consists of, in the order of its constructor."""

    fields: dict[str, Value]
    infos: dict[str, FieldInfo]
    masks: Tensor | None
    mask_rows: dict[str, int]
    arena: Tensor | None = None


class Structure(NamedTuple):
    """A batch without its tensors, which are marked by ``...``; compares by value."""

    infos: tuple[tuple[str, FieldInfo], ...]
    values: tuple[EllipsisType | tuple[Any, ...], ...]
    mask_rows: tuple[str, ...]


def disassemble(
    fields: dict[str, Value], infos: dict[str, FieldInfo], mask_rows: dict[str, int]
) -> tuple[Structure, list[Tensor]]:
    """Returns the structure and the tensors of fields, in order, without the masks."""
    tensors: list[Tensor] = []
    values: list[EllipsisType | tuple[Any, ...]] = []
    for value in fields.values():
        if isinstance(value, Tensor):
            tensors.append(value)
            values.append(...)
        else:
            tensors += [v for v in value if isinstance(v, Tensor)]
            values.append(tuple(... if isinstance(v, Tensor) else v for v in value))
    return Structure(tuple(infos.items()), tuple(values), tuple(mask_rows)), tensors


def assemble(structure: Structure, tensors: Iterable[Tensor]) -> dict[str, Value]:
    """Rebuilds fields from a structure, with other tensors in the same positions."""
    rest = iter(tensors)
    fields: dict[str, Value] = {}
    for (name, _), value in zip(structure.infos, structure.values, strict=True):
        if value is ...:
            fields[name] = next(rest)
        else:
            fields[name] = [next(rest) if v is ... else v for v in value]
    return fields


def locate(tensors: list[Tensor], arena: Tensor | None) -> list[Place | None]:
    """Returns the location of each tensor in an arena, None for those that are no views of it."""
    if arena is None:
        return [None] * len(tensors)
    return [*places_of(tensors, arena)]


def move(
    tensors: list[Tensor], arena: Tensor | None, step: Callable[[Tensor], Tensor]
) -> tuple[list[Tensor], Tensor | None]:
    """Applies ``step`` (a copy, a transfer) to the arena, and to each tensor outside it."""
    places = locate(tensors, arena)
    if arena is None or not any(places):
        return [step(tensor) for tensor in tensors], None
    moved = step(arena)
    views = iter(view_arena(moved, [place for place in places if place]))
    together = zip(tensors, places, strict=True)
    return [next(views) if place else step(tensor) for tensor, place in together], moved
