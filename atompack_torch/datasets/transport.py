"""How a batch goes to another process."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import attach_ring, receive_arena, ring_to_attach, send_arena
from atompack_torch.batch.molecule_batch import MoleculeBatch, _restore
from atompack_torch.batch.storage import Place, Structure
from atompack_torch.datasets._collated import CollatedDict
from atompack_torch.datasets._one_arena import InOneArena, put_together


def _reduce_to_process(batch: MoleculeBatch) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """How a batch goes to another process: from a DataLoader worker as the number of a slot.

    The first batches of a worker travel as a memory segment of their own each, together with the
    place of the worker's ring; once the other side has attached to that, a number is enough.
    """
    rebuild, arguments = batch.__reduce__()
    arena = arguments[2]
    if arena is None or get_worker_info() is None:
        return rebuild, arguments
    if (ticket := send_arena(arena)) is not None:
        structure, rows, _, places, outside = arguments
        return _restore_sent, (structure, rows, ticket, arena.numel(), places, outside)
    if (address := ring_to_attach()) is not None:
        return _attach_and_restore, (address, arguments)
    return rebuild, arguments


def _attach_and_restore(address: Any, arguments: tuple[Any, ...]) -> MoleculeBatch:
    attach_ring(address)  # if it cannot be, the worker goes on with segments
    return _restore(*arguments)


def _restore_sent(
    structure: Structure,
    rows: tuple[int, ...],
    ticket: Any,
    n_bytes: int,
    places: list[Place | None],
    outside: list[Tensor],
) -> MoleculeBatch:
    return _restore(structure, rows, receive_arena(ticket, n_bytes), places, outside)


def _reduce_examples(sent: InOneArena) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    apart = sent.take_apart()
    if apart is None:
        return _as_it_is, (sent.batch,)
    places, form = apart
    if (ticket := send_arena(sent.arena)) is not None:
        return _examples_sent, (ticket, sent.arena.numel(), places, form)
    if (address := ring_to_attach()) is not None:
        return _attach_and_put_together, (address, sent.arena, places, form)
    return put_together, (sent.arena, places, form)


def _as_it_is(batch: Any) -> Any:
    return batch


def _reduce_dict(batch: CollatedDict) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if batch.arena is None:
        return dict, (dict(batch),)
    return _reduce_examples(InOneArena(batch.arena, dict(batch)))


def _attach_and_put_together(address: Any, arena: Tensor, places: list[Place], form: Any) -> Any:
    attach_ring(address)  # if it cannot be, the worker goes on with segments
    return put_together(arena, places, form)


def _examples_sent(ticket: Any, n_bytes: int, places: list[Place], form: Any) -> Any:
    return put_together(receive_arena(ticket, n_bytes), places, form)


# For queues between processes alone: what is pickled to a file or by hand holds its data itself.
ForkingPickler.register(MoleculeBatch, _reduce_to_process)
ForkingPickler.register(InOneArena, _reduce_examples)
ForkingPickler.register(CollatedDict, _reduce_dict)
