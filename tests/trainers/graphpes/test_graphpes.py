"""graph-pes: batches, results and losses of its own loader; its command, resuming, labels."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graph_pes.atomic_graph import AtomicGraph, to_batch
from graph_pes.data.loader import GraphDataLoader
from graph_pes.models import SchNet
from pages import blocks_of
from processes.programs import output_of
from structures import CUTOFF, structures, write_atp, write_extxyz

import atompack_torch as apt
from atompack_torch.trainers import graphpes

N = 30
FIELDS = ("Z", "R", "cell", "batch", "ptr")
pytestmark = pytest.mark.filterwarnings("ignore:Attempting to batch")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atp(tmp_path_factory.mktemp("graphpes") / "a.atp", structures(N))


@pytest.fixture(params=[torch.float64, torch.float32])
def dtype(request: pytest.FixtureRequest) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def stock_batch(numbers: list[int]) -> AtomicGraph:
    made = structures(N)
    return to_batch(
        [AtomicGraph.from_ase(made[i], CUTOFF, property_mapping=PAIRS) for i in numbers]
    )


PAIRS = {"energy": "energy", "forces": "forces"}


def sorted_edges(graph: AtomicGraph) -> torch.Tensor:
    rows = torch.cat([graph.neighbour_list.T.double(), graph.neighbour_cell_offsets.double()], 1)
    return rows[np.lexsort(rows.T.numpy()[::-1])]


def assert_equal(made: AtomicGraph, stock: AtomicGraph) -> None:
    for name in FIELDS:
        found, wanted = getattr(made, name), getattr(stock, name)
        assert (found is None) == (wanted is None)
        if wanted is not None:
            torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert made.properties.keys() == stock.properties.keys()
    for name, value in stock.properties.items():
        torch.testing.assert_close(made.properties[name], value, rtol=0, atol=0)
    assert torch.equal(sorted_edges(made), sorted_edges(stock))
    assert made.cutoff == stock.cutoff


def test_every_tensor_and_the_results(path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = SchNet(cutoff=CUTOFF, channels=8, layers=1)
    batches = [[*range(7)], [25, 3], [11]]
    edges = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    for made, numbers in zip(
        graphpes.loader(path, CUTOFF, batch_sampler=batches), batches, strict=True
    ):
        stock = stock_batch(numbers)
        assert_equal(made, stock)
        assert_equal(graphpes.batch(edges.batch(numbers), CUTOFF), stock)
        results = [model.predict(graph, ["energy", "forces"]) for graph in (made, stock)]
        for name in ("energy", "forces"):
            bound = 1e-10 if dtype == torch.float64 else 1e-5
            torch.testing.assert_close(results[0][name], results[1][name], rtol=bound, atol=bound)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_its_loader_gets_finished_batches(path: Path, num_workers: int) -> None:
    dataset = graphpes.dataset(path, CUTOFF)
    assert dataset.properties == ["forces", "energy"]
    made = structures(N)
    for number in (0, 1):
        single = AtomicGraph.from_ase(made[number], CUTOFF, property_mapping=PAIRS)
        assert_equal(dataset[number], single)
    loader = GraphDataLoader(dataset, batch_size=8, num_workers=num_workers)
    for number, batch in enumerate(loader):
        assert_equal(batch, stock_batch([*range(8 * number, min(8 * number + 8, N))]))


def test_labels(tmp_path: Path) -> None:
    made = structures(12, periodic=True, without=("forces",))
    for number, atoms in enumerate(made):
        atoms.info |= {"total_charge": number}
    path = write_atp(tmp_path / "a.atp", made)
    with pytest.warns(UserWarning, match="dropped 4 of 12 molecules that lack energy, forces"):
        assert len(graphpes.dataset(path, CUTOFF)) == 8
    dataset = graphpes.dataset(path, CUTOFF, properties=["stress"], dtype=torch.float64)
    stock = AtomicGraph.from_ase(made[3], CUTOFF, {"stress": "stress"})
    torch.testing.assert_close(dataset[3].properties["stress"], stock.properties["stress"].double())
    (batch,) = GraphDataLoader(dataset, batch_size=12)
    assert batch.other["total_charge"].tolist() == [[number] for number in range(12)]
    assert dataset[3].other["total_charge"].tolist() == [3]
    with pytest.raises(ValueError, match=r"properties: expected some of .*, got 'dipole'"):
        graphpes.dataset(path, CUTOFF, properties=["dipole"])


def test_forces_of_some_molecules_are_refused(path: Path) -> None:
    dataset = apt.AtpDataset(path, force_subset=apt.ForceSubset(0.5))
    for refused in (dataset, apt.MixtureDataset([dataset, dataset])):
        with pytest.raises(apt.FieldError, match="force_subset: the losses of this trainer need"):
            graphpes.loader(refused, CUTOFF, batch_size=4)
    (batch,) = graphpes.loader(dataset, CUTOFF, batch_size=len(dataset), properties=["energy"])
    assert torch.isfinite(batch.properties["energy"]).all()


def test_further_fields_of_single_graphs(tmp_path: Path) -> None:
    """Values of atoms keep their rows, also in a molecule of one atom."""
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for n in (1, 3, 1):
            tags = torch.arange(n)
            made = apt.Molecule(torch.zeros(n, 3), [1] * n, energy=0.0, forces=torch.zeros(n, 3))
            made["atom_properties/tags"], made["properties/total_charge"] = tags, n
            writer.write(made)
    others = ["tags", "total_charge"]
    dataset = graphpes.dataset(tmp_path / "a.atp", CUTOFF, others=others)
    joined = to_batch([dataset[number] for number in range(3)]).other
    (batch,) = dataset.__getitems__(range(3))
    for name in others:
        assert torch.equal(joined[name], batch.other[name])


def test_the_command_has_the_losses_of_its_own_loader(tmp_path: Path) -> None:
    """The page's configuration, and the same with files that graph-pes reads itself."""
    for name, seed in (("train", 1), ("val", 2)):
        write_atp(tmp_path / f"{name}.atp", structures(24, seed=seed))
        write_extxyz(tmp_path / f"{name}.xyz", structures(24, seed=seed))
    (ours,) = blocks_of("graphpes", "yaml")
    stock, count = re.subn(
        r"\+atompack_torch.trainers.graphpes.dataset: \{data: (\w+).atp, cutoff: (.*)\}",
        r"+file_dataset: {path: \1.xyz, cutoff: \2, shuffle: false, property_map: "
        "{energy: energy, forces: forces}}",
        ours,
    )
    assert count == 2
    command = Path(sys.executable).with_name("graph-pes-train")
    losses = []
    for name, config in (("ours", ours), ("stock", stock)):
        (tmp_path / f"{name}.yaml").write_text(config)
        output_of([command, f"{name}.yaml", f"general/run_id={name}"], tmp_path, seconds=500)
        with (tmp_path / "graph-pes-results" / name / "version_0" / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        losses.append([float(row["valid/loss/total"]) for row in rows if row["valid/loss/total"]])
    assert len(losses[0]) == 2
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
