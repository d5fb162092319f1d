"""``Loader(neighbors=)``: the edges of the dataset's own option, on any device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch.loading.transfer import add_edges, to_device


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for k in range(12):
            n = int(rng.integers(1, 9))
            labels: dict[str, Any] = {"energy": float(k)}
            if k % 3:
                labels |= {"cell": np.eye(3) * 3, "pbc": rng.random(3) < 0.7}
            if k % 4 == 1:
                labels.pop("pbc", None)
            writer.write(apt.Molecule(3 * rng.random((n, 3)), np.full(n, 6), **labels))
    return tmp_path / "a.atp"


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "vectors": {"vectors": True},
    "half": {"full": False, "vectors": True},
    "self": {"self_interaction": True},
    "nearest": {"max_neighbors": 3, "vectors": True},
}


def same(batch: apt.MoleculeBatch, other: apt.MoleculeBatch) -> None:
    assert batch.keys() == other.keys()
    for name in batch.keys():
        ours, theirs = batch[name], other[name]
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(batch.mask(name), other.mask(name))
        assert batch.level(name) == other.level(name)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_equals_the_option_of_the_data_set(path: Path, options: Any) -> None:
    neighbors = apt.NeighborList(2.0, **options)
    expected = apt.Loader(apt.AtpDataset(path, neighbors=neighbors), 5)
    for device in (None, "cpu"):
        loader = apt.Loader(apt.AtpDataset(path), 5, neighbors=neighbors, device=device)
        for batch, other in zip(loader, expected, strict=True):
            same(batch, other)
    assert "neighbors=NeighborList" in repr(loader)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_edges_that_are_made_after_the_move(path: Path, options: Any) -> None:
    """What CUDA devices do, on the CPU."""
    neighbors = apt.NeighborList(2.0, **options)
    for dtype in (None, torch.float32):
        for fields in (None, ["energy", "cell", "pbc"], ["cell", "pbc"]):
            assert_edges_added(path, neighbors, fields, dtype)


def assert_edges_added(path: Path, neighbors: apt.NeighborList, fields: Any, dtype: Any) -> None:
    batch = apt.AtpDataset(path, fields=fields, dtype=dtype)[:]
    expected = apt.AtpDataset(path, fields=fields, dtype=dtype, neighbors=neighbors)[:]
    found = add_edges(batch, neighbors)
    assert torch.equal(found.edge_index, expected.edge_index)
    assert torch.equal(found.edge_shift, expected.edge_shift)
    if neighbors.vectors:
        limit = 1e-6 if found.edge_vector.dtype == torch.float32 else 1e-12
        torch.testing.assert_close(found.edge_vector, expected.edge_vector, rtol=limit, atol=limit)
    assert found.keys() == expected.keys()
    assert "edge_index" not in batch


def test_other_data_is_moved_without_edges() -> None:
    moved = to_device({"a": torch.ones(2), "b": ["x"]}, torch.device("cpu"))
    assert torch.equal(moved["a"], torch.ones(2))


@pytest.mark.parametrize(
    ("options", "neighbors", "kind", "message"),
    [
        ({}, 5.0, TypeError, "neighbors: expected a NeighborList"),
        ({"neighbors": apt.NeighborList(2.0)}, apt.NeighborList(2.0), ValueError, "edges already"),
        ({}, apt.NeighborList(2.0, triplets=True), ValueError, "triplets"),
    ],
)
def test_errors(path: Path, options: Any, neighbors: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        apt.Loader(apt.AtpDataset(path, **options), 5, neighbors=neighbors)


def test_other_data_sets_are_refused(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "s", 10, 2) as writer:
        for k in range(4):
            writer.write({"a": k})
    with pytest.raises(TypeError, match="neighbors: expected molecules"):
        apt.Loader(apt.ShardDataset(tmp_path / "s"), 2, neighbors=apt.NeighborList(2.0))
