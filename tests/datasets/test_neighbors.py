"""``neighbors=``: the edges of a batch equal those of vesin and of ASE."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import vesin
from ase.neighborlist import neighbor_list
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.compare import assert_same_batch
from torch.utils.data import DataLoader, Subset

import atompack_torch as apt
from atompack_torch.loading.transfer import to_device

CUTOFF = 3.5
EDGES = ("edge_index", "edge_shift", "edge_vector")
VECTORS = apt.NeighborList(CUTOFF, vectors=True)
NewPath = Callable[[], Path]

CUBE = np.eye(3) * 4.0
ODD_CELLS = {
    "cube": CUBE,
    "smaller than the cutoff": np.eye(3) * 1.7,
    "left-handed": CUBE[[1, 0, 2]],
    "skewed": np.array([[4.0, 0, 0], [3.7, 4, 0], [-2, 1.5, 3]]),
    "needle": np.diag([2.0, 2, 30]),
}
ALL_PBC = [[bool(mask & 1), bool(mask & 2), bool(mask & 4)] for mask in range(8)]


def molecule(positions: Any, cell: Any = None, pbc: Any = None, **labels: Any) -> apt.Molecule:
    positions = np.asarray(positions, dtype=labels.pop("dtype", np.float64)).reshape(-1, 3)
    numbers = np.arange(1, len(positions) + 1) % 90 + 1
    return apt.Molecule(positions, numbers, cell=cell, pbc=pbc, **labels)


def some_molecules(n: int = 60, seed: int = 0, dtype: Any = np.float64) -> list[apt.Molecule]:
    """Of every kind: no atoms, one, many; open, periodic in any directions, in odd cells."""
    rng = np.random.default_rng(seed)
    cells = list(ODD_CELLS.values())
    made = []
    for k in range(n):
        n_atoms = int(rng.choice([0, 1, 2, 7, 25, 140], p=[0.1, 0.1, 0.2, 0.3, 0.25, 0.05]))
        cell = None if k % 3 == 0 else cells[k % len(cells)]
        pbc = None if k % 7 == 1 else ALL_PBC[int(rng.integers(8))]
        positions = rng.uniform(-3, 3 + n_atoms ** (1 / 3) * 1.5, (n_atoms, 3))
        energy = float(k) if k % 5 else None
        made.append(molecule(positions, cell, pbc, dtype=dtype, energy=energy))
    return made


def write(path: Path, molecules: Sequence[apt.Molecule], codec: Any = "none") -> Path:
    with apt.AtpWriter(path, codec=codec) as writer:
        writer.write(list(molecules))
    return path


@pytest.fixture(scope="module", params=["zstd", pytest.param("none", marks=pytest.mark.exhaustive)])
def path(request: pytest.FixtureRequest, new_path: NewPath) -> Path:
    return write(new_path(), some_molecules(), request.param)


@pytest.fixture(scope="module")
def dataset(path: Path) -> apt.AtpDataset:
    return apt.AtpDataset(path, neighbors=VECTORS)


def by_vesin(one: apt.Molecule, options: apt.NeighborList = VECTORS) -> list[Any]:
    """(i, j, S, D) of each pair, sorted."""
    is_open = one.cell is None or one.pbc is None
    search = vesin.NeighborList(cutoff=options.cutoff, full_list=options.full, n_threads=1)
    cell = np.zeros((3, 3)) if is_open else one.cell.double().numpy()
    pbc = False if is_open else one.pbc.numpy()
    i, j, shift, vector = search.compute(one.positions.double().numpy(), cell, pbc, "ijSD")
    pairs = list(zip(i.tolist(), j.tolist(), shift.tolist(), vector.tolist(), strict=True))
    if options.self_interaction:
        pairs += [(atom, atom, [0] * 3, [0.0] * 3) for atom in range(len(one))]
    return sorted(pairs)


def of_molecule(one: apt.Molecule) -> list[Any]:
    i, j = one.edge_index.tolist()
    assert i == sorted(i)
    shift, vector = one.edge_shift.tolist(), one.edge_vector.tolist()
    return sorted(zip(i, j, shift, vector, strict=True))


def assert_edges(batch: apt.MoleculeBatch, options: apt.NeighborList = VECTORS) -> None:
    """Those of vesin for each molecule, bit for bit; and the batch's own numbers."""
    for one in batch:
        assert of_molecule(one) == by_vesin(one, options)
    assert torch.equal(batch.edge_index, batch.edge_index.clamp(0, len(batch.positions)))
    molecule_of_edge = batch.batch[batch.edge_index]
    assert torch.equal(molecule_of_edge[0], molecule_of_edge[1])
    assert batch.edge_index.dtype == torch.int64
    assert batch.edge_shift.dtype == batch.edge_vector.dtype == batch.positions.dtype


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("self_interaction", [False, True])
def test_equal_to_vesin(path: Path, full: bool, self_interaction: bool) -> None:
    options = apt.NeighborList(CUTOFF, full=full, vectors=True, self_interaction=self_interaction)
    dataset = apt.AtpDataset(path, neighbors=options)
    batch = dataset.batch(range(len(dataset)))
    assert_edges(batch, options)
    assert batch.edge_index.shape[1] > 1000
    for number in (0, 1, 17, -1):
        assert of_molecule(dataset[number]) == by_vesin(dataset[number], options)
    assert_edges(dataset[5:20], options)
    assert_edges(dataset.batch([7, 7, 3, -1]), options)


