"""``NeighborList(triplets=)``: all pairs of edges with the same center, by a reference in NumPy."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.cache_fixture import CacheFixture
from reference.compare import assert_same_batch
from torch.utils.data import DataLoader

import atompack_torch as apt

CUTOFF, ANGULAR = 3.0, 2.25
NAMES = ("triplet_index", "triplet_edges")
TRIPLETS = apt.NeighborList(CUTOFF, vectors=True, triplets=ANGULAR)
N = 24
NewPath = Callable[[], Path]


def some_molecules(seed: int) -> list[apt.Molecule]:
    """No atoms, one, many; without neighbors; open and periodic."""
    rng = np.random.default_rng(seed)
    cell = np.array([[6.0, 0, 0], [1.7, 5, 0], [-2, 1.5, 5]])
    made = []
    for k in range(N):
        n = (0, 1, 2, 3, 8, 14)[k % 6]
        spacing = 50.0 if k % 7 == 3 else 1.5
        positions = rng.uniform(0, spacing * (1 + n) ** (1 / 3), (n, 3))
        if k == 10:
            positions[1] = positions[0]  # an edge of length 0
        periodic = None if k % 3 == 0 else [True, bool(k % 2), k % 5 == 0]
        energy = float(k) if k % 4 else None
        numbers = np.arange(1, n + 1)
        one_cell = None if periodic is None else cell
        made.append(apt.Molecule(positions, numbers, cell=one_cell, pbc=periodic, energy=energy))
    return made


def write(path: Path, molecules: Sequence[apt.Molecule], codec: Any = "none") -> Path:
    with apt.AtpWriter(path, codec=codec) as writer:
        writer.write(list(molecules))
    return path


@pytest.fixture(scope="module", params=["none", "zstd"])
def path(request: pytest.FixtureRequest, new_path: NewPath) -> Path:
    return write(new_path(), some_molecules(0), request.param)


@pytest.fixture(scope="module")
def dataset(path: Path) -> apt.AtpDataset:
    return apt.AtpDataset(path, neighbors=TRIPLETS)


def by_numpy(one: Any, cutoff: float) -> tuple[list[list[int]], list[list[int]]]:
    """i, j, k, and the numbers of the two edges, of a molecule or a batch with vectors."""
    (i, j), centers = one.edge_index.tolist(), one.edge_index[0].numpy()
    lengths = [np.sqrt(x * x + y * y + z * z) for x, y, z in one.edge_vector.numpy()]
    angular = [0 < length <= cutoff for length in lengths]
    found = [
        (e, f)
        for center in range(len(one.positions))
        for row in [[e for e in np.flatnonzero(centers == center).tolist() if angular[e]]]
        for place, e in enumerate(row)
        for f in row[place + 1 :]
    ]
    atoms = [[i[e] for e, _ in found], [j[e] for e, _ in found], [j[f] for _, f in found]]
    return atoms, [[e for e, _ in found], [f for _, f in found]]


def assert_triplets(batch: apt.MoleculeBatch, cutoff: float = ANGULAR) -> int:
    """Those of the reference for the batch and for each molecule; returns their number."""
    for one in (batch, *batch):
        atoms, edges = by_numpy(one, cutoff)
        assert one.triplet_index.dtype == one.triplet_edges.dtype == torch.int64
        assert one.triplet_index.tolist() == atoms
        assert one.triplet_edges.tolist() == edges
        assert one.level("triplet_index") == one.level("triplet_edges") == "triplet"
    return int(batch.triplet_index.shape[1])


def assert_same_triplets(batch: apt.MoleculeBatch, other: apt.MoleculeBatch) -> None:
    for name in ("edge_index", *NAMES):
        assert torch.equal(batch[name], other[name])


@pytest.mark.parametrize("self_interaction", [False, True])
@pytest.mark.parametrize(("triplets", "cutoff"), [(True, CUTOFF), (ANGULAR, ANGULAR), (2, 2.0)])
def test_equal_to_reference(
    path: Path, self_interaction: bool, triplets: float, cutoff: float
) -> None:
    options = apt.NeighborList(
        CUTOFF, vectors=True, self_interaction=self_interaction, triplets=triplets
    )
    dataset = apt.AtpDataset(path, neighbors=options)
    counts = [assert_triplets(dataset.batch(k), cutoff) for k in ([*range(N)], [5, 5, 0, -1, 3])]
    assert min(counts) > 10
    assert options.fields == ("edge_index", "edge_shift", "edge_vector", *NAMES)
    one = dataset[5]
    assert [one[name].tolist() for name in NAMES] == [*by_numpy(one, cutoff)]


def test_cutoff_is_included(new_path: NewPath) -> None:
    stored = write(new_path(), [apt.Molecule(np.eye(3) * [2, 3, 4], [1, 2, 3])])
    far = float(np.sqrt(13.0))
    for triplets, n in ((far, 0), (float(np.sqrt(20.0)), 1), (np.nextafter(20**0.5, 0), 0), (5, 3)):
        options = apt.NeighborList(6.0, triplets=float(triplets))
        batch = apt.AtpDataset(stored, neighbors=options).batch([0])
        assert batch.triplet_index.shape == (3, n)


def test_vectors_are_not_needed(path: Path, dataset: apt.AtpDataset) -> None:
    options = apt.NeighborList(CUTOFF, triplets=ANGULAR)
    plain = apt.AtpDataset(path, neighbors=options).batch(range(N))
    assert "edge_vector" not in plain
    assert_same_triplets(plain, dataset.batch(range(N)))
    edges = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF)).batch(range(N))
    assert not {*NAMES} & edges.keys()
    assert torch.equal(edges.edge_index, plain.edge_index)


@pytest.mark.parametrize("name", ["v2_both_f64_two", "v2_both_f64_three", "v2_both_f64_single"])
def test_triplets_of_aenet(fixtures: Path, name: str) -> None:
    """The stored rows of aenet-python, which has a different order of the edges of a center."""
    expected = CacheFixture(fixtures.parent / "torch_cache", name)
    info = json.loads(expected.facts["feature_info"]["descriptor_compat_json"])
    cutoff, angular = max(info["rad_cutoff"], info["ang_cutoff"]), info["ang_cutoff"]
    neighbors = apt.NeighborList(cutoff * (1 + 1e-9), triplets=angular)
    dataset, total = apt.TorchCacheDataset(expected.path, neighbors=neighbors), 0
    for entry in range(len(expected)):
        centers = expected.array(entry, "a_center")
        if centers is None:
            continue
        j, k = (expected.array(entry, key) for key in ("a_j", "a_k"))
        stored = zip(centers.tolist(), j.tolist(), k.tolist(), strict=True)
        found = dataset.batch([entry]).triplet_index.T.tolist()
        unordered = [Counter((i, *sorted(sides)) for i, *sides in rows) for rows in (found, stored)]
        assert unordered[0] == unordered[1]
        total += len(found)
    assert total > 0


def test_threads_make_no_difference(path: Path) -> None:
    indices = list(range(N)) * 12
    single = apt.AtpDataset(path, neighbors=TRIPLETS, num_threads=1).batch(indices)
    for threads in (2, 3):
        several = apt.AtpDataset(path, neighbors=TRIPLETS, num_threads=threads)
        for _ in range(4):  # not every batch is cut for threads
            assert_same_batch(several.batch(indices), single)


def test_planned_by_survey(new_path: NewPath) -> None:
    extra = [
        apt.Molecule(m.positions, m.atomic_numbers, properties={"k": 1}) for m in some_molecules(1)
    ]
    files = [write(new_path(), some_molecules(0)), write(new_path(), extra)]
    assert assert_triplets(apt.AtpDataset(files, neighbors=TRIPLETS).batch(range(2 * N))) > 0


def test_molecules_may_be_dropped(path: Path, dataset: apt.AtpDataset) -> None:
    part = apt.AtpDataset(path, neighbors=TRIPLETS, fields=["energy"], missing="drop")
    batch = part.batch(range(N))
    assert batch.index.tolist() == [k for k in range(N) if k % 4]
    assert_same_triplets(batch, dataset.batch(batch.index))


def test_nothing(dataset: apt.AtpDataset) -> None:
    for batch in (dataset.batch([]), dataset.batch([0, 1, 6])):
        assert [tuple(batch[name].shape) for name in NAMES] == [(3, 0), (2, 0)]


def test_copies_and_joining(dataset: apt.AtpDataset) -> None:
    chosen = [4, 9, 5, 11, 0, 1]
    expected = dataset.batch(chosen)
    assert expected.triplet_index.numel() > 0
    for other in (
        expected.clone(),
        copy.deepcopy(expected),
        pickle.loads(pickle.dumps(expected)),
        expected.to(torch.float32).to(torch.float64),
    ):
        assert_same_triplets(other, expected)
    parts: list[Any] = [
        dataset.batch([4, 9]),
        dataset[5],
        dataset.batch([]),
        dataset.batch([11, 0, 1]),
    ]
    assert_same_triplets(apt.collate(parts), expected)
    assert_same_triplets(apt.MoleculeBatch.from_molecules(list(expected)), expected)
    assert_triplets(apt.collate([pickle.loads(pickle.dumps(expected[2]))]))


def test_joining_with_what_has_no_triplets(path: Path, dataset: apt.AtpDataset) -> None:
    edges = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF, vectors=True))
    with pytest.raises(apt.FieldError, match=r"triplets: only some parts .*'triplet_index'"):
        apt.collate([dataset[0], edges[1]])


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders(dataset: apt.AtpDataset, workers: int) -> None:
    loaders: list[Any] = [DataLoader(dataset, batch_size=16, num_workers=workers)]
    if workers:
        loaders.append(apt.Loader(dataset, batch_size=16, shuffle=True, num_threads=workers))
    for loader in loaders:
        for batch in loader:
            assert_same_batch(batch, dataset.batch(batch.index))


def test_to_pyg(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch(range(12))
    for number, data in enumerate(batch.to_pyg().to_data_list()):
        assert torch.equal(data.triplet_index, batch[number].triplet_index)
        assert torch.equal(data.triplet_edges, batch[number].triplet_edges.t())


def test_replacing(dataset: apt.AtpDataset) -> None:
    batch = dataset.batch(range(12))
    edges: torch.Tensor = batch["triplet_edges"]  # type: ignore[assignment]
    batch.triplet_edges = edges.flip(0)
    assert torch.equal(batch[4].triplet_edges, dataset[4].triplet_edges.flip(0))
    with pytest.raises(apt.FieldError, match="'triplet_edges': expected int64, got float32"):
        batch.triplet_edges = edges.float()


def test_counting_edges_ignores_them(dataset: apt.AtpDataset) -> None:
    assert torch.equal(TRIPLETS.count(dataset), apt.NeighborList(CUTOFF).count(dataset))


def test_too_many_are_counted_before_memory_is_taken(new_path: NewPath) -> None:
    crowd = np.random.default_rng(2).uniform(0, 1, (500, 3))
    stored = write(new_path(), [apt.Molecule(crowd[:1], [1]), apt.Molecule(crowd, [1] * 500)])
    dataset = apt.AtpDataset(stored, neighbors=apt.NeighborList(CUTOFF, triplets=True))
    with pytest.raises(apt.FieldError, match="at most 41156608 triplets for 500 atoms") as caught:
        dataset.batch([0, 1])
    assert "molecule 1" in str(caught.value)
    assert str(stored) in str(caught.value)


@pytest.mark.parametrize("wrong", [0, -1.0, 3.01, float("nan"), float("inf")])
def test_refused_cutoffs(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"triplets: expected .*at (least 0\.001|most the cutoff)"):
        apt.NeighborList(CUTOFF, triplets=wrong)


def test_refused_options() -> None:
    with pytest.raises(TypeError, match="triplets: expected True, False or a number, got "):
        apt.NeighborList(CUTOFF, triplets="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="triplets: expected full=True, got full=False"):
        apt.NeighborList(CUTOFF, full=False, triplets=True)
