"""Batches for MatGL next to those of its own converters and collate functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import add_adsorbate, fcc111
from ase.calculators.singlepoint import SinglePointCalculator
from matgl.graph.data import collate_fn_graph
from matgl.models import QET, MEGNet
from matgl.utils.training import ModelLightningModule, PotentialLightningModule
from matgl_cases import BATCH, ELEMENTS, MODELS, new_module, stock_loader, use_dtype
from structures import (
    CUTOFF,
    structures,
    write_atp,
    write_misnamed,
)

import atompack_torch as apt
from atompack_torch.trainers import matgl

N = 10


@pytest.fixture(scope="module")
def made() -> list[Atoms]:
    return structures(N)


@pytest.fixture(scope="module")
def path(made: list[Atoms], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atp(tmp_path_factory.mktemp("matgl") / "a.atp", made)


@pytest.fixture(params=[32, 64])
def bits(request: pytest.FixtureRequest) -> Iterator[int]:
    use_dtype(request.param)
    yield request.param
    use_dtype(32)


def ours(data: Any, **options: Any) -> Any:
    options = {"batch_size": BATCH, "shuffle": False, "allow_missing": True} | options
    return matgl.loader(data, ELEMENTS, CUTOFF, **options)


def assert_same_edges(found: Any, expected: Any) -> None:
    """Compares edges in an order that does not depend on the search."""
    rows = [torch.cat([g.edge_index.T, g.pbc_offset], 1).tolist() for g in (found, expected)]
    assert sorted(rows[0]) == sorted(rows[1])
    assert (found.edge_index[0].diff() >= 0).all()  # which three-body models need


def assert_same(found: Any, expected: Any) -> None:
    graph, wanted = found[0], expected[0]
    assert type(graph).__name__ == type(wanted).__name__ == "DataBatch"
    assert graph.num_graphs == wanted.num_graphs
    assert graph.num_nodes == wanted.num_nodes
    assert set(graph.keys()) == {*wanted.keys(), "index", "sample_idx"}
    assert_same_edges(graph, wanted)
    assert graph.pbc_offset.dtype == wanted.pbc_offset.dtype
    for name in ("node_type", "batch", "ptr"):
        assert torch.equal(graph[name], wanted[name])
    exact = 1e-12 if wanted.frac_coords.dtype == torch.float64 else 1e-6
    torch.testing.assert_close(graph.frac_coords, wanted.frac_coords, rtol=0, atol=exact)
    assert len(found) == len(expected)
    for value, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(value, other, rtol=exact, atol=exact, equal_nan=True)


def test_the_same_tensors(made: list[Atoms], path: Path, bits: int) -> None:
    count = 0
    for own, expected in zip(ours(path), stock_loader(made), strict=True):
        assert_same(own, expected)
        assert own[0].sample_idx.tolist() == list(range(count, count + own[0].num_graphs))
        count += own[0].num_graphs
    assert count == N


def test_a_batch_of_one(made: list[Atoms], path: Path) -> None:
    stock = stock_loader(made, batch_size=1)
    for own, expected in zip(ours(path, batch_size=1), stock, strict=True):
        assert_same(own, expected)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_same_predictions(tmp_path: Path, model: str, bits: int) -> None:
    made = structures(6, periodic=True)
    path = write_atp(tmp_path / "a.atp", made)
    potential = new_module(model).model.eval()
    tolerance = 1e-10 if bits == 64 else 1e-5
    for own, expected in zip(ours(path), stock_loader(made), strict=True):
        predictions = zip(potential(*own[:3])[:3], potential(*expected[:3])[:3], strict=True)
        for found, wanted in predictions:
            scale = max(1.0, float(wanted.detach().abs().max()))
            assert (found - wanted).detach().abs().max() / scale < tolerance


def test_the_same_predictions_of_molecules(made: list[Atoms], path: Path, bits: int) -> None:
    potential = new_module().model.eval()
    tolerance = 1e-10 if bits == 64 else 1e-5
    for own, expected in zip(ours(path), stock_loader(made), strict=True):
        predictions = zip(potential(*own[:3])[:2], potential(*expected[:3])[:2], strict=True)
        for found, wanted in predictions:
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def test_moments_and_charges(tmp_path: Path) -> None:
    made = structures(4, periodic=True)
    rng = np.random.default_rng(0)
    for atoms in made:
        for name in ("magmoms", "charges"):
            atoms.calc.results[name] = rng.normal(size=len(atoms))
    path = write_atp(tmp_path / "a.atp", made)
    (own,), (expected,) = ours(path, magmoms="magmoms"), stock_loader(made, magmoms=True)
    assert_same(own, expected)
    (own,), (expected,) = ours(path, charges="charges"), stock_loader(made, charges=True)
    assert_same(own, expected)
    (own,), (expected,) = ours(path, stress=None), stock_loader(made, include_stress=False)
    assert_same(own, expected)
    with pytest.raises(ValueError, match="magmoms: excludes charges"):
        ours(path, charges="charges", magmoms="magmoms")


def test_targets_and_states(tmp_path: Path) -> None:
    """As ``collate_fn_graph`` makes them for models of properties."""
    made = structures(4, periodic=True)
    for number, atoms in enumerate(made):
        atoms.info |= {"gap": 0.5 * number, "fidelity": number % 2}
    path = write_atp(tmp_path / "a.atp", made)
    (own,) = ours(path, target="gap", state="fidelity", state_dtype=torch.int64)
    stock = stock_loader(made).dataset
    rows = [(*stock[n][:2], torch.tensor(n % 2), {"gap": 0.5 * n}) for n in range(4)]
    assert_same(own, collate_fn_graph(rows))
    del made[1].info["fidelity"]
    path = write_atp(tmp_path / "b.atp", made)
    with pytest.raises(apt.FieldError, match=r"molecules \[1\]: expected a state, got none"):
        list(ours(path, state="fidelity", state_dtype=torch.int64))


def test_models_of_charges_and_properties(tmp_path: Path) -> None:
    made = structures(4, periodic=True)
    rng = np.random.default_rng(0)
    for atoms in made:
        atoms.calc.results["charges"] = rng.normal(size=len(atoms))
        atoms.info["gap"] = rng.normal()
    path = write_atp(tmp_path / "a.atp", made)
    expected = first(stock_loader(made, charges=True))
    potential = QET(ELEMENTS, units=8, nblocks=1, num_rbf=4, cutoff=CUTOFF)
    module: Any = PotentialLightningModule(potential, charge_weight=0.1, stress_weight=0.1)
    found = loss(module, first(ours(path, charges="charges")))
    assert found == pytest.approx(loss(module, expected), rel=1e-5)
    model = MEGNet(element_types=ELEMENTS, cutoff=CUTOFF, include_state=True, dim_state_feats=2)
    module = ModelLightningModule(model)
    gaps = torch.tensor([atoms.info["gap"] for atoms in made], dtype=torch.float32)
    found = loss(module, first(ours(path, target="gap")))
    assert found == pytest.approx(loss(module, (*expected[:3], gaps)), rel=1e-6)


def loss(module: Any, batch: Any) -> float:
    results, _ = module.step(batch)
    return float(results["Total_Loss"])


def test_a_slab(tmp_path: Path) -> None:
    """Periodic along two directions, with a vector for the third one and without."""
    slab = fcc111("Al", (2, 2, 2), vacuum=6.0)
    add_adsorbate(slab, "O", 1.2, "fcc")
    thin = slab.copy()
    thin.cell[2] = 0
    for atoms in (slab, thin):
        atoms.calc = SinglePointCalculator(atoms, energy=0.0, forces=np.zeros((len(atoms), 3)))
    path = write_atp(tmp_path / "a.atp", [slab, thin])
    (batch,) = ours(path, batch_size=2)
    graph, lattice, *_ = batch
    positions = torch.bmm(graph.frac_coords.unsqueeze(1), lattice[graph.batch]).squeeze(1)
    wanted = torch.tensor(np.concatenate([slab.positions, thin.positions]), dtype=torch.float32)
    torch.testing.assert_close(positions, wanted, atol=1e-4, rtol=0)
    torch.testing.assert_close(lattice[0], torch.tensor(slab.cell[:], dtype=torch.float32))
    assert torch.linalg.det(lattice[1]) > 0
    assert graph.pbc_offset[:, 2].abs().max() == 0
    first, second = new_module().model.eval()(*batch[:3])[0].tolist()
    assert first == pytest.approx(second, rel=1e-5)


def test_a_finished_batch(path: Path) -> None:
    dataset = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    batch = dataset.batch(range(BATCH))
    assert_equal(matgl.batch(batch, ELEMENTS, CUTOFF, allow_missing=True), first(ours(path)))


def first(batches: Any) -> Any:
    return next(iter(batches))


def assert_equal(found: Any, expected: Any) -> None:
    for name in expected[0].keys():
        torch.testing.assert_close(found[0][name], expected[0][name])
    torch.testing.assert_close(found[1:], expected[1:], equal_nan=True)


def test_it_separates_into_graphs(made: list[Atoms], path: Path) -> None:
    own, expected = first(ours(path))[0], first(stock_loader(made))[0]
    for graph, wanted in zip(own.to_data_list(), expected.to_data_list(), strict=True):
        assert_same_edges(graph, wanted)
        assert torch.equal(graph.node_type, wanted.node_type)
        assert graph.num_nodes == wanted.num_nodes


def test_unknown_symbols_are_an_error(path: Path) -> None:
    with pytest.raises(ValueError, match="expected symbols of elements, got 'Q'"):
        matgl.loader(path, ["Q"], CUTOFF, batch_size=BATCH)


@pytest.mark.parametrize("label", ["energy", "forces", "stress"])
def test_missing_labels_are_an_error(tmp_path: Path, label: str) -> None:
    path = write_atp(tmp_path / "a.atp", structures(4, periodic=True, without=(label,)))
    with pytest.raises(apt.FieldError, match=rf"molecules \[1\]: .*\(field '{label}'\)"):
        list(ours(path, allow_missing=False))


def test_one_label_is_enough_if_some_may_be_missing(tmp_path: Path) -> None:
    path = write_misnamed(tmp_path / "a.xyz")
    with pytest.raises(apt.FieldError, match="no molecule has 'energy' or 'forces' or"):
        matgl.loader(path, ["Al", "Cu"], CUTOFF, batch_size=2, allow_missing=True)