@pytest.mark.parametrize("pbc", ALL_PBC)
def test_equal_to_ase(new_path: NewPath, pbc: list[bool]) -> None:
    rng = np.random.default_rng(3)
    molecules = [molecule(rng.uniform(-2, 6, (9, 3)), c, pbc) for c in ODD_CELLS.values()]
    batch = apt.AtpDataset(write(new_path(), molecules), neighbors=VECTORS).batch(range(5))
    for one, atoms in zip(batch, batch.to_ase(), strict=True):
        i, j, shift, vector = neighbor_list("ijSD", atoms, CUTOFF)
        expected = sorted(zip(i.tolist(), j.tolist(), shift.tolist(), vector, strict=True))
        got = of_molecule(one)
        assert [edge[:3] for edge in got] == [edge[:3] for edge in expected]
        for edge, other in zip(got, expected, strict=True):
            assert np.allclose(edge[3], other[3], rtol=0, atol=1e-12)


def assert_as_vesin(new_path: NewPath, molecules: list[apt.Molecule], cutoff: float) -> int:
    """Full and half; returns the number of pairs of the full lists."""
    stored, n_pairs = write(new_path(), molecules), {}
    for full in (True, False):
        options = apt.NeighborList(cutoff, full=full, vectors=True)
        batch = apt.AtpDataset(stored, neighbors=options).batch(range(len(molecules)))
        assert_edges(batch, options)
        n_pairs[full] = batch.edge_index.shape[1]
    assert n_pairs[True] == 2 * n_pairs[False] > 0
    return n_pairs[True]


@pytest.mark.parametrize("spacing", [1.0, 0.1, 2.55, 3.61, 1 / 3])
def test_distances_at_the_cutoff(new_path: NewPath, spacing: float) -> None:
    """Lattices on which rounding alone decides what is nearer than the cutoff."""
    fcc = (np.ones((3, 3)) - np.eye(3)) * spacing / 2
    grid = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3) * spacing
    molecules = [
        molecule([[0, 0, 0]], fcc, [True] * 3),
        molecule(np.array([[0, 0, 0], [0.25] * 3]) * spacing, fcc, [True] * 3),
        molecule(grid, np.eye(3) * spacing * 4, [True] * 3),
        molecule(grid - 1e3 * spacing, np.eye(3) * spacing * 4, [True, False, True]),
        molecule(grid),
    ]
    for cutoff in (spacing, spacing * 2**0.5, spacing * 1.5**0.5, spacing * 2):
        assert_as_vesin(new_path, molecules, cutoff)


