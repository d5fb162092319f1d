"""Batches in JAX: views through DLPack and jraph, and training on static shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
import torch

import atompack_torch as apt

SIZES = np.random.default_rng(0).integers(2, 9, 40)


@pytest.fixture
def dataset(tmp_path: Path) -> apt.AtpDataset:
    rng = np.random.default_rng(1)
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for n in SIZES:
            molecule = apt.Molecule(
                (3 * rng.random((n, 3))).astype(np.float32), np.full(n, 8), energy=float(n)
            )
            writer.write(molecule)
    neighbors = apt.NeighborList(2.5, vectors=True)
    return apt.AtpDataset(tmp_path / "a.atp", neighbors=neighbors)


def test_arrays_share_memory(dataset: apt.AtpDataset) -> None:
    batch = dataset[:8]
    with jax.enable_x64(True):
        for name, tensor in batch.to_dlpack().items():
            array = jax.dlpack.from_dlpack(tensor)
            np.testing.assert_array_equal(np.asarray(array), tensor.numpy())
            if tensor.numel():
                assert array.unsafe_buffer_pointer() == batch[name].data_ptr()


def test_graphs_have_the_fields_of_the_batch(dataset: apt.AtpDataset) -> None:
    batch = dataset[:8]
    graphs = batch.to_jraph()
    np.testing.assert_array_equal(graphs.receivers, batch.edge_index[0])
    np.testing.assert_array_equal(graphs.senders, batch.edge_index[1])
    np.testing.assert_array_equal(graphs.n_node, SIZES[:8])
    assert graphs.n_edge.sum() == batch.edge_index.shape[1]
    assert graphs.nodes.keys() == {"positions", "atomic_numbers"}
    assert graphs.edges.keys() == {"edge_shift", "edge_vector"}
    assert graphs.globals.keys() == {"index", "energy"}
    for single, molecule in zip(jraph.unbatch_np(graphs), batch, strict=True):
        np.testing.assert_array_equal(single.nodes["positions"], molecule.positions)
        np.testing.assert_array_equal(single.receivers, molecule.edge_index[0])
        np.testing.assert_array_equal(single.edges["edge_vector"], molecule.edge_vector)
    assert int(batch.edge_index.max()) == SIZES[:8].sum() - 1  # jraph left the batch alone
    with pytest.raises(apt.FieldError, match="edge_index"):
        apt.AtpDataset(dataset.path)[:2].to_jraph()


def energies(weights: Any, graphs: jraph.GraphsTuple, mask: Any) -> Any:
    """A pair potential with one weight for each of three widths."""
    square = (graphs.edges["edge_vector"] ** 2).sum(1)
    pair = jnp.exp(-square[:, None] / jnp.array([0.5, 1.0, 2.0])) @ weights
    pair = jnp.where(mask, pair, 0)
    n_graphs = graphs.n_node.shape[0]
    numbers = jnp.repeat(
        jnp.arange(n_graphs), graphs.n_edge, total_repeat_length=graphs.senders.shape[0]
    )
    return jax.ops.segment_sum(pair, numbers, n_graphs)


def loss(weights: Any, graphs: jraph.GraphsTuple, masks: Any) -> Any:
    error = energies(weights, graphs, masks[1]) - graphs.globals["energy"]
    return jnp.where(masks[0], error**2, 0).sum()


def test_training_compiles_once_for_each_shape(dataset: apt.AtpDataset) -> None:
    edges = [dataset[[i]].edge_index.shape[1] for i in range(len(dataset))]
    sampler = apt.BucketBatchSampler(dataset, 48, buckets=2, edges=edges)
    traced = []

    @jax.jit
    def step(weights: Any, graphs: jraph.GraphsTuple, masks: Any) -> Any:
        traced.append(graphs.senders.shape)
        value, gradient = jax.value_and_grad(loss)(weights, graphs, masks)
        return weights - 1e-3 * gradient, value, gradient

    weights = jnp.ones(3)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        total = 0.0
        for batch in apt.Loader(dataset, batch_sampler=sampler):
            padded = batch.padded_to(**sampler.shape_of(batch)._asdict())
            masks = padded.molecule_mask.numpy(), padded.edge_mask.numpy()
            before = torch.tensor(np.asarray(weights), requires_grad=True)
            weights, value, gradient = step(weights, padded.to_jraph(), masks)
            expected = loss_in_torch(before, batch)
            expected.backward()
            assert float(value) == pytest.approx(expected.item(), rel=1e-4)
            np.testing.assert_allclose(gradient, before.grad, rtol=1e-3, atol=1e-3)
            total += float(value)
        epochs.append(total)
    assert epochs[2] < epochs[0]
    assert len(traced) == len(sampler.shapes) == 2


def loss_in_torch(weights: torch.Tensor, batch: apt.MoleculeBatch) -> torch.Tensor:
    """The same of the batch without padding."""
    square = batch.edge_vector.float().pow(2).sum(1)
    pair = torch.exp(-square[:, None] / torch.tensor([0.5, 1.0, 2.0])) @ weights
    numbers = batch.batch[batch.edge_index[0]]
    energy = torch.zeros(len(batch)).index_add(0, numbers, pair)
    return (energy - batch.energy.float()).pow(2).sum()
