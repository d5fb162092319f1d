"""Batches for SevenNet next to those of its own converter."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import ase.db
import numpy as np
import pytest
import torch
from ase import Atoms
from ase.calculators.singlepoint import SinglePointCalculator
from sevenn.train.dataload import unlabeled_atoms_to_graph
from sevennet_cases import BATCH, TYPE_MAP, new_model, stock_loader
from structures import (
    CUTOFF,
    structures,
    write_atp,
    write_extxyz,
    write_misnamed,
)
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch.trainers import sevennet
from atompack_torch.trainers.sevennet import make_layout

N = 12


@pytest.fixture(scope="module")
def made() -> list[Atoms]:
    return structures(N)


@pytest.fixture(scope="module")
def path(made: list[Atoms], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atp(tmp_path_factory.mktemp("sevennet") / "a.atp", made)


def ours(data: Any, **options: Any) -> Any:
    options = {"batch_size": BATCH, "shuffle": False} | options
    return sevennet.loader(data, TYPE_MAP, CUTOFF, **options)


def assert_same_edges(found: Any, expected: Any) -> None:
    """Compares edges in an order that does not depend on the search."""
    assert found.edge_index.dtype == expected.edge_index.dtype == torch.int64
    columns = []
    for batch in (found, expected):
        rows = torch.cat([batch.edge_index.T, batch.edge_vec], 1).tolist()
        columns.append(torch.tensor(sorted(rows, key=lambda row: [round(v, 3) for v in row])))
    torch.testing.assert_close(*columns, rtol=0, atol=1e-5)


def test_the_same_tensors(made: list[Atoms], path: Path) -> None:
    count = 0
    for own, expected in zip(ours(path), stock_loader(made), strict=True):
        assert type(own).__name__ == type(expected).__name__ == "AtomGraphDataBatch"
        assert set(own.keys()) == {*expected.keys(), "index"}
        assert own.num_graphs == expected.num_graphs
        for name in set(expected.keys()) - {"edge_index", "edge_vec", "x", "node_attr"}:
            assert own[name].dtype == expected[name].dtype, name
            rtol = 2e-7 if name == "per_atom_energy" else 0.0  # divided in float32
            torch.testing.assert_close(own[name], expected[name], rtol=rtol, atol=0, equal_nan=True)
        assert own.x.tolist() == [TYPE_MAP[z] for z in expected.x.tolist()]
        assert own.node_attr is own.x
        assert_same_edges(own, expected)
        assert own.index.tolist() == list(range(count, count + own.num_graphs))
        count += own.num_graphs
    assert count == N


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_same_predictions(made: list[Atoms], path: Path, dtype: torch.dtype) -> None:
    model = new_model(dtype).eval()
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    for own, expected in zip(ours(path, dtype=dtype), stock_loader(made, dtype), strict=True):
        found, wanted = model(own), model(expected)
        for name in ("inferred_total_energy", "inferred_force", "inferred_stress"):
            scale = max(1.0, float(wanted[name].detach().abs().max()))
            error = (found[name] - wanted[name]).detach().abs().max() / scale
            assert found[name].dtype == dtype
            assert error < tolerance, name


def test_a_batch_that_is_finished(path: Path) -> None:
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    converted = sevennet.batch(dataset.batch(range(BATCH)), TYPE_MAP, CUTOFF)
    loaded = next(iter(ours(path)))
    assert set(converted.keys()) == set(loaded.keys())
    for name in loaded.keys():
        assert torch.equal(converted[name].nan_to_num(), loaded[name].nan_to_num()), name


def test_it_separates_into_graphs(made: list[Atoms], path: Path) -> None:
    own, expected = next(iter(ours(path, shifts=True))), next(iter(stock_loader(made)))
    graphs = own.to_data_list()
    for graph, wanted in zip(graphs, expected.to_data_list(), strict=True):
        assert set(wanted.keys()) <= set(graph.keys())
        assert_same_edges(graph, wanted)
        assert graph.cell_lattice_vectors.shape == (3, 3)
        assert torch.equal(graph.pos, wanted.pos)


def test_shifts_and_cells(made: list[Atoms], path: Path) -> None:
    """As SevenNet makes them for models that take the cell, made-up vectors included."""
    (own,) = ours(path, batch_size=N, shifts=True)
    assert own.pbc_shift.dtype == torch.float32
    for number, graph in enumerate(own.to_data_list()):
        atoms = made[number]
        wanted = unlabeled_atoms_to_graph(copy.deepcopy(atoms), CUTOFF, with_shift=True)
        cell = torch.tensor(np.asarray(wanted["cell_lattice_vectors"]), dtype=torch.float32)
        torch.testing.assert_close(graph.cell_lattice_vectors, cell)
        found = sorted(map(tuple, torch.cat([graph.edge_index.T, graph.pbc_shift], 1).tolist()))
        shifts = np.concatenate([wanted["edge_index"].T, wanted["pbc_shift"]], axis=1)
        assert found == sorted(map(tuple, shifts.tolist()))


@pytest.mark.parametrize("kind", ["extxyz", "aselmdb", "subset", "transform"])
def test_every_data_set(made: list[Atoms], path: Path, tmp_path: Path, kind: str) -> None:
    data: Any = apt.AtpDataset(path)
    if kind == "extxyz":
        data = write_extxyz(tmp_path / "a.xyz", made)
    elif kind == "aselmdb":
        data = tmp_path / "a.aselmdb"
        with ase.db.connect(data, type="aselmdb") as database:
            for atoms in made:
                database.write(atoms)
    elif kind == "subset":
        data = data.subset(range(N))
    else:
        data = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF), transform=_unchanged)
    order = [[0, 1, 2, 3], [5, 9]]
    for own, numbers in zip(ours(data, batch_sampler=order, batch_size=None), order, strict=True):
        (expected,) = ours(path, batch_sampler=[numbers], batch_size=None)
        for name in expected.keys():
            torch.testing.assert_close(own[name], expected[name], equal_nan=True)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_data_loader(path: Path, context: str) -> None:
    dataset = make_layout(TYPE_MAP, CUTOFF).dataset(apt.AtpDataset(path))
    loader = DataLoader(dataset, BATCH, num_workers=2, multiprocessing_context=context)
    for own, expected in zip(loader, ours(path), strict=True):
        assert type(own).__name__ == "AtomGraphDataBatch"
        assert own.index.tolist() == expected.index.tolist()
        assert torch.equal(own.edge_vec, expected.edge_vec)


def test_a_mixture(path: Path) -> None:
    parts = [apt.AtpDataset(path).subset(numbers) for numbers in (range(5), range(5, N))]
    mixture = apt.MixtureDataset(parts)
    for number, own in enumerate(ours(mixture)):
        numbers = range(number * BATCH, min((number + 1) * BATCH, N))
        expected = mixture.batch(numbers)
        torch.testing.assert_close(own.pos, expected.positions.float())
        torch.testing.assert_close(own.total_energy, expected.energy.float())


def _unchanged(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    return batch


def test_free_energy_comes_first(tmp_path: Path) -> None:
    """SevenNet takes it where a structure has it, and the energy of the others."""
    made = structures(4)
    made[2].calc.results["free_energy"] = -100.0
    path = write_atp(tmp_path / "a.atp", made)
    (own,), (expected,) = ours(path), stock_loader(made)
    assert own.total_energy[2] == -100
    assert torch.equal(own.total_energy, expected.total_energy)
    (plain,) = ours(path, energy="energy")
    assert plain.total_energy[2] != -100
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    converted = sevennet.batch(dataset.batch(range(4)), TYPE_MAP, CUTOFF)
    assert torch.equal(converted.total_energy, expected.total_energy)


def test_a_free_energy_that_is_left_out(tmp_path: Path) -> None:
    """By an option of the dataset; one that its transform makes comes first."""
    made = structures(4)
    for number, atoms in enumerate(made):
        atoms.calc.results["free_energy"] = -100.0 - number
    path = write_atp(tmp_path / "a.atp", made)
    energies = apt.AtpDataset(path)[:].energy.float()
    for option in ({"fields": ["energy", "forces", "stress"]}, {"exclude": ["free_energy"]}):
        (own,) = ours(apt.AtpDataset(path, **option))
        assert torch.equal(own.total_energy, energies)
    (own,) = ours(apt.AtpDataset(path, exclude=["free_energy"], transform=_add_free_energy))
    assert torch.equal(own.total_energy, energies + 1)


def _add_free_energy(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.free_energy = batch.energy.float() + 1
    return batch


def test_weights_and_modality(path: Path) -> None:
    batch = next(iter(ours(path, weights={"force": 2.0}, modality="PBE")))
    assert batch.data_weight["force"].tolist() == [2.0] * BATCH
    assert batch.data_weight["energy"].tolist() == [1.0] * BATCH
    assert batch.data_modality == ["PBE"] * BATCH
    with pytest.raises(ValueError, match="weights: expected energy, force, stress, got 'forces'"):
        ours(path, weights={"forces": 2.0})


def test_missing_energy_or_forces_are_an_error(tmp_path: Path) -> None:
    made = structures(6, without=("forces",))
    path = write_atp(tmp_path / "a.atp", made)
    with pytest.raises(apt.FieldError, match=r"molecules \[1\]: expected energy and forces"):
        list(ours(path))
    with pytest.raises(ValueError, match="Unlabeled E or F"):
        stock_loader(made)


def test_a_left_handed_cell_has_a_positive_volume(tmp_path: Path) -> None:
    atoms = Atoms("Al", cell=[[0, 4, 0], [4, 0, 0], [0, 0, 4]], pbc=True)
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0, forces=np.zeros((1, 3)))
    path = write_atp(tmp_path / "a.atp", [atoms])
    (own,), (expected,) = ours(path), stock_loader([atoms])
    assert own.cell_volume.tolist() == expected.cell_volume.tolist() == [64.0]


def test_one_label_is_enough_if_some_may_be_missing(tmp_path: Path) -> None:
    path = write_misnamed(tmp_path / "a.xyz")
    with pytest.raises(apt.FieldError, match="no molecule has 'energy' or 'forces' or 'stress'"):
        sevennet.loader(path, {13: 0, 29: 1}, CUTOFF, batch_size=2, allow_unlabeled=True)
