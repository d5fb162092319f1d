"""Batches as plain dicts for other libraries: names, shapes, dtypes, and edges that point right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.build
import numpy as np
import pytest
import torch
from reference import fairchem

import atompack_torch as apt

CUTOFF = 4.0


def structures(dtype: Any = np.float64) -> list[apt.Molecule]:
    """Periodic, a slab, open without a cell, and without neighbors."""
    rng = np.random.default_rng(0)
    made = []
    for atoms in (
        ase.build.bulk("Cu", cubic=True),
        ase.build.fcc111("Al", (2, 2, 3), vacuum=6.0),
        ase.build.molecule("CH3CH2OH"),
        ase.Atoms("He", [[0.0, 0.0, 0.0]]),
    ):
        atoms.rattle(0.1, rng=rng)
        n = len(atoms)
        labels: dict[str, Any] = {"cell": atoms.cell.array, "pbc": atoms.pbc}
        made.append(
            apt.Molecule(
                atoms.positions.astype(dtype),
                atoms.numbers,
                energy=float(rng.normal()),
                forces=rng.normal(size=(n, 3)),
                stress=rng.normal(size=(3, 3)),
                **(labels if atoms.pbc.any() else {}),
            )
        )
    return made


@pytest.fixture(scope="module", params=[np.float32, np.float64])
def batch(request: pytest.FixtureRequest, new_path: Callable[[], Path]) -> apt.MoleculeBatch:
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write(structures(request.param))
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF, vectors=True))
    return dataset.batch([2, 0, 1, 3])


def test_fairchem_takes_it(batch: apt.MoleculeBatch) -> None:
    fields = batch.to_dict("fairchem")
    fairchem.check(fields)
    assert fields["pos"].dtype == batch.positions.dtype
    assert fields["sid"] == ["2", "0", "1", "3"]
    assert "dataset" not in fields
    for name in ("charge", "spin", "fixed", "tags"):
        assert fields[name].count_nonzero() == 0
    assert not {"positions", "n_atoms", "edge_shift"} & fields.keys()


def test_fairchem_finds_the_same_vectors(batch: apt.MoleculeBatch) -> None:
    fields = batch.to_dict("fairchem")
    vectors = fairchem.vectors(fields)
    assert len(vectors) > 200
    assert torch.allclose(vectors, batch.edge_vector, rtol=0, atol=1e-5)
    assert float(vectors.norm(dim=1).max()) <= CUTOFF + 1e-5
    centers = fields["edge_index"][1]
    assert torch.equal(batch.batch[centers].bincount(minlength=4), fields["nedges"])
    assert torch.equal(centers, batch.edge_index[0])


def test_fairchem_makes_graphs_itself_where_there_are_none() -> None:
    open_ones = apt.MoleculeBatch.from_molecules(structures()[2:])
    assert "cell" not in open_ones
    fields = open_ones.to_dict("fairchem")
    fairchem.check(fields)
    assert fields["edge_index"].shape == (2, 0)
    assert fields["cell"].count_nonzero() == 0
    half = open_ones.to("cpu", torch.bfloat16)
    fairchem.check(half.to_dict("fairchem"))


def test_fairchem_takes_custom_properties() -> None:
    batch = apt.MoleculeBatch.from_molecules(structures())
    n_atoms = len(batch.positions)
    batch["charge"] = torch.tensor([1.0, -2.0, 0.0, float("nan")])
    batch["spin"] = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    batch["fixed"] = torch.arange(n_atoms) % 2 == 0
    batch["tags"] = torch.arange(n_atoms)
    batch["sid"] = torch.tensor([10, 11, 12, 13])
    batch["dataset"] = ["omat", "omat", "omol", None]
    fields = batch.to_dict("fairchem")
    fairchem.check(fields)
    assert fields["charge"].tolist() == [1, -2, 0, 0]
    assert fields["spin"].tolist() == [1, 2, 3, 4]
    assert fields["fixed"].tolist() == [int(i % 2 == 0) for i in range(n_atoms)]
    assert fields["tags"].tolist() == list(range(n_atoms))
    assert fields["sid"] == ["10", "11", "12", "13"]
    assert fields["dataset"] == ["omat", "omat", "omol", ""]


def test_fairchem_keeps_what_has_the_name_of_something_else() -> None:
    batch = apt.MoleculeBatch.from_molecules(structures())
    batch["charge"] = torch.ones(len(batch.positions))
    fields = batch.to_dict("fairchem")
    fairchem.check(fields)
    assert fields["charge"].count_nonzero() == 0
    assert fields["atom_properties/charge"].sum() == len(batch.positions)


def test_fairchem_refuses_fractions() -> None:
    batch = apt.MoleculeBatch.from_molecules(structures())
    batch["spin"] = torch.tensor([0.5, 1, 1, 1])
    with pytest.raises(apt.FieldError, match=r"whole numbers, got fractions \(field 'spin'\)"):
        batch.to_dict("fairchem")
    batch["spin"] = torch.ones(4, 2)
    with pytest.raises(apt.FieldError, match=r"expected \(4,\) integers, got \(4, 2\)"):
        batch.to_dict("fairchem")


def test_nvalchemi(batch: apt.MoleculeBatch) -> None:
    fields = batch.to_dict("nvalchemi")
    n_edges = batch.edge_index.shape[1]
    assert fields["neighbor_list"].shape == (n_edges, 2)
    assert fields["neighbor_list"].is_contiguous()
    assert fields["energy"].shape == (4, 1)
    assert torch.equal(fields["energy"].squeeze(1), batch.energy)
    assert not {"edge_index", "edge_shift"} & fields.keys()
    i, j = fields["neighbor_list"].unbind(1)
    shifts = torch.einsum(
        "ea,eab->eb", fields["neighbor_list_shifts"], batch.cell.to(batch.positions)[batch.batch[i]]
    )
    vectors = batch.positions[j] - batch.positions[i] + shifts
    assert torch.allclose(vectors, batch.edge_vector, rtol=0, atol=1e-5)
    batch = batch.clone()
    batch["spin"] = torch.tensor([1, 2, 3, 4])
    assert batch.to_dict("nvalchemi")["spin"].tolist() == [[1.0], [2.0], [3.0], [4.0]]
    assert batch.to_dict("nvalchemi")["spin"].dtype == batch.positions.dtype
