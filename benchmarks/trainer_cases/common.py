"""Structures, timing and rows that the benchmarks of all trainers share.

Each module next to this one runs in the environment of its trainer and prints its rows as lines of
JSON; ``benchmarks/trainers.py`` starts them and makes the table. Modules here are named like
packages, so this one, once imported, takes the folder off the path.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import ase
import numpy as np
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator

import atompack_torch as apt
from atompack_torch.cli._training import times_of_steps

sys.path.pop(0)

CUTOFF = 5.0  # Å
BATCH = 16
N_ATOMS = 32
ELEMENTS = (13, 29)


def structures(count: int, seed: int = 0) -> list[ase.Atoms]:
    """Distorted crystals of 32 atoms with energy, forces and stress: 40 to 80 neighbors an atom."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        atoms = bulk("Al", "fcc", 4.05, cubic=True) * (2, 2, 2)
        atoms.numbers[:] = rng.choice(ELEMENTS, len(atoms))
        atoms.rattle(0.1, rng=rng)
        atoms.calc = SinglePointCalculator(
            atoms,
            energy=float(rng.normal(-100, 1)),
            forces=rng.normal(0, 0.5, (len(atoms), 3)),
            stress=rng.normal(0, 0.01, 6),
        )
        made.append(atoms)
    return made


def write_atp(path: Path, made: Iterable[ase.Atoms]) -> Path:
    """Writes structures as ``.atp``; returns the path."""
    with apt.AtpWriter(path) as writer:
        for atoms in made:
            writer.write(apt.Molecule.from_ase(atoms))
    return path


def compare(
    trainer: str,
    stock: Mapping[str, Iterable[Any]],
    ours: Iterable[Any] | Mapping[str, Iterable[Any]],
    n_structures: int,
    rounds: int = 3,
) -> None:
    """Prints a row for each stock path and each of ours: the speed-up of an epoch.

    Args:
        trainer: its name.
        stock: name → batches of an epoch, in every pass.
        ours: the same batches from ours; or name → batches, if there are several.
        n_structures: of an epoch.
        rounds: epochs of each, in turns, after one that is not counted; their median counts.
    """
    several = ours if isinstance(ours, Mapping) else {"": ours}
    sides = {("stock", name): side for name, side in stock.items()}
    sides |= {("ours", name): side for name, side in several.items()}
    times: dict[tuple[str, str], list[float]] = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            for _ in side:
                pass
            times[name].append(time.perf_counter() - start)
    seconds = {name: statistics.median(each[1:]) for name, each in times.items()}
    for beside in stock:
        for name in several:
            row = {"trainer": trainer, "beside": f"{beside} (ours: {name})" if name else beside}
            row |= {"stock_s": seconds["stock", beside], "ours_s": seconds["ours", name]}
            row |= {"ratio": row["stock_s"] / row["ours_s"], "structures": n_structures}
            print(json.dumps(row), flush=True)


def waiting_share(
    batches: Iterable[Any], step: Callable[[Any], object], begins: bool = True
) -> float:
    """Share of the time of training steps that is spent waiting for the next batch.

    Args:
        batches: of one epoch.
        step: takes one of them.
        begins: count the first batch, which nothing is made ahead of.
    """
    times = times_of_steps(batches, step)[0 if begins else 1 :]
    waits = sum(waited for waited, _ in times)
    return waits / max(waits + sum(worked for _, worked in times), 1e-9)


def step_of(optimizer: Any, loss_of: Callable[[Any], Any]) -> Callable[[Any], None]:
    """Returns a training step, which takes a batch and lowers its loss."""

    def step(batch: Any) -> None:
        loss = loss_of(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def in_folder(measure: Callable[[Path], object]) -> None:
    """Measures with a folder, which is removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder))


def report_waiting(trainer: str, loader: str, share: float) -> None:
    """Prints the share of training steps that waits for data."""
    print(json.dumps({"trainer": trainer, "loader": loader, "waiting": share}), flush=True)
