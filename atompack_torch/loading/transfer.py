"""Moves batches to a device, and searches neighbors there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from atompack_torch.batch.molecule_batch import MoleculeBatch, with_fields
from atompack_torch.datasets.batches import BatchPrefetcher
from atompack_torch.datasets.neighbors import NeighborList
from atompack_torch.datasets.resident.dataset import ResidentDataset
from atompack_torch.fields import GEOMETRY
from atompack_torch.ops.neighbors import neighbor_list


def with_neighbors(dataset: Any, neighbors: NeighborList, *, on_device: bool = False) -> Any:
    """Returns a copy of a dataset whose batches have edges, or what edges are made of.

    Args:
        dataset: a dataset of molecules.
        neighbors: the options of the edges.
        on_device: True: edges are added to batches later, by ``add_edges``.

    Returns:
        The copy.

    Raises:
        ValueError: batches would lack the cell or the flags that the search needs later.
    """
    request = dataset.request.with_neighbors(neighbors)
    # A ResidentDataset stays as it was loaded.
    is_elsewhere = isinstance(dataset, ResidentDataset) and dataset.device.type != "cpu"
    if is_elsewhere and not on_device:
        raise ValueError(
            "neighbors: expected molecules on the CPU, got resident ones on a device: give "
            "neighbors= to the dataset that is made resident"
        )
    if on_device:
        request = replace(request, neighbors=None)
        loaded = dataset.request.fields if is_elsewhere else None
        for name in GEOMETRY:
            lacks = name in request.exclude or (loaded is not None and name not in loaded)
            if lacks and name in dataset.schema:
                raise ValueError(
                    f"neighbors: expected {name} in batches, for the search on the device, got a "
                    "dataset without: change its fields= or exclude="
                )
    if is_elsewhere:
        return dataset
    return dataset.with_request(request)


def add_edges(batch: MoleculeBatch, neighbors: NeighborList) -> MoleculeBatch:
    """Adds the edges of a batch on any device, as ``neighbors=`` of a dataset adds them.

    Args:
        batch: molecules without edges.
        neighbors: the options of the edges, without triplets.

    Returns:
        A batch with the fields of the given one and the edges.

    Raises:
        FieldError: positions are not finite, or a molecule has an absurd number of pairs.
    """
    positions = batch.positions.detach()
    cell = pbc = None
    if "cell" in batch and "pbc" in batch:  # else all are open, as in a dataset
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
    made = {name: getattr(found, name) for name in neighbors.fields}
    index = made.pop("edge_index")
    cast = {name: value.to(positions.dtype) for name, value in made.items()}
    return with_fields(batch, {"edge_index": index, **cast})


def to_device(
    batch: Any,
    device: torch.device | None,
    neighbors: NeighborList | None = None,
    *,
    non_blocking: bool = False,
) -> Any:
    """Moves a batch of any kind to a device, and adds its edges there.

    Args:
        batch: the batch.
        device: the device; None: it stays where it is.
        neighbors: edges to add to molecules.
        non_blocking: whether copies from pinned memory return before they are complete.

    Returns:
        The batch there.
    """
    if device is None:
        return batch
    if not isinstance(batch, MoleculeBatch):
        return tree_map_only(Tensor, lambda t: t.to(device, non_blocking=non_blocking), batch)
    moved = batch.to(device, non_blocking=non_blocking)
    return moved if neighbors is None else add_edges(moved, neighbors)


class SideStream:
    """A stream of a CUDA device on which batches are made for the stream of their user.

    Args:
        device: the device.
        neighbors: edges to add there.
    """

    def __init__(self, device: torch.device, neighbors: NeighborList | None) -> None:
        self._neighbors = neighbors
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # A dataset that is kept on the device may still be on its way there.
        self._stream.wait_stream(torch.cuda.current_stream(device))

    def take(self, batches: BatchPrefetcher) -> tuple[Any, torch.cuda.Event]:
        """Takes the oldest batch and moves it; the host waits for the number of its edges.

        Args:
            batches: where the batch comes from.

        Returns:
            The batch on the device, and an event of the stream when it is complete.
        """
        with torch.cuda.stream(self._stream):
            batch = batches.take()
            moved = to_device(batch, self._stream.device, self._neighbors, non_blocking=True)
            return moved, self._stream.record_event()

    def receive(self, sent: tuple[Any, torch.cuda.Event]) -> Any:
        """Hands a batch over to the current stream, which waits for it; the host does not.

        Args:
            sent: result of ``take``.

        Returns:
            The batch.
        """
        batch, is_complete = sent
        current = torch.cuda.current_stream(self._stream.device)
        current.wait_event(is_complete)
        if isinstance(batch, MoleculeBatch):
            batch.record_stream(current)
        else:
            tree_map_only(Tensor, lambda t: t.record_stream(current), batch)
        return batch


def check_neighbors(dataset: Any, neighbors: Any) -> None:
    """Raises an error unless these edges can be added to the batches of a dataset.

    Args:
        dataset: the dataset.
        neighbors: argument of the loader.

    Raises:
        TypeError: it is not a ``NeighborList``, or the dataset is of a different kind.
        ValueError: the dataset makes edges already, or triplets are requested.
    """
    if not isinstance(neighbors, NeighborList):
        raise TypeError(f"neighbors: expected a NeighborList, got {type(neighbors).__name__}")
    request = getattr(dataset, "request", None)
    if request is None:
        raise TypeError(f"neighbors: expected molecules, got {type(dataset).__name__}")
    if request.neighbors is not None:
        raise ValueError("neighbors: the dataset makes edges already: leave one of them out")
    if neighbors.triplets is not False:
        raise ValueError("neighbors: triplets are made by the dataset only: give it neighbors=")
