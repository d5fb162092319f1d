"""Transport of batches between processes: arenas and descriptors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import lru_cache
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, cast

from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import (
    attach_ring,
    places_of,
    receive_arena,
    ring_to_attach,
    send_arena,
    view_arena,
)
from atompack_torch.batch.molecule_batch import (
    Context,
    MoleculeBatch,
    flatten_batch,
    restore_batch,
    unflatten_batch,
)
from atompack_torch.batch.storage import Place
from atompack_torch.datasets.collated import CollatedDict, as_items


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
        """Returns the locations of all tensors, and the batch with ``...`` in their positions.

        None if a tensor is not a view of the arena, because user code has replaced it.
        """
        tensors: list[Tensor] = []
        form = self._form(self.batch, tensors)
        places = places_of(tensors, self.arena)
        return None if None in places else (cast(list[Place], places), form)

    def _form(self, batch: Any, found: list[Tensor]) -> Any:
        if isinstance(batch, Tensor):
            found.append(batch)
            return ...
        if isinstance(batch, dict):
            return {key: self._form(value, found) for key, value in batch.items()}
        if isinstance(batch, (list, tuple)) and not hasattr(batch, "_fields"):
            return type(batch)([self._form(value, found) for value in batch])
        if isinstance(batch, MoleculeBatch):
            tensors, context = flatten_batch(batch)
            return _MoleculeForm(self._form(tensors, found), context)
        return batch


class _MoleculeForm(NamedTuple):
    """A ``MoleculeBatch`` inside a batch, without its tensors."""

    tensors: list[Any]
    context: Context


def assemble(arena: Tensor, places: list[Place], form: Any) -> Any:
    """Rebuilds a batch over an arena that came from another process."""
    return _fill_form(form, iter(view_arena(arena, places)), arena)


def _fill_form(form: Any, tensors: Iterator[Tensor], arena: Tensor) -> Any:
    if form is ...:
        return next(tensors)
    if isinstance(form, _MoleculeForm):
        inside = [_fill_form(tensor, tensors, arena) for tensor in form.tensors]
        return unflatten_batch(inside, form.context, arena)
    if isinstance(form, dict):
        return {key: _fill_form(value, tensors, arena) for key, value in form.items()}
    if isinstance(form, (list, tuple)) and not hasattr(form, "_fields"):
        return type(form)([_fill_form(value, tensors, arena) for value in form])
    return form


Rebuild = Callable[..., Any]


def _reduce_to_process(batch: MoleculeBatch) -> tuple[Rebuild, tuple[Any, ...]]:
    """Pickles a batch for another process; in a DataLoader worker, as the number of its slot."""
    rebuild, (structure, rows, arena, places, outside) = batch.__reduce__()
    if arena is None or get_worker_info() is None:
        return rebuild, (structure, rows, arena, places, outside)
    return _send(arena, _restore, _dump((structure, rows)), places, outside)


def _reduce_payload(payload: ArenaPayload) -> tuple[Rebuild, tuple[Any, ...]]:
    if (apart := payload.disassemble()) is None:
        return _unchanged, (payload.batch,)
    return _send(payload.arena, assemble, *apart)


def _reduce_dict(batch: CollatedDict) -> tuple[Rebuild, tuple[Any, ...]]:
    if batch.arena is None:
        return dict, (dict(batch),)
    return _reduce_payload(ArenaPayload(batch.arena, dict(batch)))


def _send(arena: Tensor, rebuild: Rebuild, *rest: Any) -> tuple[Rebuild, tuple[Any, ...]]:
    """Pickles a batch that consists of an arena and others, as the number of its slot.

    Until the receiver has attached to the ring of the worker, each batch is sent as a separate
    memory segment, together with the address of the ring.
    """
    if (ticket := send_arena(arena)) is not None:
        return _receive, (rebuild, ticket, arena.numel(), *rest)
    return _attach, (ring_to_attach(), rebuild, arena, *rest)


def _receive(rebuild: Rebuild, ticket: Any, n_bytes: int, *rest: Any) -> Any:
    return rebuild(receive_arena(ticket, n_bytes), *rest)


def _attach(address: Any, rebuild: Rebuild, arena: Tensor, *rest: Any) -> Any:
    if address is not None:
        attach_ring(address)  # on failure, the worker continues to send segments
    return rebuild(arena, *rest)


def _restore(
    arena: Tensor, context: bytes, places: list[Place | None], outside: list[Tensor]
) -> MoleculeBatch:
    return restore_batch(*_load(context), arena, places, outside)


def _unchanged(batch: Any) -> Any:
    return batch


# What batches consist of besides tensors hardly changes: it is pickled once, and unpickled once.
@lru_cache(16)
def _dump(context: Context) -> bytes:
    return pickle.dumps(context)


@lru_cache(16)
def _load(context: bytes) -> Context:
    return cast(Context, pickle.loads(context))


# Only for queues between processes: other pickles contain the data.
ForkingPickler.register(MoleculeBatch, _reduce_to_process)
ForkingPickler.register(ArenaPayload, _reduce_payload)
ForkingPickler.register(CollatedDict, _reduce_dict)
