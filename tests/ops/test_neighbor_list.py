"""``neighbor_list``: the pairs of batches, differentiable, equal on any number of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import atompack_torch as apt


def batch_of(sizes: tuple[int, ...]) -> apt.MoleculeBatch:
    """Structures with some periodic directions, and atoms outside of their cells."""
    rng = np.random.default_rng(1)
    molecules = []
    for n in sizes:
        length = (8.0 * n) ** (1 / 3) + 0.1
        pbc = rng.random(3) < 0.7
        cell = np.eye(3) * length + 0.1 * rng.random((3, 3))
        positions = 2 * length * rng.random((n, 3)) - length
        molecules.append(apt.Molecule(positions, np.full(n, 6), cell=cell, pbc=pbc))
    return apt.collate(molecules)


def of_both(path: Path, molecules: list[apt.Molecule], cutoff: float, options: Any) -> Any:
    """The batch of a dataset with edges, and what the function finds for it."""
    with apt.AtpWriter(path) as writer:
        writer.write(molecules)
    neighbors = apt.NeighborList(cutoff, vectors=True, **options)
    read = apt.AtpDataset(path, neighbors=neighbors)[:]
    cell = read.cell.to(read.positions.dtype)
    return read, apt.neighbor_list(read.positions, cell, read.pbc, read.ptr, cutoff, **options)


every_option = pytest.mark.parametrize(
    "options",
    [
        {},
        {"full": False},
        {"self_interaction": True},
        {"full": False, "self_interaction": True},
        {"max_neighbors": 5},
    ],
    ids=["full", "half", "self", "both", "nearest"],
)


@every_option
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_edges_of_batches(tmp_path: Path, dtype: torch.dtype, options: Any) -> None:
    molecules = [
        apt.Molecule(m.positions.to(dtype), m.atomic_numbers, cell=m.cell, pbc=m.pbc)
        for m in batch_of((1, 5, 40, 7))
    ]
    read, found = of_both(tmp_path / "a.atp", molecules, 2.5, options)
    assert torch.equal(found.edge_index, read.edge_index)
    assert torch.equal(found.edge_shift, read.edge_shift.to(dtype))
    if dtype == torch.float64:
        assert torch.equal(found.edge_vector, read.edge_vector)
    torch.testing.assert_close(  # the cell was rounded too
        found.edge_vector, read.edge_vector.to(dtype), rtol=1e-5, atol=1e-5
    )


@every_option
@pytest.mark.parametrize("lattice", ["random", "grid"])
def test_large_structures_have_the_same_edges(tmp_path: Path, options: Any, lattice: str) -> None:
    """All threads search them together; on the grid, pairs are exactly at the cutoff."""
    molecules = [*batch_of((3, 4500, 2))]
    if lattice == "grid":
        steps = np.stack(np.meshgrid(*[np.arange(17.0)] * 3), -1).reshape(-1, 3) * 1.5
        steps = np.random.default_rng(0).permutation(steps)
        molecules[1] = apt.Molecule(
            steps, np.full(len(steps), 6), cell=np.eye(3) * 25.5, pbc=[True, True, False]
        )
    read, found = of_both(tmp_path / "a.atp", molecules, 3.0, options)
    assert torch.equal(found.edge_index, read.edge_index)
    assert torch.equal(found.edge_shift, read.edge_shift.to(found.edge_shift.dtype))
    assert torch.equal(found.edge_vector, read.edge_vector)


@pytest.mark.parametrize("full", [True, False])
def test_huge_structures_have_the_same_edges(tmp_path: Path, full: bool) -> None:
    """Their rows are written in the order of the search."""
    read, found = of_both(tmp_path / "a.atp", [*batch_of((160_000,))], 2.0, {"full": full})
    assert torch.equal(found.edge_index, read.edge_index)
    assert torch.equal(found.edge_shift, read.edge_shift.to(found.edge_shift.dtype))
    assert torch.equal(found.edge_vector, read.edge_vector)


@pytest.mark.parametrize("sizes", [(9000,), (3, 5000, 2, 2, 6000, 1), (300,) * 40, (), (0, 0)])
def test_threads_change_nothing(sizes: tuple[int, ...], threads: Any) -> None:
    """They share large structures, and are dealt small ones."""
    generator = torch.Generator().manual_seed(0)
    n = sum(sizes)
    positions = 30 * torch.rand(n, 3, generator=generator)
    cell = 30 * torch.eye(3).repeat(len(sizes), 1, 1)
    ptr = torch.tensor([0, *np.cumsum(sizes, dtype=int).tolist()])
    found = []
    for count in (1, 2, 3, 2):
        threads(count)
        found.append(apt.neighbor_list(positions, cell, None, ptr, 3.0))
    for other in found[1:]:
        assert all(map(torch.equal, other, found[0]))


def test_is_differentiable_in_positions_and_cell() -> None:
    generator = torch.Generator().manual_seed(0)
    positions = 3 * torch.rand(7, 3, generator=generator, dtype=torch.float64)
    cell = 3 * torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    ptr = torch.tensor([0, 3, 7])

    def energies(positions: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
        found = apt.neighbor_list(positions, cell, None, ptr, 2.0)
        return (-found.edge_vector.pow(2).sum(1)).exp().sum()

    given = (positions.requires_grad_(), cell.requires_grad_())
    assert gradcheck(energies, given)
    assert gradgradcheck(energies, given)


@pytest.mark.filterwarnings("error:.*non-contiguous")
@pytest.mark.parametrize("which", ["positions", "cell", "pbc", "ptr"])
def test_any_layout_in_memory(which: str) -> None:
    generator = torch.Generator().manual_seed(0)
    given = {
        "positions": 4 * torch.rand(20, 3, generator=generator, dtype=torch.float64),
        "cell": 4 * torch.eye(3).double() + 0.3 * torch.rand(2, 3, 3, generator=generator),
        "pbc": torch.tensor([[True, False, True], [True, True, False]]),
        "ptr": torch.tensor([0, 8, 20]),
    }
    expected = apt.neighbor_list(**given, cutoff=2.5)
    other = torch.stack([given[which], given[which]], -1)[..., 0]
    assert not other.is_contiguous()
    torch.set_warn_always(True)
    try:
        found = apt.neighbor_list(**{**given, which: other}, cutoff=2.5)
    finally:
        torch.set_warn_always(False)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": torch.zeros(4, 2)}, "positions: expected shape"),
        ({"positions": torch.zeros(4, 3, dtype=torch.int64)}, "positions: expected Float"),
        ({"positions": torch.full((4, 3), float("nan"))}, "finite numbers"),
        ({"cell": torch.zeros(3, 3, 3)}, "cell: expected"),
        ({"cell": torch.zeros(1, 3, 3)}, "molecule 0"),
        ({"ptr": torch.tensor([0, 3])}, "ptr: expected"),
        ({"cutoff": 0.0}, "cutoff"),
        ({"cutoff": float("nan")}, "cutoff"),
        ({"max_neighbors": 0}, "max_neighbors"),
        ({"max_neighbors": 3, "full": False}, "max_neighbors"),
        ({"positions": torch.zeros(40_000, 3), "ptr": None}, "expected at most"),
    ],
)
def test_errors_are_named(changes: Any, message: str) -> None:
    given = {
        "positions": torch.rand(4, 3),
        "cell": 9 * torch.eye(3).unsqueeze(0),
        "ptr": torch.tensor([0, 4]),
        "cutoff": 2.0,
    }
    with pytest.raises(apt.FieldError, match=message):
        apt.neighbor_list(**{**given, **changes})
    for name in ("positions", "cell", "ptr"):
        with pytest.raises(TypeError, match=f"{name}: expected a tensor, got list: torch"):
            apt.neighbor_list(**{**given, name: given[name].tolist()})
