"""``NeighborList.count``: as many edges for each molecule as its batches hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.datasets import neighbors

N = 200
NewPath = Callable[[], Path]
PLAIN = apt.NeighborList(3.5)


def write(path: Path, n_molecules: int = N, seed: int = 0) -> Path:
    """Molecules without atoms, with some, one with many; open, periodic; half without energy."""
    rng = np.random.default_rng(seed)
    with apt.AtpWriter(path, codec="zstd") as writer:
        for k in range(n_molecules):
            n = 300 if k == 6 else int(rng.choice([0, 1, 5, 20, 40]))
            state: dict[str, Any] = {"energy": float(k)} if k % 2 else {}
            if k % 3:
                state |= {"cell": np.eye(3) * 4, "pbc": rng.random(3) < 0.7}
            positions = rng.uniform(0, 2 + n ** (1 / 3), (n, 3)).astype(np.float32)
            writer.write(apt.Molecule(positions, np.full(n, 6), **state))
    return path


@pytest.fixture(scope="module")
def path(new_path: NewPath) -> Path:
    return write(new_path())


def counted(path: Path, options: apt.NeighborList, indices: Any = range(N)) -> torch.Tensor:
    """What a batch with the edges holds of each of its molecules."""
    batch = apt.AtpDataset(path, neighbors=options).batch(indices)
    return torch.bincount(batch.batch[batch.edge_index[0]], minlength=len(batch))


@pytest.mark.parametrize("most", [1, 7, 200, 4096])
@pytest.mark.parametrize("limit", ["_ATOMS_AT_ONCE", "_MOLECULES_AT_ONCE"])
def test_equal_to_bincount(
    path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(neighbors, limit, most)
    counts = PLAIN.count(apt.AtpDataset(path))
    assert counts.dtype == torch.int64
    assert counts.max() > 1000
    assert torch.equal(counts, counted(path, PLAIN))


@pytest.mark.parametrize("option", ["full", "vectors", "self_interaction"])
def test_options(path: Path, option: str) -> None:
    options = replace(PLAIN, **{option: option != "full"})
    assert torch.equal(options.count(apt.AtpDataset(path)), counted(path, options))


def test_the_options_of_the_data_set_do_not_matter(path: Path) -> None:
    """Not its edges; and molecules that ``missing`` omits or refuses have edges too."""
    expected = counted(path, PLAIN)
    for missing in ("drop", "error"):
        dataset = apt.AtpDataset(
            path,
            fields=["energy"],
            missing=missing,
            neighbors=apt.NeighborList(1.0),
            transform=lambda batch: None,
            dtype=torch.float16,
        )
        assert torch.equal(PLAIN.count(dataset), expected)


def test_parts_and_mixtures(path: Path, new_path: NewPath) -> None:
    dataset, other = apt.AtpDataset(path), apt.AtpDataset(write(new_path(), 40, seed=1))
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))[:77]
    assert torch.equal(PLAIN.count(dataset.subset(order)), counted(path, PLAIN)[order])
    mixture = apt.MixtureDataset([dataset, other], weights=[1, 1], epoch="max")
    with_edges = apt.MixtureDataset(
        [apt.AtpDataset(p, neighbors=PLAIN) for p in (path, other._path)], [1, 1], "max"
    )
    batch = with_edges.batch(range(len(with_edges)))
    expected = torch.bincount(batch.batch[batch.edge_index[0]], minlength=len(batch))
    assert torch.equal(PLAIN.count(mixture), expected)


def test_nothing_to_count(path: Path, new_path: NewPath) -> None:
    for dataset in (apt.AtpDataset(write(new_path(), 0)), apt.AtpDataset(path).subset([])):
        assert PLAIN.count(dataset).shape == (0,)


def test_a_budget_of_edges(path: Path, tmp_path: Path) -> None:
    """As docs/training.md shows it: counted, kept, and every batch within the budget."""
    dataset = apt.AtpDataset(path, neighbors=PLAIN)
    np.save(tmp_path / "edges.npy", PLAIN.count(dataset))
    counts = np.load(tmp_path / "edges.npy")
    budget = int(counts.max()) + 10
    sampler = apt.AtomBudgetBatchSampler(dataset, budget, costs=counts, seed=3)
    n_edges = [batch.edge_index.shape[1] for batch in apt.Loader(dataset, batch_sampler=sampler)]
    assert max(n_edges) <= budget
    assert sum(n_edges) == counts.sum()
    assert len(n_edges) == len(sampler) > 3
    with pytest.raises(ValueError, match="costs: expected one for each of 199 molecules, got 200"):
        apt.AtomBudgetBatchSampler(dataset.subset(range(199)), budget, costs=counts)


def test_progress(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(neighbors, "_ATOMS_AT_ONCE", 500)
    told: list[int] = []
    PLAIN.count(apt.AtpDataset(path), progress=told.append)
    assert sum(told) == N
    assert len(told) > 3
    PLAIN.count(apt.AtpDataset(path), progress=True)
    assert f"neighbors: {N} molecules" in capfd.readouterr().err


def test_a_molecule_whose_neighbors_cannot_be_found(new_path: NewPath) -> None:
    made = new_path()
    with apt.AtpWriter(made) as writer:
        for x in (0.0, 1.0, np.nan):
            writer.write(apt.Molecule(np.array([[x, 0, 0]]), np.array([1])))
    with pytest.raises(apt.FieldError, match=r"positions: expected finite.*molecule 2") as caught:
        PLAIN.count(apt.AtpDataset(made))
    assert str(made) in str(caught.value)


def test_something_else(path: Path) -> None:
    with pytest.raises(TypeError, match="dataset: expected an AtpDataset, got PosixPath"):
        PLAIN.count(path)  # type: ignore[arg-type]
