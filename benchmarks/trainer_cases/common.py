"""Structures, timing and rows that the benchmarks of all trainers share.

Each module next to this one runs in the environment of its trainer and prints its rows as lines of
JSON; ``benchmarks/trainers.py`` starts them and makes the table.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import ase
import numpy as np
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator

from atompack_torch.cli._training import times_of_steps

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


def seconds_of_epochs(
    sides: Mapping[str, Callable[[], Iterable[Any]]], rounds: int = 3
) -> dict[str, float]:
    """Median seconds in which each side makes the batches of an epoch; the sides take turns.

    Args:
        sides: name → function that returns the batches of an epoch, each side the same ones.
        rounds: epochs of each side, after one that is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            start = time.perf_counter()
            for _ in side():
                pass
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


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


def report(trainer: str, beside: str, seconds: float, ours: float, n_structures: int) -> None:
    """Prints one row: the speed-up of an epoch of ours over one of the stock path."""
    row = {"trainer": trainer, "beside": beside, "stock_s": seconds, "ours_s": ours}
    print(json.dumps(row | {"ratio": seconds / ours, "structures": n_structures}), flush=True)


def report_waiting(trainer: str, loader: str, share: float) -> None:
    """Prints the share of training steps that waits for data."""
    print(json.dumps({"trainer": trainer, "loader": loader, "waiting": share}), flush=True)
