"""Payload of batches other than ``MoleculeBatch``: sent to another process as a single block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import view_arena
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.batch.storage import Place, Structure, place_of
from atompack_torch.datasets.collated import as_items


def as_payload(arena: Tensor | None, batch: Any) -> list[Any]:
    """Returns the result of ``__getitems__``: one batch, which a worker sends as one block.

    Args:
        arena: memory that holds all tensors of the batch, or None.
        batch: a ``MoleculeBatch``, or any structure of tensors.

    Returns:
        A list of one item.
    """
    if arena is None or get_worker_info() is None:
        return as_items(batch)
    return as_items(batch, arena, ArenaPayload(arena, batch))


class ArenaPayload:
    """A batch that leaves a DataLoader worker with its arena.

    The receiver gets the batch itself; see ``transport``.
    """

    def __init__(self, arena: Tensor, batch: Any) -> None:
        self.arena, self.batch = arena, batch

    def disassemble(self) -> tuple[list[Place], Any] | None:
        """Returns the places of all tensors, and the batch with ``...`` in their positions.

        None if a tensor is not a view of the arena, because user code has replaced it.
        """
        places: list[Place | None] = []
        form = self._form(self.batch, places)
        return None if None in places else (cast(list[Place], places), form)

    def _form(self, batch: Any, places: list[Place | None]) -> Any:
        if isinstance(batch, Tensor):
            places.append(place_of(batch, self.arena))
            return ...
        if isinstance(batch, dict):
            return {key: self._form(value, places) for key, value in batch.items()}
        if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
            return type(batch)([self._form(value, places) for value in batch])
        if isinstance(batch, MoleculeBatch):
            structure, tensors = batch._disassemble()
            rows = tuple(batch._mask_rows.values())
            return _MoleculeForm(structure, self._form(tensors, places), rows)
        return batch


class _MoleculeForm(NamedTuple):
    """A ``MoleculeBatch`` inside a batch, without its tensors."""

    structure: Structure
    tensors: list[Any]
    rows: tuple[int, ...]


def assemble(arena: Tensor, places: list[Place], form: Any) -> Any:
    """Rebuilds a batch over an arena that came from another process."""
    return _fill_form(form, iter(view_arena(arena, places)), arena)


def _fill_form(form: Any, tensors: Iterator[Tensor], arena: Tensor) -> Any:
    if form is ...:
        return next(tensors)
    if isinstance(form, _MoleculeForm):
        inside = [_fill_form(tensor, tensors, arena) for tensor in form.tensors]
        return MoleculeBatch._assemble(form.structure, inside, form.rows, arena)
    if isinstance(form, dict):
        return {key: _fill_form(value, tensors, arena) for key, value in form.items()}
    if isinstance(form, (list, tuple)) and not hasattr(form, "_fields"):
        return type(form)([_fill_form(value, tensors, arena) for value in form])
    return form
