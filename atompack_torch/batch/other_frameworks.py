"""Batches for libraries that are not built on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from atompack_torch.batch.collated_fields import CollatedFields
from atompack_torch.errors import FieldError

if TYPE_CHECKING:
    import jraph

_STRUCTURE = ("ptr", "batch", "n_atoms", "edge_index")


def to_dlpack(batch: CollatedFields) -> dict[str, Tensor]:
    """Implements ``MoleculeBatch.to_dlpack``."""
    return {name: value.detach() for name, value in batch.items() if isinstance(value, Tensor)}


def to_jraph(batch: CollatedFields) -> jraph.GraphsTuple:
    """Implements ``MoleculeBatch.to_jraph``."""
    import jraph

    if "edge_index" not in batch:
        raise FieldError("to_jraph: expected a batch with edge_index, as neighbors= makes it")
    if batch.ptr.device.type != "cpu":
        raise FieldError(f"to_jraph: expected a batch on cpu, got {batch.ptr.device}")
    rows: dict[str, dict[str, Any]] = {"atom": {}, "edge": {}, "molecule": {}}
    for name, tensor in to_dlpack(batch).items():
        level = batch.level(name)
        if name not in _STRUCTURE and level in rows:
            rows[level][name] = tensor.numpy()
    centers, neighbors = batch.edge_index.detach().unbind(0)
    n_edges = torch.bincount(batch.batch[centers], minlength=len(batch))
    return jraph.GraphsTuple(
        nodes=rows["atom"],
        edges=rows["edge"],
        senders=neighbors.numpy().copy(),  # jraph.unbatch_np changes them in place
        receivers=centers.numpy().copy(),
        globals=rows["molecule"],
        n_node=batch.n_atoms.numpy(),
        n_edge=n_edges.numpy(),
    )
