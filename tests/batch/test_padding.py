"""``padded_to``, the masks, and views for libraries that are not built on torch."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt


def batch_of(path: Path, **options: Any) -> apt.MoleculeBatch:
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path / "a.atp", mode="w") as writer:
        for n in (3, 1, 4):
            labels: dict[str, Any] = {"energy": float(n), "name": f"molecule {n}"}
            if n != 1:
                labels |= {"forces": rng.random((n, 3)), "cell": np.eye(3) * 4, "pbc": [True] * 3}
            writer.write(
                apt.Molecule(
                    rng.random((n, 3)) * 3,
                    np.full(n, 8),
                    properties={"charge": n, "spectrum": np.arange(3.0)},
                    atom_properties={"tag": np.arange(n)},
                    **labels,
                )
            )
    neighbors = apt.NeighborList(2.0, vectors=True)
    return apt.AtpDataset(path / "a.atp", **{"neighbors": neighbors} | options)[:]


def test_the_molecules_stay_and_the_rest_is_masked(tmp_path: Path) -> None:
    batch = batch_of(tmp_path)
    n_edges = batch.edge_index.shape[1]
    padded = batch.padded_to(molecules=6, atoms=13, edges=n_edges + 5)
    assert (len(padded), len(padded.positions)) == (6, 13)
    assert padded.edge_index.shape == (2, n_edges + 5)
    assert padded.molecule_mask.tolist() == [True] * 3 + [False] * 3
    assert padded.atom_mask.tolist() == [True] * 8 + [False] * 5
    assert padded.edge_mask.tolist() == [True] * n_edges + [False] * 5
    for i, molecule in enumerate(batch):
        for name in molecule.keys():
            ours, theirs = padded[i][name], molecule[name]
            if isinstance(theirs, torch.Tensor):
                assert ours.dtype == theirs.dtype
                torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
            else:
                assert ours == theirs
    for name in batch.keys():
        assert torch.equal(padded.mask(name)[:3], batch.mask(name))
    assert not padded.mask("energy")[3:].any()
    assert not padded.mask("charge")[3:].any()
    assert padded.n_atoms.tolist() == [3, 1, 4, 5, 0, 0]
    assert padded.ptr.tolist() == [0, 3, 4, 8, 13, 13, 13]
    assert padded.batch.tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3]
    assert padded.index.tolist() == [0, 1, 2, -1, -1, -1]
    assert padded.name[3:] == [None] * 3
    for name in ("energy", "forces", "positions", "cell", "spectrum"):
        rows = padded[name][-1:] if name != "forces" else padded.forces[8:]
        assert torch.isfinite(rows).all()


def test_masked_losses_have_finite_gradients(tmp_path: Path) -> None:
    batch = batch_of(tmp_path)
    padded = batch.padded_to(8, 20, batch.edge_index.shape[1] + 9)
    weights = torch.ones(2, dtype=torch.float64, requires_grad=True)
    positions = padded.positions.clone().requires_grad_()
    i, j = padded.edge_index
    structure = padded.batch[i]
    cell = padded.cell[structure].to(positions.dtype)
    shift = torch.einsum("ea,eax->ex", padded.edge_shift.to(positions.dtype), cell)
    distance = (positions[j] - positions[i] + shift).norm(dim=1)
    torch.testing.assert_close(distance, padded.edge_vector.to(positions.dtype).norm(dim=1))
    assert (distance > 0).all()
    pair = (1 / distance) * padded.edge_mask
    energy = torch.zeros(8, dtype=torch.float64).index_add(0, structure, pair.double() * weights[0])
    (gradient,) = torch.autograd.grad(energy.sum(), positions, create_graph=True)
    assert not gradient[8:].any()
    error = padded.molecule_mask * (energy - padded.energy) ** 2
    known = padded.atom_mask & padded.mask("forces")[padded.batch]
    wanted = padded.forces.where(known.unsqueeze(1), 0.0)
    error_of_forces = known.unsqueeze(1) * (gradient + wanted) ** 2
    loss = error.sum() + error_of_forces.sum() + weights[1] * 0
    loss.backward()
    assert torch.isfinite(weights.grad).all()
    assert torch.isfinite(positions.grad).all()


def test_a_batch_of_this_shape_is_not_padded(tmp_path: Path) -> None:
    batch = batch_of(tmp_path)
    padded = batch.padded_to(3, 8, batch.edge_index.shape[1])
    assert padded.atom_mask.all()
    assert torch.equal(padded.positions, batch.positions)


def test_batches_without_padding_have_masks(tmp_path: Path) -> None:
    batch = batch_of(tmp_path)
    assert batch.molecule_mask.tolist() == [True] * 3
    assert batch.atom_mask.tolist() == [True] * 8
    assert batch.edge_mask.tolist() == [True] * batch.edge_index.shape[1]
    assert "atom_mask" not in batch
    batch["atom_mask"] = torch.arange(8)  # a property of that name comes first
    assert batch.atom_mask.tolist() == list(range(8))
    with pytest.raises(apt.FieldError, match="another field 'atom_mask'"):
        batch.padded_to(9, 20, 100)


def test_padded_batches_move_and_come_apart(tmp_path: Path) -> None:
    batch = batch_of(tmp_path)
    padded = batch.padded_to(5, 12, batch.edge_index.shape[1] + 3)
    for other in (pickle.loads(pickle.dumps(padded)), copy.deepcopy(padded), padded.clone()):
        assert torch.equal(other.atom_mask, padded.atom_mask)
        assert torch.equal(other.mask("forces"), padded.mask("forces"))
    assert padded.to(dtype=torch.float32).positions.dtype == torch.float32
    leaves, spec = torch.utils._pytree.tree_flatten(padded)
    assert torch.equal(torch.utils._pytree.tree_unflatten(leaves, spec).ptr, padded.ptr)


def test_padded_batches_are_not_written(tmp_path: Path) -> None:
    padded = batch_of(tmp_path, neighbors=None).padded_to(4, 12)
    with apt.AtpWriter(tmp_path / "b.atp") as writer:
        with pytest.raises(apt.FieldError, match="padding"):
            writer.write(padded)
        with pytest.raises(apt.FieldError, match="padding"):
            writer.write(padded[3])
        writer.write(padded[0])
    assert (
        apt.AtpDataset(tmp_path / "b.atp").schema.keys()
        == apt.AtpDataset(tmp_path / "a.atp").schema.keys()
    )


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"molecules": 2, "atoms": 20, "edges": 50}, apt.FieldError, "room for 3 molecules, got 2"),
        ({"molecules": 5, "atoms": 7, "edges": 50}, apt.FieldError, "room for 8 atoms, got 7"),
        ({"molecules": 5, "atoms": 20, "edges": 0}, apt.FieldError, "edges, got 0"),
        ({"molecules": 3, "atoms": 20, "edges": 50}, apt.FieldError, "room for a dummy molecule"),
        ({"molecules": 4, "atoms": 9, "edges": 50}, apt.FieldError, "room for a dummy molecule"),
        ({"molecules": 5, "atoms": 20}, apt.FieldError, "expected a number of edges"),
        ({"molecules": 5.0, "atoms": 20, "edges": 50}, TypeError, "molecules: expected an int"),
    ],
)
def test_wrong_shapes(tmp_path: Path, given: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        batch_of(tmp_path).padded_to(**given)


def test_fields_that_cannot_be_padded(tmp_path: Path) -> None:
    plain = batch_of(tmp_path, neighbors=None)
    with pytest.raises(apt.FieldError, match="edges without one"):
        plain.padded_to(5, 20, 9)
    with pytest.raises(apt.FieldError, match="padded already"):
        plain.padded_to(5, 20).padded_to(6, 30)
    triplets = batch_of(tmp_path, neighbors=apt.NeighborList(2.0, triplets=True))
    with pytest.raises(apt.FieldError, match="triplet"):
        triplets.padded_to(5, 20, 99)
    jagged = apt.collate(
        [apt.Molecule(np.zeros((1, 3)), [1], properties={"k": np.zeros(n)}) for n in (1, 2)]
    )
    with pytest.raises(apt.FieldError, match="'k', whose shape differs"):
        jagged.padded_to(3, 9)


def test_dlpack_shares_memory(tmp_path: Path) -> None:
    batch = batch_of(tmp_path)
    exported = batch.to_dlpack()
    assert exported.keys() == {n for n in batch.keys() if isinstance(batch[n], torch.Tensor)}
    for name, value in exported.items():
        array = np.from_dlpack(value)
        assert array.ctypes.data == batch[name].data_ptr()
        np.testing.assert_array_equal(array, batch[name].numpy())


def test_dense_rows(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, neighbors=None)
    batch.positions.requires_grad_()
    dense = batch.dense(pad=-7)
    assert dense.keys() == (batch.keys() - {"batch", "ptr"}) | {"atom_mask"}
    for i, molecule in enumerate(batch):
        n = len(molecule.positions)
        assert dense["atom_mask"][i].tolist() == [True] * n + [False] * (4 - n)
        assert dense["atomic_numbers"][i, n:].tolist() == [-7] * (4 - n)
        for name in ("positions", "atomic_numbers", "forces", "tag"):
            rows, fill = dense[name][i], -7 if name == "atomic_numbers" else 0
            assert rows.dtype == batch[name].dtype
            start = int(batch.ptr[i])
            torch.testing.assert_close(
                rows[:n], batch[name][start : start + n], rtol=0, atol=0, equal_nan=True
            )
            assert (rows[n:] == fill).all()
    for name in ("energy", "cell", "name", "spectrum", "index"):
        assert dense[name] is batch[name]
    dense["positions"].sum().backward()
    assert batch.positions.grad is not None
    assert (batch.positions.grad == 1).all()


def test_dense_rows_of_equal_molecules_are_views(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, neighbors=None)
    equal = apt.collate([batch[0], batch[0]])
    dense = equal.dense()
    assert dense["positions"].shape == (2, 3, 3)
    assert dense["positions"].data_ptr() == equal.positions.data_ptr()
    assert dense["atom_mask"].all()


def test_what_has_no_dense_rows(tmp_path: Path) -> None:
    with pytest.raises(apt.FieldError, match="edge field 'edge_index': drop it"):
        batch_of(tmp_path).dense()
    padded = batch_of(tmp_path, neighbors=None).padded_to(4, 12)
    with pytest.raises(apt.FieldError, match="expected no field 'atom_mask'"):
        padded.dense()
