"""Orb: batches, results and losses of its own adapter; ranks, resuming, missing labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from orb_cases import model, stock_batch
from structures import CUTOFF, structures, write_atp

import atompack_torch as apt
from atompack_torch.trainers import orb

N = 30
MOST = 100  # neighbors, more than any atom has
DICTS = ("node_features", "system_features", "node_targets", "system_targets")
TENSORS = ("n_node", "n_edge", "system_id", "tags", "max_num_neighbors", "node_batch_index")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atp(tmp_path_factory.mktemp("orb") / "a.atp", structures(N))


def sorted_edges(batch: Any) -> torch.Tensor:
    columns = [batch.senders[:, None], batch.receivers[:, None]]
    columns += [batch.edge_features[name] for name in ("unit_shifts", "vectors")]
    rows = torch.cat([column.double() for column in columns], 1)
    return rows[np.lexsort(rows.round(decimals=4).T.numpy()[::-1])]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_tensor(path: Path, dtype: torch.dtype) -> None:
    numbers = [*range(7), 25]
    (made,) = orb.loader(path, CUTOFF, MOST, batch_sampler=[numbers], dtype=dtype)
    stock = stock_batch(numbers, N, MOST, dtype)
    tolerance = 1e-10 if dtype == torch.float64 else 2e-6
    for name in DICTS:
        found, wanted = getattr(made, name), getattr(stock, name)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            torch.testing.assert_close(found[key], value, rtol=tolerance, atol=tolerance)
    for name in TENSORS:
        torch.testing.assert_close(getattr(made, name), getattr(stock, name), rtol=0, atol=0)
    assert made.radius == stock.radius
    torch.testing.assert_close(sorted_edges(made), sorted_edges(stock), rtol=0, atol=tolerance)
    edges = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF)).batch(numbers)
    assert torch.equal(torch.stack([made.senders, made.receivers]), edges.edge_index)
    finished = orb.batch(edges, CUTOFF, MOST, dtype=dtype)
    assert torch.equal(finished.edge_features["vectors"], made.edge_features["vectors"])


def test_the_nearest_neighbors(path: Path) -> None:
    numbers = [0, 2, 4]
    (made,) = orb.loader(path, CUTOFF, 7, batch_sampler=[numbers], dtype=torch.float64)
    stock = stock_batch(numbers, N, 7, torch.float64)
    assert torch.equal(made.n_edge, stock.n_edge)
    assert made.n_edge.tolist() == [7 * 4] * 3
    torch.testing.assert_close(sorted_edges(made), sorted_edges(stock), rtol=0, atol=1e-10)


def test_losses_of_twenty_steps(path: Path) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.permutation(N)[:4].tolist() for _ in range(20)]

    def losses(data: Any) -> list[float]:
        trained = model()
        optimizer = torch.optim.Adam(trained.parameters(), lr=1e-3)
        found = []
        for batch in data:
            optimizer.zero_grad()
            loss = trained.loss(batch).loss
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    expected = losses(stock_batch(numbers, N, MOST, torch.float64) for numbers in batches)
    ours = orb.loader(path, CUTOFF, MOST, batch_sampler=batches, dtype=torch.float64)
    np.testing.assert_allclose(losses(ours), expected, rtol=1e-6)


def test_molecules_without_labels_are_dropped(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(12, without=("forces",)))
    with pytest.warns(UserWarning, match="dropped 4 of 12 molecules that lack energy, forces"):
        loader = orb.loader(path, CUTOFF, MOST, batch_size=3)
    for batch in loader:
        assert torch.isfinite(batch.node_targets["forces"]).all()


def test_states_stress_and_what_orb_refuses(tmp_path: Path) -> None:
    made = structures(3, periodic=True)
    for number, atoms in enumerate(made):
        atoms.info |= {"charge": number - 1, "spin": 1}
        atoms.set_tags(range(len(atoms)))
    path = write_atp(tmp_path / "a.atp", made)
    options: dict[str, Any] = {"batch_size": 3, "shuffle": False, "dtype": torch.float64}
    (batch,) = orb.loader(path, CUTOFF, MOST, properties=["stress"], **options)
    assert batch.system_features["total_charge"].tolist() == [-1, 0, 1]
    assert batch.system_features["spin_multiplicity"].tolist() == [1, 1, 1]
    assert batch.tags[:4].tolist() == [0, 1, 2, 3]
    stress = np.stack([atoms.calc.results["stress"] for atoms in made])
    np.testing.assert_allclose(batch.system_targets["stress"], stress)
    made[1].pbc = [True, True, False]
    made[1].calc.atoms = made[1].copy()  # the results are still those of these atoms
    slab = write_atp(tmp_path / "b.atp", made)
    with pytest.raises(apt.FieldError, match=r"molecules \[1\]: Orb expects all directions"):
        list(orb.loader(slab, CUTOFF, MOST, **options))
    del made[1].info["spin"]
    made[1].pbc = True
    made[1].calc.atoms = made[1].copy()
    partly = write_atp(tmp_path / "c.atp", made)
    with pytest.raises(apt.FieldError, match=r"molecules \[1\]: no value \(field 'spin'\)"):
        list(orb.loader(partly, CUTOFF, MOST, **options))


def test_states_are_those_of_molecules_and_tags_those_of_atoms(tmp_path: Path) -> None:
    made = structures(3, periodic=True)
    for atoms in made:
        atoms.arrays |= {"charge": np.full(len(atoms), 0.5), "spin": np.full(len(atoms), 0.5)}
        atoms.info["tags"] = 7
        atoms.calc.atoms = atoms.copy()
    (batch,) = orb.loader(write_atp(tmp_path / "a.atp", made), CUTOFF, MOST, batch_size=3)
    assert batch.system_features.keys() == {"cell", "pbc"}
    assert not batch.tags.any()
    for number, atoms in enumerate(made):
        atoms.info |= {"total_charge": number, "total_spin": 1}
        del atoms.arrays["charge"], atoms.arrays["spin"]
        atoms.calc.atoms = atoms.copy()
    path = write_atp(tmp_path / "b.atp", made)
    (batch,) = orb.loader(path, CUTOFF, MOST, batch_size=3, shuffle=False)
    assert batch.system_features["total_charge"].tolist() == [0, 1, 2]
    assert batch.system_features["spin_multiplicity"].tolist() == [1, 1, 1]
