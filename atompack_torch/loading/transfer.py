"""Moves batches to a device, and searches neighbors there."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.fields import NEIGHBOR_INFO
from atompack_torch.ops.neighbors import neighbor_list


def with_neighbors(dataset: Any, neighbors: NeighborList) -> Any:
    """Returns a copy of a data set whose batches have edges.

    Args:
        dataset: a data set of molecules.
        neighbors: the options of the edges.

    Returns:
        The copy.

    Raises:
        TypeError: the data set is of another kind.
    """
    if not hasattr(dataset, "_request"):
        raise TypeError(f"neighbors: expected molecules, got {type(dataset).__name__}")
    part = copy.copy(dataset)
    part.close()
    part._request = dataset._request._replace(neighbors=neighbors)
    return part


def add_edges(batch: MoleculeBatch, neighbors: NeighborList) -> MoleculeBatch:
    """Adds the edges of a batch on any device, as ``neighbors=`` of a data set adds them.

    Args:
        batch: molecules without edges.
        neighbors: the options of the edges, without triplets.

    Returns:
        A batch with the fields of the given one and the edges.

    Raises:
        FieldError: positions are not finite, or a structure has an absurd number of pairs.
    """
    positions = batch.positions.detach()
    cell = pbc = None
    if "cell" in batch and "pbc" in batch:  # else all are open, as in a data set
        cell, pbc = batch.cell.double(), batch.pbc & batch.mask("cell").unsqueeze(1)
    found = neighbor_list(
        positions.double(),
        cell,
        pbc,
        batch.ptr,
        neighbors.cutoff,
        full=neighbors.full,
        self_interaction=neighbors.self_interaction,
        max_neighbors=neighbors.max_neighbors,
    )
    made = dict(zip(found._fields, found, strict=True))
    fields = dict(batch._fields)
    for name in neighbors.fields:
        value = made[name]
        fields[name] = value if name == "edge_index" else value.to(positions.dtype)
    infos = batch._infos | {name: NEIGHBOR_INFO[name] for name in neighbors.fields}
    return MoleculeBatch(fields, infos, batch._masks, batch._mask_rows, batch._arena)


class Transfer:
    """Moves batches to a device; those to CUDA devices on a stream of its own.

    Args:
        device: the device; None: batches stay where they are.
        neighbors: edges to add there, on the same stream.
    """

    def __init__(self, device: torch.device | None, neighbors: NeighborList | None) -> None:
        self._device, self._neighbors = device, neighbors
        self._stream = None
        if device is not None and device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, batch: Any) -> Any:
        """Returns the batch on the device; the current stream waits for it.

        The host does not, except for edges: it must know their number.
        """
        if self._device is None:
            return batch
        if self._stream is None:
            return self._moved(batch, False)
        with torch.cuda.stream(self._stream):
            moved = self._moved(batch, True)
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        _record_stream(moved, current)
        return moved

    def _moved(self, batch: Any, non_blocking: bool) -> Any:
        if not isinstance(batch, MoleculeBatch):
            return tree_map_only(
                Tensor, lambda t: t.to(self._device, non_blocking=non_blocking), batch
            )
        moved = batch.to(self._device, non_blocking=non_blocking)
        return moved if self._neighbors is None else add_edges(moved, self._neighbors)


def _record_stream(batch: Any, stream: torch.cuda.Stream) -> None:
    if isinstance(batch, MoleculeBatch):
        batch.record_stream(stream)
    else:
        tree_map_only(Tensor, lambda t: t.record_stream(stream), batch)


def check_neighbors(dataset: Any, neighbors: Any) -> None:
    """Raises an error unless these edges can be added to the batches of a data set.

    Args:
        dataset: the data set.
        neighbors: argument of the loader.

    Raises:
        TypeError: it is not a ``NeighborList``, or the data set is of another kind.
        ValueError: the data set makes edges already, or triplets are wanted.
    """
    if not isinstance(neighbors, NeighborList):
        raise TypeError(f"neighbors: expected a NeighborList, got {type(neighbors).__name__}")
    request = getattr(dataset, "_request", None)
    if request is None:
        raise TypeError(f"neighbors: expected molecules, got {type(dataset).__name__}")
    if request.neighbors is not None:
        raise ValueError("neighbors: the data set makes edges already: leave one of them out")
    if neighbors.triplets is not False:
        raise ValueError("neighbors: triplets are made by the data set only: give it neighbors=")
