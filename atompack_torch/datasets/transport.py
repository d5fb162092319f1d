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
    receive_tensors,
    ring_to_attach,
    send_tensors,
)
from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.molecule_batch import (
    Context,
    MoleculeBatch,
    flatten_batch,
    unflatten_batch,
)
from atompack_torch.batch.storage import Entry, Value
from atompack_torch.datasets.collated import CollatedDict, as_items
from atompack_torch.fields import FieldInfo


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

    def disassemble(self) -> tuple[list[Tensor], Any]:
        """Returns all tensors, and the batch with ``...`` in their positions."""
        tensors: list[Tensor] = []
        return tensors, self._form(self.batch, tensors)

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
            return _MoleculeForm(self._form(tensors, found), _dump(context))
        return batch


class _MoleculeForm(NamedTuple):
    """A ``MoleculeBatch`` inside a batch, without its tensors."""

    tensors: list[Any]
    context: bytes


def _assemble(form: Any, *sent: Any) -> Any:
    arena, tensors = receive_tensors(*sent)
    return _fill_form(form, iter(tensors), arena)


def _fill_form(form: Any, tensors: Iterator[Tensor], arena: Tensor) -> Any:
    if form is ...:
        return next(tensors)
    if isinstance(form, _MoleculeForm):
        inside = [_fill_form(tensor, tensors, arena) for tensor in form.tensors]
        return unflatten_batch(inside, _load(form.context), arena)
    if isinstance(form, dict):
        return {key: _fill_form(value, tensors, arena) for key, value in form.items()}
    if isinstance(form, (list, tuple)) and not hasattr(form, "_fields"):
        return type(form)([_fill_form(value, tensors, arena) for value in form])
    return form


Rebuild = Callable[..., Any]
Infos = dict[str, FieldInfo]
Rows = dict[str, int]
About = tuple[bytes, dict[str, list[Entry]] | None]  # infos and rows, fields that are lists


def _reduce_to_process(batch: MoleculeBatch) -> tuple[Rebuild, tuple[Any, ...]]:
    """Pickles a batch for another process; in a DataLoader worker, as the number of its slot."""
    fields, infos, masks, rows, arena = contents_of(batch)
    if arena is None or get_worker_info() is None:
        return batch.__reduce__()
    tensors = [value for value in fields.values() if isinstance(value, Tensor)]
    about: About = _head_of(infos, rows), None
    if len(tensors) < len(fields):
        lists = {name: value for name, value in fields.items() if isinstance(value, list)}
        if any(isinstance(entry, Tensor) for entries in lists.values() for entry in entries):
            return _reduce_payload(ArenaPayload(arena, batch))
        about = about[0], lists
    return _send(arena, tensors if masks is None else [*tensors, masks], _restore, about)


def _reduce_payload(payload: ArenaPayload) -> tuple[Rebuild, tuple[Any, ...]]:
    tensors, form = payload.disassemble()
    return _send(payload.arena, tensors, _assemble, form)


def _reduce_dict(batch: CollatedDict) -> tuple[Rebuild, tuple[Any, ...]]:
    if batch.arena is None:
        return dict, (dict(batch),)
    return _reduce_payload(ArenaPayload(batch.arena, dict(batch)))


def _send(
    arena: Tensor, tensors: list[Tensor], rebuild: Rebuild, rest: Any
) -> tuple[Rebuild, tuple[Any, ...]]:
    """Pickles a batch that consists of tensors and others, as the number of its arena's slot.

    Tensors outside of the arena, which user code has made, are pickled by themselves. Until the
    receiver has attached to the ring of the worker, each arena is sent as a separate memory
    segment, together with the address of the ring.
    """
    message, outside, has_arena = send_tensors(arena, tensors)
    if has_arena:
        return rebuild, (rest, message, outside) if outside else (rest, message)
    segment = arena if len(outside) < len(tensors) else None
    return _attach, (ring_to_attach(), rebuild, rest, message, outside, segment)


def _attach(address: Any, rebuild: Rebuild, *sent: Any) -> Any:
    if address is not None:
        attach_ring(address)  # on failure, the worker continues to send segments
    return rebuild(*sent)


def _restore(about: About, *sent: Any) -> MoleculeBatch:
    head, lists = about
    infos, rows = _load_head(head)
    arena, tensors = receive_tensors(*sent)
    rest = iter(tensors)  # the masks are the last
    fields: dict[str, Value] = (
        {name: lists[name] if name in lists else next(rest) for name in infos}
        if lists
        else dict(zip(infos, rest, strict=False))
    )
    return MoleculeBatch(fields, infos, next(rest, None), rows, arena)


# What batches consist of besides tensors hardly changes: it is pickled once, and unpickled once.
@lru_cache(16)
def _dump(context: Any) -> bytes:
    return pickle.dumps(context)


@lru_cache(16)
def _load(context: bytes) -> Context:
    return cast(Context, pickle.loads(context))


@lru_cache(16)
def _load_head(head: bytes) -> tuple[Infos, Rows]:
    infos, rows = pickle.loads(head)
    return dict(infos), dict(rows)


_last_head: tuple[Infos, Rows, bytes] = {}, {}, b""


def _head_of(infos: Infos, rows: Rows) -> bytes:
    """Pickles names and mask rows, which batches share until a field is set."""
    global _last_head
    known_infos, known_rows, head = _last_head
    if known_infos is not infos or known_rows is not rows:
        head = _dump((tuple(infos.items()), tuple(rows.items())))
        _last_head = infos, rows, head
    return head


# Only for queues between processes: other pickles contain the data.
ForkingPickler.register(MoleculeBatch, _reduce_to_process)
ForkingPickler.register(ArenaPayload, _reduce_payload)
ForkingPickler.register(CollatedDict, _reduce_dict)
