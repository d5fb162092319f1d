"""The neighbor list of CUDA devices: its kernels run on the CPU too, and find the same pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from nvalchemiops.torch import neighbors

import atompack_torch as apt
from atompack_torch.ops import neighbors as own_neighbors
from atompack_torch.ops.neighbors import neighbors_by_toolkit


def batch_of(seed: int, kind: str) -> tuple[Any, ...]:
    """Structures of any size: open, periodic in some directions, tiny and slanted cells."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, 4)
    positions = [4 * rng.random((n, 3)) - 1 for n in sizes]
    cell = np.eye(3) * rng.uniform(1.2, 5, (4, 1, 1)) + 0.4 * rng.normal(size=(4, 3, 3))
    pbc = np.ones((4, 3), bool)
    if kind == "some":
        pbc = rng.random((4, 3)) < 0.6
        cell[~pbc] = 0
    tensors = (torch.tensor(cell), torch.tensor(pbc)) if kind != "open" else (None, None)
    ptr = torch.tensor([0, *np.cumsum(sizes)])
    return torch.tensor(np.concatenate(positions)), *tensors, ptr


def rows(index: torch.Tensor, shift: torch.Tensor) -> list[tuple[int, ...]]:
    return [*map(tuple, torch.cat([index.T, shift.to(torch.int64)], 1).tolist())]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [{}, {"full": False}, {"self_interaction": True}, {"max_neighbors": 4}],
    ids=["full", "half", "self", "nearest"],
)
@pytest.mark.parametrize("kind", ["open", "all", "some"])
def test_same_pairs_as_the_native_search(kind: str, options: Any, dtype: torch.dtype) -> None:
    for seed in range(6):
        positions, cell, pbc, ptr = batch_of(seed, kind)
        given = (positions.to(dtype), None if cell is None else cell.to(dtype), pbc, ptr)
        native = torch.ops.atompack_torch.neighbor_list(*given, 2.7, **options)
        found = neighbors_by_toolkit(*given, 2.7, **options)
        assert found[0].dtype == torch.int64
        assert found[1].dtype == dtype
        assert sorted(rows(*found)) == sorted(rows(*native))
        assert torch.equal(found[0][0], native[0][0])  # ascending centers


def test_more_neighbors_than_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is repeated once; the next one with that cutoff has room immediately."""
    monkeypatch.setattr(own_neighbors, "_capacity_of", {})
    search, capacities = neighbors.neighbor_list, []

    def counted(*args: Any, max_neighbors: int, **options: Any) -> Any:
        capacities.append(max_neighbors)
        return search(*args, max_neighbors=max_neighbors, **options)

    monkeypatch.setattr(neighbors, "neighbor_list", counted)
    for n in (200, 210, 3, 200):
        given = (torch.rand(n, 3, dtype=torch.float64), None, None, torch.tensor([0, n]))
        native = torch.ops.atompack_torch.neighbor_list(*given, 2.0)
        assert sorted(rows(*neighbors_by_toolkit(*given, 2.0))) == sorted(rows(*native))
    assert capacities == [64, 199, 223, 235, 64, 199]


def test_few_cutoffs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_neighbors, "_capacity_of", {})
    given = (torch.rand(5, 3), None, None, torch.tensor([0, 5]))
    for k in range(200):
        neighbors_by_toolkit(*given, 1 + k / 100)
    assert 0 < len(own_neighbors._capacity_of) <= 64


@pytest.mark.filterwarnings("error:.*non-contiguous")
@pytest.mark.parametrize("options", [{}, {"full": False}, {"max_neighbors": 4}])
def test_any_layout_in_memory(options: Any) -> None:
    positions, cell, pbc, ptr = given = batch_of(1, "some")
    turned = positions.T.contiguous().T, cell.mT.contiguous().mT, pbc.T.contiguous().T
    expected = neighbors_by_toolkit(*given, 2.7, **options)
    torch.set_warn_always(True)
    try:
        wide = torch.stack([ptr, ptr], 1)[:, 0]
        found = neighbors_by_toolkit(*turned, wide, 2.7, **options)
    finally:
        torch.set_warn_always(False)
    assert all(map(torch.equal, found, expected))


def test_no_atoms() -> None:
    index, shift = neighbors_by_toolkit(torch.zeros(0, 3), None, None, torch.tensor([0, 0]), 2.0)
    assert index.shape == (2, 0)
    assert shift.shape == (0, 3)


def test_pairs_at_the_cutoff() -> None:
    """Of a grid, in which many distances are exactly the cutoff."""
    grid = np.stack(np.meshgrid(*[np.arange(6.0)] * 3), -1).reshape(-1, 3)
    given = (torch.tensor(grid), 6 * torch.eye(3).double()[None], None, torch.tensor([0, 216]))
    native = torch.ops.atompack_torch.neighbor_list(*given, 2.0)
    assert sorted(rows(*neighbors_by_toolkit(*given, 2.0))) == sorted(rows(*native))


def test_it_is_the_kernel_of_cuda_devices() -> None:
    positions, cell, pbc, ptr = batch_of(0, "all")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    operator = torch.ops.atompack_torch.neighbor_list.default
    found = operator.redispatch(keys, positions, cell, pbc, ptr, 2.7)
    assert sorted(rows(*found)) == sorted(rows(*operator(positions, cell, pbc, ptr, 2.7)))
    assert apt.neighbor_list(positions, cell, pbc, ptr, 2.7).edge_index.shape == found[0].shape