def test_atoms_far_outside_the_cell(new_path: NewPath) -> None:
    rng = np.random.default_rng(5)
    molecules = []
    for cell in ODD_CELLS.values():
        inside = rng.uniform(0, 1, (20, 3)) @ cell
        away = inside + rng.integers(-20, 20, (20, 3)) @ cell
        molecules += [molecule(away, cell, [True] * 3), molecule(away, cell, [True, True, False])]
    assert_as_vesin(new_path, molecules, CUTOFF)


@pytest.mark.parametrize(
    "pbc",
    [pytest.param(p, marks=[pytest.mark.exhaustive] * (0 < sum(p[1:]) < 2)) for p in ALL_PBC],
)
def test_large_structures(new_path: NewPath, pbc: list[bool]) -> None:
    rng = np.random.default_rng(6)
    cells = [np.diag([19.0, 20, 21]), np.array([[30.0, 0, 0], [14, 17, 0], [-9, 6, 15]])]
    molecules = [molecule(rng.random((700, 3)) @ cell, cell, pbc) for cell in cells]
    assert assert_as_vesin(new_path, molecules, CUTOFF) > 10000


@pytest.mark.parametrize("n", [40, pytest.param(150, marks=pytest.mark.exhaustive)])
def test_random_cells(new_path: NewPath, n: int) -> None:
    rng = np.random.default_rng(7)
    molecules = []
    while len(molecules) < n:
        cell = rng.normal(size=(3, 3)) * rng.choice([1.5, 4, 9])
        if abs(np.linalg.det(cell)) < 3 or np.linalg.norm(np.linalg.inv(cell)) > 2:
            continue
        n_atoms = int(rng.integers(1, 30))
        pbc = ALL_PBC[int(rng.integers(8))]
        molecules.append(molecule(rng.normal(size=(n_atoms, 3)) * 5, cell, pbc))
    assert_as_vesin(new_path, molecules, CUTOFF)


def test_absurd_shapes_take_no_time(new_path: NewPath) -> None:
    """A few atoms strung over many cells next to thin open directions."""
    wire, slab = [True, False, False], [True, True, False]
    molecules = [
        molecule([[0, 0, 0], [4e4, 0, 0], [9e5, 1e-3, 0]], np.eye(3), wire),
        molecule([[0, 0, 0], [3e4, 3e4, 1e-4], [9e4, 0, 0]], np.eye(3) * 3, slab),
        molecule([[0, 0, 0], [1e9, 1e9, 1e-9]], np.eye(3) * 1e3, slab),
        molecule([[0, 0, 0]], np.eye(3) * 1e-3, wire),
    ]
    dataset = apt.AtpDataset(write(new_path(), molecules), neighbors=VECTORS)
    start = time.process_time()
    counts = [one.edge_index.shape[1] for one in dataset.batch(range(4))]
    assert time.process_time() - start < 0.5
    assert counts == [3 * (3 * 7 - 1), 3 * 14, 2, 2 * 3499]


@settings(max_examples=60)
@given(data=st.data())
def test_any_structure(new_path: NewPath, data: st.DataObject) -> None:
    number = st.floats(-9, 9, width=32)
    molecules = []
    for _ in range(data.draw(st.integers(1, 4))):
        n = data.draw(st.integers(0, 9))
        positions = data.draw(st.lists(number, min_size=3 * n, max_size=3 * n))
        cell = np.reshape(data.draw(st.lists(number, min_size=9, max_size=9)), (3, 3))
        if abs(np.linalg.det(cell)) < 4 or np.linalg.norm(np.linalg.inv(cell)) > 2:
            cell = CUBE
        molecules.append(molecule(positions, cell, data.draw(st.sampled_from(ALL_PBC))))
    dataset = apt.AtpDataset(write(new_path(), molecules), neighbors=VECTORS)
    assert_edges(dataset.batch(range(len(dataset))))


