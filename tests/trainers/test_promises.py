"""What every loader promises: epochs shared by ranks, resuming, limits, names of labels, elements.

The trainer is the one of the environment. The file is also a script, for each rank.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed
from ase.data import chemical_symbols
from ranks import run_ranks
from structures import CUTOFF, ELEMENTS, KEY_MAP, misnamed_as, structures, write_atp, write_misnamed

import atompack_torch as apt

NAME = Path(sys.prefix).name
N, BATCH, STOP = 40, 4, 3
Arguments = Callable[[Sequence[int]], dict[str, Any]]


def symbols(numbers: Sequence[int]) -> list[str]:
    return [chemical_symbols[number] for number in numbers]


# Arguments of `loader` for a model of some elements, and the energies in a batch.
TRAINERS: dict[str, tuple[Arguments, Callable[[Any], Any]]] = {
    "deepmd": (lambda z: {"type_map": symbols(z)}, lambda frames: frames["energy"]),
    "graphpes": (lambda _: {"cutoff": CUTOFF}, lambda graph: graph.properties["energy"]),
    "mace": (lambda z: {"z_table": z, "cutoff": CUTOFF}, lambda batch: batch.energy),
    "matgl": (
        lambda z: {"element_types": symbols(z), "cutoff": CUTOFF, "stress": None},
        lambda batch: batch[3],
    ),
    "metatrain": (lambda _: {}, lambda batch: batch[1]["energy"].block().values),
    "nequip": (
        lambda z: {"model_type_names": symbols(z), "cutoff": CUTOFF},
        lambda batch: batch["total_energy"],
    ),
    "orb": (
        lambda _: {"radius": CUTOFF, "max_num_neighbors": 100},
        lambda batch: batch.system_targets["energy"],
    ),
    "schnetpack": (lambda _: {"cutoff": CUTOFF}, lambda batch: batch["energy"]),
    "sevennet": (
        lambda z: {"type_map": {number: i for i, number in enumerate(z)}, "cutoff": CUTOFF},
        lambda batch: batch.total_energy,
    ),
    "torchmdnet": (lambda _: {}, lambda batch: batch.y),
}

if NAME not in TRAINERS:
    pytest.skip("this environment has no such loader", allow_module_level=True)
ARGUMENTS, ENERGIES = TRAINERS[NAME]
ALL_ENERGIES = np.array([atoms.calc.results["energy"] for atoms in structures(N, seed=2)])


def load(data: Any, elements: Sequence[int] = ELEMENTS, **options: Any) -> Any:
    """Makes the loader of the trainer."""
    trainer = import_module(f"atompack_torch.trainers.{NAME}")
    return trainer.loader(data, **ARGUMENTS(elements), **options)


def numbers_of(batch: Any) -> list[int]:
    """The molecules of a batch, which are known by their energies."""
    energies = ENERGIES(batch).flatten().double().numpy()
    numbers = np.abs(energies[:, None] - ALL_ENERGIES).argmin(1)
    np.testing.assert_allclose(energies, ALL_ENERGIES[numbers], rtol=1e-6)
    return list(map(int, numbers))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_atp(tmp_path / "a.atp", structures(N, seed=2))


def test_ranks_share_an_epoch_and_resume(path: Path, tmp_path: Path) -> None:
    """Every molecule once, in as many steps, in another order; after a stop what was left."""
    ranks = run_ranks(tmp_path, Path(__file__), path)
    orders = []
    for epoch in range(2):
        orders.append([n for rank in ranks for batch in rank["epochs"][epoch] for n in batch])
        assert sorted(orders[-1]) == list(range(N))
        assert len({len(rank["epochs"][epoch]) for rank in ranks}) == 1
    assert orders[0] != orders[1]
    for rank in ranks:
        assert rank["again"] == rank["epochs"]


def train_on_a_rank(path: str, result: str) -> None:
    """Goes through two epochs, and through them again with a stop in the first one."""
    torch.distributed.init_process_group("gloo")
    whole, stopped, resumed = (load(path, batch_size=BATCH, seed=1) for _ in range(3))
    epochs = [list(map(numbers_of, whole)) for _ in range(2)]
    first = list(map(numbers_of, islice(stopped, STOP)))
    resumed.load_state_dict(json.loads(json.dumps(stopped.state_dict())))
    again = [first + list(map(numbers_of, resumed)), list(map(numbers_of, resumed))]
    Path(result).write_text(json.dumps({"epochs": epochs, "again": again}))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if NAME != "deepmd":  # whose batches have molecules of one size

    def test_an_atom_budget(path: Path) -> None:
        sizes = [len(atoms) for atoms in structures(N, seed=2)]
        batches = list(map(numbers_of, load(path, max_atoms=20)))
        assert max(sum(sizes[number] for number in batch) for batch in batches) <= 20
        assert sorted(number for batch in batches for number in batch) == list(range(N))

    def test_one_limit_of_a_batch(path: Path) -> None:
        for limits in ({}, {"batch_size": 4, "max_atoms": 40}):
            with pytest.raises(ValueError, match="max_atoms and batch_size: expected one of them"):
                load(path, **limits)
        with pytest.raises(ValueError, match="batch_sampler: excludes max_atoms and batch_size"):
            load(path, batch_size=4, batch_sampler=[[0, 1]])


def test_labels_of_other_names(tmp_path: Path) -> None:
    with pytest.raises(
        apt.FieldError, match=r"no molecule has 'energy'.*key_map=\{'dft_energy': 'energy'"
    ):
        load(write_misnamed(tmp_path / "a.xyz"), batch_size=2)


@pytest.mark.parametrize("suffix", [".xyz", ".atp"])
def test_key_map(tmp_path: Path, suffix: str) -> None:
    path, energies = misnamed_as(suffix, tmp_path)
    (batch,) = load(path, batch_size=4, shuffle=False, key_map=KEY_MAP)
    np.testing.assert_allclose(ENERGIES(batch).flatten(), energies, rtol=1e-6)


if ARGUMENTS(ELEMENTS) != ARGUMENTS(()):  # models of some elements only

    def test_an_element_that_the_model_lacks(path: Path) -> None:
        with pytest.raises(apt.FieldError, match=r"a\.atp: .*got Cu \(molecule"):
            list(load(path, ELEMENTS[:-1], batch_size=BATCH))


if __name__ == "__main__":
    train_on_a_rank(*sys.argv[1:])
