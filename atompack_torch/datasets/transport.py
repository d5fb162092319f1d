"""Transport of batches to other processes."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import attach_ring, receive_arena, ring_to_attach, send_arena
from atompack_torch.batch.molecule_batch import MoleculeBatch, restore_batch
from atompack_torch.batch.storage import Place, Structure
from atompack_torch.datasets.arena_payload import ArenaPayload, assemble
from atompack_torch.datasets.collated import CollatedDict


def _reduce_to_process(batch: MoleculeBatch) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Reduces a batch for another process; from a DataLoader worker, to the number of a slot.

    Until the receiver has attached to the ring of the worker, each batch is sent as a separate
    memory segment, together with the address of the ring.
    """
    rebuild, arguments = batch.__reduce__()
    arena = arguments[2]
    if arena is None or get_worker_info() is None:
        return rebuild, arguments
    if (ticket := send_arena(arena)) is not None:
        structure, rows, _, places, outside = arguments
        return _restore_from_slot, (structure, rows, ticket, arena.numel(), places, outside)
    if (address := ring_to_attach()) is not None:
        return _attach_and_restore, (address, arguments)
    return rebuild, arguments


def _attach_and_restore(address: Any, arguments: tuple[Any, ...]) -> MoleculeBatch:
    attach_ring(address)  # on failure, the worker continues to send segments
    return restore_batch(*arguments)


def _restore_from_slot(
    structure: Structure,
    rows: tuple[int, ...],
    ticket: Any,
    n_bytes: int,
    places: list[Place | None],
    outside: list[Tensor],
) -> MoleculeBatch:
    return restore_batch(structure, rows, receive_arena(ticket, n_bytes), places, outside)


def _reduce_examples(payload: ArenaPayload) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    apart = payload.disassemble()
    if apart is None:
        return _return_batch, (payload.batch,)
    places, form = apart
    if (ticket := send_arena(payload.arena)) is not None:
        return _assemble_from_slot, (ticket, payload.arena.numel(), places, form)
    if (address := ring_to_attach()) is not None:
        return _attach_and_put_together, (address, payload.arena, places, form)
    return assemble, (payload.arena, places, form)


def _return_batch(batch: Any) -> Any:
    return batch


def _reduce_dict(batch: CollatedDict) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if batch.arena is None:
        return dict, (dict(batch),)
    return _reduce_examples(ArenaPayload(batch.arena, dict(batch)))


def _attach_and_put_together(address: Any, arena: Tensor, places: list[Place], form: Any) -> Any:
    attach_ring(address)  # on failure, the worker continues to send segments
    return assemble(arena, places, form)


def _assemble_from_slot(ticket: Any, n_bytes: int, places: list[Place], form: Any) -> Any:
    return assemble(receive_arena(ticket, n_bytes), places, form)


# Only for queues between processes: other pickles contain the data.
ForkingPickler.register(MoleculeBatch, _reduce_to_process)
ForkingPickler.register(ArenaPayload, _reduce_examples)
ForkingPickler.register(CollatedDict, _reduce_dict)