def test_vectors_lead_from_i_to_j(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch(range(len(dataset)))
    i, j = batch.edge_index
    assert not bool(batch.mask("cell").all())
    vector = batch.positions[j] - batch.positions[i]
    vector += torch.einsum("ea,eab->eb", batch.edge_shift, batch.cell[batch.batch[i]])
    assert torch.allclose(vector, batch.edge_vector, rtol=0, atol=1e-12)
    assert bool((batch.edge_vector.norm(dim=1) < CUTOFF).all())


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64, torch.bfloat16])
def test_float32_files(new_path: NewPath, dtype: torch.dtype | None) -> None:
    """Searched in float64, whatever the batch holds; vectors are rounded once, at the end."""
    stored = write(new_path(), some_molecules(20, dtype=np.float32))
    exact = apt.AtpDataset(stored, neighbors=VECTORS, dtype=torch.float64).batch(range(20))
    assert_edges(exact)
    batch = apt.AtpDataset(stored, neighbors=VECTORS, dtype=dtype).batch(range(20))
    wanted = dtype or torch.float32
    assert torch.equal(batch.edge_index, exact.edge_index)
    assert torch.equal(batch.edge_shift, exact.edge_shift.to(wanted))
    assert torch.equal(batch.edge_vector, exact.edge_vector.to(wanted))


def test_cell_and_pbc_come_along(path: Path, dataset: apt.AtpDataset, new_path: NewPath) -> None:
    expected = dataset.batch(range(60))
    options: Any
    for options in ({"fields": []}, {"fields": ["energy"]}, {"exclude": ["cell", "pbc"]}):
        own = apt.AtpDataset(path, neighbors=VECTORS, **options)
        resident = apt.ResidentDataset(own)
        loader = apt.Loader(apt.AtpDataset(path, **options), 60, neighbors=VECTORS)
        for batch in (own[:], resident[:], apt.MixtureDataset([own])[:], next(iter(loader))):
            named = EDGES if "exclude" in options else (*EDGES, "cell", "pbc")
            for name in named:
                assert torch.equal(batch[name], expected[name])
            assert ("cell" in batch) == ("cell" in named)
    bare = write(new_path(), [molecule(np.zeros((2, 3)))])
    batch = apt.AtpDataset(bare, neighbors=VECTORS, fields=[], missing="error")[:]
    assert (batch.cell.tolist(), batch.pbc.tolist()) == ([[[0.0] * 3] * 3], [[False] * 3])


def test_a_search_on_a_device_needs_the_cell(
    path: Path, dataset: apt.AtpDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt.Loader, "_is_cuda", True)
    loader = apt.Loader(apt.AtpDataset(path, fields=["energy"]), 60, neighbors=VECTORS)
    made = to_device(loader._batches_of[:], torch.device("cpu"), VECTORS)
    assert_same_edges(made, dataset[:])
    with pytest.raises(ValueError, match=r"neighbors: expected cell in batches.*exclude="):
        apt.Loader(apt.AtpDataset(path, exclude=["cell"]), 60, neighbors=VECTORS)


