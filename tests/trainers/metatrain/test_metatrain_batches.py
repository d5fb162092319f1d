"""Systems as metatomic makes them, neighbor lists of metatrain's own search, and targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from metatomic.torch import NeighborListOptions, systems_to_torch
from metatrain.utils.neighbor_lists import get_system_with_neighbor_lists
from structures import structures, write_atp

import atompack_torch as apt
from atompack_torch.trainers import metatrain

N = 12
LISTS = [
    NeighborListOptions(cutoff=4.0, full_list=True, strict=True),
    NeighborListOptions(cutoff=3.0, full_list=False, strict=True),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = structures(N, without=("forces", "stress"))
    return write_atp(tmp_path_factory.mktemp("metatrain") / "a.atp", made)


def assert_same_lists(found: Any, expected: Any) -> None:
    """The same pairs in any order; of a half list, in any of the two directions."""
    for options in LISTS:
        rows = []
        for system in (found, expected):
            block = system.get_neighbor_list(options)
            samples, vectors = block.samples.values.double(), block.values[:, :, 0]
            table = torch.cat([samples, vectors], 1).detach().numpy()
            if not options.full_list:
                mirrored = table[:, [1, 0, 2, 3, 4, 5, 6, 7]] * ([1] * 2 + [-1] * 6)
                swap = (table[:, 0] > table[:, 1]) | (
                    (table[:, 0] == table[:, 1]) & (table[:, 2:5] @ [1e6, 1e3, 1] < 0)
                )
                table = np.where(swap[:, None], mirrored, table)
            rows.append(table[np.lexsort(np.round(table[:, 4::-1], 6).T)])
        np.testing.assert_allclose(rows[0], rows[1], atol=1e-9)


def test_systems_and_their_neighbors(path: Path) -> None:
    made = structures(N, without=("forces", "stress"))
    (batch,) = metatrain.loader(path, N, LISTS, shuffle=False)
    systems, targets = batch
    assert list(targets) == ["energy"]
    for system, atoms in zip(systems, made, strict=True):
        stock = systems_to_torch(atoms, dtype=torch.float64)
        assert torch.equal(system.positions, stock.positions)
        assert torch.equal(system.types, stock.types)
        assert torch.equal(system.cell, stock.cell)
        assert torch.equal(system.pbc, stock.pbc)
        assert_same_lists(system, get_system_with_neighbor_lists(stock, LISTS))


def test_targets_and_missing_ones(path: Path) -> None:
    made = structures(N, without=("forces", "stress"))
    ((_, targets),) = metatrain.loader(path, N, shuffle=False, stress=True)
    block = targets["energy"].block()
    energies = [atoms.calc.results["energy"] for atoms in made]
    np.testing.assert_array_equal(block.values[:, 0].numpy(), energies)
    gradient = block.gradient("positions")
    rows = gradient.samples.values.tolist()
    first = 0
    for number, atoms in enumerate(made):
        of_it = gradient.values[first : first + len(atoms), :, 0].numpy()
        assert rows[first : first + len(atoms)] == [[number, k] for k in range(len(atoms))]
        forces = atoms.calc.results.get("forces")
        np.testing.assert_array_equal(of_it, np.nan if forces is None else -forces)
        first += len(atoms)
    strain = block.gradient("strain").values[..., 0].numpy()
    for number, atoms in enumerate(made):
        if "stress" in atoms.calc.results:
            stress = atoms.get_stress(voigt=False) * atoms.get_volume()
            np.testing.assert_allclose(strain[number], stress, rtol=1e-12)
        else:
            assert np.isnan(strain[number]).all()


def test_a_finished_batch(path: Path) -> None:
    edges = apt.AtpDataset(path, neighbors=metatrain.layout(LISTS).neighbors)
    systems, targets = metatrain.batch(edges[:], LISTS)
    ((expected, others),) = metatrain.loader(path, N, LISTS, shuffle=False)
    for found, stock in zip(systems, expected, strict=True):
        assert torch.equal(found.positions, stock.positions)
        assert_same_lists(found, stock)
    assert torch.equal(targets["energy"].block().values, others["energy"].block().values)


def test_gradients_without_an_energy() -> None:
    with pytest.raises(ValueError, match="expected False without an energy"):
        metatrain.layout(energy=None)
