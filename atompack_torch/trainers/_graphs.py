"""Torch-geometric batches, for trainers whose models use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Batch

from atompack_torch.batch.molecule_batch import MoleculeBatch


def graph_batch(
    graph: type[Any],
    batch: MoleculeBatch,
    *,
    atoms: Mapping[str, Tensor],
    edges: Mapping[str, Tensor],
    molecules: Mapping[str, Tensor],
) -> Any:
    """Makes the batch that a data loader of torch-geometric would make of single graphs.

    Args:
        graph: class of a single graph, for ``to_data_list``.
        batch: gives ``edge_index``, ``batch``, ``ptr`` and ``index``.
        atoms: name → tensor with a row for each atom.
        edges: name → tensor with a row for each edge.
        molecules: name → tensor with one or more rows for each molecule, as many for each.

    Returns:
        The batch, which ``to_data_list`` separates again.
    """
    edge_index, ptr, n_molecules = batch.edge_index, batch.ptr, len(batch)
    molecules = {**molecules, "index": batch.index}
    made = Batch(_base_cls=graph, edge_index=edge_index, **atoms, **edges, **molecules)
    made.batch, made.ptr = batch.batch, ptr
    made._num_graphs = n_molecules
    numbers = torch.arange(n_molecules + 1, device=ptr.device)
    first_edges = torch.searchsorted(edge_index[0], ptr)  # sorted by center
    slices = {"edge_index": first_edges, **dict.fromkeys(atoms, ptr)}
    slices |= dict.fromkeys(edges, first_edges)
    for name, rows in molecules.items():
        n_rows = len(rows) // max(n_molecules, 1)
        slices[name] = numbers if n_rows == 1 else n_rows * numbers
    none = torch.zeros(n_molecules, dtype=torch.int64, device=ptr.device)
    made._slice_dict = slices
    made._inc_dict = {**dict.fromkeys(slices, none), "edge_index": ptr[:-1]}
    return made