def noisy(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.positions.add_(0.1)
    return batch


def replaced(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.positions = batch.positions + 0.1
    return batch


def strained(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.cell = 1.01 * batch.cell
    return batch


def opened(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    batch.pbc[:] = False
    return batch


def as_graphs(batch: apt.MoleculeBatch) -> Any:
    fields = batch.to_dict("pyg")
    fields["pos"] = fields["pos"] @ torch.eye(3).roll(1, 0).to(fields["pos"].dtype)
    return fields


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (noisy, "positions"),
        (replaced, "positions"),
        (strained, "cell"),
        (opened, "pbc"),
        (as_graphs, "positions"),
    ],
)
def test_a_transform_must_not_move_what_has_edges(path: Path, change: Any, name: str) -> None:
    own = apt.AtpDataset(path, neighbors=VECTORS, transform=change)
    message = f"transform: expected {name} as they were when the edges.*neighbor_list"
    plain = apt.AtpDataset(path, transform=change)
    for dataset in (own, apt.ResidentDataset(own), apt.MixtureDataset([own])):
        with pytest.raises(apt.FieldError, match=message):
            dataset[:]
    for loader in (
        apt.Loader(own, 60),
        apt.Loader(plain, 60, neighbors=VECTORS),
        DataLoader(own, 60, num_workers=1),
    ):
        with pytest.raises(apt.FieldError, match=message):
            next(iter(loader))
    assert len(plain[:]) > 0  # without edges


def test_transforms_that_keep_edges_true(path: Path, dataset: apt.AtpDataset) -> None:
    def shift(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch.positions.add_(1)
        batch.edge_index = batch.edge_index.clone()  # as one that searched again
        return batch

    for transform in (
        lambda batch: batch.to(torch.float32),
        lambda batch: batch.clone(),
        lambda batch: batch.to_dict("pyg"),
        lambda batch: batch.padded_to(molecules=100, atoms=4000, edges=300_000),
        lambda batch: [batch.positions.requires_grad_(), batch][1],
        shift,
    ):
        assert apt.AtpDataset(path, neighbors=VECTORS, transform=transform)[:10] is not None
    with torch.inference_mode():
        assert len(apt.AtpDataset(path, neighbors=VECTORS, transform=lambda b: b)[:]) == 60


def test_molecules_may_be_dropped(path: Path, dataset: apt.AtpDataset) -> None:
    fields = ["energy", "cell", "pbc"]
    part = apt.AtpDataset(path, neighbors=VECTORS, fields=fields, missing="drop")
    batch = part.batch(range(60))
    assert batch.index.tolist() == [k for k in range(60) if k % 5]  # open ones stay
    assert_same_edges(batch, dataset.batch(batch.index))


def assert_same_edges(batch: apt.MoleculeBatch, other: apt.MoleculeBatch) -> None:
    for name in EDGES:
        assert torch.equal(batch[name], other[name])


def test_records_unlike_their_schema(new_path: NewPath) -> None:
    """Two files that promise different fields: the batch is planned by a survey."""
    first, second = some_molecules(10, seed=1), some_molecules(10, seed=2)
    extra = [apt.Molecule(m.positions, m.atomic_numbers, properties={"k": 1}) for m in second]
    files = [write(new_path(), first), write(new_path(), extra, "lz4")]
    assert_edges(apt.AtpDataset(files, neighbors=VECTORS).batch(range(20)))


def test_no_molecules(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch([])
    assert [tuple(batch[name].shape) for name in EDGES] == [(2, 0), (0, 3), (0, 3)]


def test_threads_make_no_difference(path: Path) -> None:
    single = apt.AtpDataset(path, neighbors=VECTORS, num_threads=1)
    several = apt.AtpDataset(path, neighbors=VECTORS, num_threads=2)
    indices = list(range(60)) * 20
    for _ in range(4):  # not every batch is cut for threads
        assert_same_batch(several.batch(indices), single.batch(indices))


@pytest.mark.parametrize("n_workers", [0, 2])
def test_data_loader(dataset: apt.AtpDataset, n_workers: int) -> None:
    for source in (dataset, Subset(dataset, range(60))):
        batches = list(DataLoader(source, batch_size=16, num_workers=n_workers))
        assert [len(batch) for batch in batches] == [16, 16, 16, 12]
        for batch in batches:
            assert_same_batch(batch, dataset.batch(batch.index))


def test_loader(dataset: apt.AtpDataset) -> None:
    for batch in apt.Loader(dataset, batch_size=16, shuffle=True, num_threads=2):
        assert_same_batch(batch, dataset.batch(batch.index))


def test_subset_and_transform(path: Path, dataset: apt.AtpDataset) -> None:
    part = dataset.subset([5, 3, 8])
    assert_same_edges(part.batch([0, 1, 2]), dataset.batch([5, 3, 8]))
    counted = apt.AtpDataset(path, neighbors=VECTORS, transform=lambda b: b.edge_index.shape[1])
    assert counted.batch([5, 3, 8]) == part.batch([0, 1, 2]).edge_index.shape[1]
    assert pickle.loads(pickle.dumps(dataset)).batch([5]).keys() == dataset.batch([5]).keys()


def test_without_vectors(path: Path) -> None:
    batch = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF)).batch(range(60))
    assert "edge_shift" in batch
    assert "edge_vector" not in batch
    assert "edge_index" not in apt.AtpDataset(path).batch(range(60))
    assert not {*EDGES} & apt.AtpDataset(path, neighbors=VECTORS).schema.keys()


# What a batch with edges can do


def test_levels_and_masks(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch(range(10))
    for name in EDGES:
        assert batch.level(name) == batch[0].level(name) == "edge"
        assert bool(batch.mask(name).all())
        assert name in batch[3].keys()
    narrow = batch.to(torch.float32)
    assert narrow.edge_vector.dtype == narrow.edge_shift.dtype == torch.float32
    assert narrow.edge_index.dtype == torch.int64


def test_joining(dataset: apt.AtpDataset) -> None:
    expected = dataset.batch([4, 9, 2, 11, 0])
    parts = [dataset.batch([4, 9]), dataset[2], dataset.batch([]), dataset.batch([11, 0])]
    assert_same_edges(apt.collate(parts), expected)
    assert_same_edges(apt.MoleculeBatch.from_molecules(list(expected)), expected)
    assert of_molecule(pickle.loads(pickle.dumps(expected[1]))) == of_molecule(expected[1])


def test_joining_with_what_has_no_edges(path: Path, dataset: apt.AtpDataset) -> None:
    with pytest.raises(apt.FieldError, match=r"edges: only some parts have them.*'edge_index'"):
        apt.collate([dataset[0], apt.AtpDataset(path)[1]])


def test_replacing_edges(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch(range(10))
    batch.edge_vector = batch.edge_vector * 2
    assert of_molecule(batch[4])[0][3] == [2 * x for x in of_molecule(dataset[4])[0][3]]
    with pytest.raises(apt.FieldError, match=r"'edge_vector': expected \(\d+, 3\), got \(1, 3\)"):
        batch.edge_vector = batch.edge_vector[:1]
    with pytest.raises(apt.FieldError, match="'weights': edges and triplets are made by datasets"):
        batch.set_field("weights", batch.edge_vector, "edge")


def test_to_pyg(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch(range(20))
    for number, data in enumerate(batch.to_pyg().to_data_list()):
        one = batch[number]
        assert torch.equal(data.edge_index, one.edge_index)
        assert torch.equal(data.edge_shift, one.edge_shift)
        assert torch.equal(data.edge_vector, one.edge_vector)


def test_edges_are_not_written(new_path: NewPath, dataset: apt.AtpDataset) -> None:
    batch, copied = dataset.batch(range(60)), new_path()
    with apt.AtpWriter(copied) as writer:
        writer.write(batch)
    assert not {*EDGES} & apt.AtpDataset(copied).batch([0]).keys()
    assert_same_edges(apt.AtpDataset(copied, neighbors=VECTORS).batch(range(60)), batch)
    assert len(batch.to_ase()) == 60


# Refusals


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (molecule([[0, 0, 0], [np.nan, 0, 0]]), "positions: expected finite numbers, got nan"),
        (
            molecule([[0, np.inf, 0]], CUBE, [True] * 3),
            "positions: expected finite numbers, got in",
        ),
        (molecule([[0, 0, 0]], CUBE * [1, 1, 0], [True] * 3), "cell: .* got a singular cell"),
        (molecule([[0, 0, 0]], CUBE * 0, [False, True, False]), "cell: .* got a singular cell"),
        (
            molecule([[0, 0, 0]], CUBE * np.nan, [True] * 3),
            "cell: expected finite numbers, got nan",
        ),
        (molecule([[0, 0, 0]], CUBE * 1e-5, [True] * 3), "expected at most .* images for 1 atoms"),
        (molecule([[1e12, 0, 0]], CUBE, [True] * 3), "cells from the origin"),
        (molecule(np.ones((20000, 3))), "expected at most .* candidate pairs for 20000 atoms"),
    ],
)
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_refused_structures(new_path: NewPath, bad: apt.Molecule, message: str, codec: str) -> None:
    stored = write(new_path(), [molecule([[0, 0, 0]]), bad, molecule([[1, 1, 1]])], codec)
    dataset = apt.AtpDataset(stored, neighbors=VECTORS)
    for read in (lambda: dataset.batch([0, 1, 2]), lambda: dataset[1]):
        with pytest.raises(apt.FieldError, match=message) as caught:
            read()
        assert str(stored) in str(caught.value)
        assert "molecule 1" in str(caught.value)
    assert len(dataset.batch([0, 2])) == 2


def test_a_cell_without_pbc_may_be_anything(new_path: NewPath) -> None:
    molecules = [
        molecule([[0, 0, 0], [1, 0, 0]], CUBE * 0, [False] * 3),
        molecule([[0, 0, 0], [1, 0, 0]], CUBE * np.nan),
        molecule([[0, 0, 0], [1, 0, 0]], None, [True] * 3),
        molecule([[0, 0, 0], [1, 0, 0]], np.diag([4.0, 0, 0]), [True, False, False]),
    ]
    batch = apt.AtpDataset(write(new_path(), molecules), neighbors=VECTORS).batch(range(4))
    assert [one.edge_index.shape[1] for one in batch] == [2, 2, 2, 4]


@pytest.mark.parametrize("max_neighbors", [1, 7, 10_000])
def test_only_the_nearest(tmp_path: Path, max_neighbors: int) -> None:
    """Each atom keeps its shortest edges, in their order."""
    rng = np.random.default_rng(0)
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for n in (1, 5, 9):
            cell = 4 * np.eye(3) + rng.uniform(0, 1, (3, 3))
            molecule = apt.Molecule(rng.uniform(0, 4, (n, 3)), np.ones(n, int), cell=cell)
            molecule.pbc = torch.tensor([True, n > 1, True])
            writer.write(molecule)
    options = {"vectors": True, "triplets": 3.0}
    every = apt.AtpDataset(tmp_path / "a.atp", neighbors=apt.NeighborList(4.5, **options))[:]
    neighbors = apt.NeighborList(4.5, **options, max_neighbors=max_neighbors)
    made = apt.AtpDataset(tmp_path / "a.atp", neighbors=neighbors)[:]
    lengths = every.edge_vector.norm(dim=1)
    kept = []
    for atom in range(len(every.positions)):
        edges = torch.nonzero(every.edge_index[0] == atom).flatten()
        nearest = edges[lengths[edges].argsort()[:max_neighbors]]
        kept += sorted(nearest.tolist())
    assert torch.equal(made.edge_index, every.edge_index[:, kept])
    assert torch.equal(made.edge_shift, every.edge_shift[kept])
    assert torch.equal(made.edge_vector, every.edge_vector[kept])
    assert bool((made.edge_vector[made.triplet_edges].norm(dim=2) <= 3.0).all())
    assert neighbors.count(apt.AtpDataset(tmp_path / "a.atp")).sum() == len(kept)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(
            ({"cutoff": x}, ValueError, "cutoff: expected a finite number, at least 0.001")
            for x in (0, 1e-9, np.nan, np.inf)
        ),
        ({"cutoff": "5"}, TypeError, "cutoff: expected a number, got '5'"),
        ({"full": 2}, TypeError, "full: expected True or False, got 2"),
        ({"max_neighbors": 0}, ValueError, "max_neighbors: expected at least 1, got 0"),
        ({"max_neighbors": 2.5}, TypeError, "max_neighbors: expected an int"),
        ({"max_neighbors": 3, "full": False}, ValueError, "max_neighbors: needs full=True"),
        ({"max_neighbors": 3, "self_interaction": True}, ValueError, "max_neighbors: needs full"),
    ],
)
def test_refused_options(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        apt.NeighborList(**{"cutoff": 4.0, **options})
