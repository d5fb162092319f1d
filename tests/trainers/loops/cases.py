"""Loaders that are handed to every framework, and the dataset that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

import atompack_torch as apt

N = 401
BATCH = 8
MAX_ATOMS = 64


def write(path: Any) -> None:
    """A file of N molecules of 1 to 19 atoms."""
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path) as writer:
        for number in range(N):
            n = int(rng.integers(1, 20))
            positions = rng.uniform(0, 8, (n, 3)).astype(np.float32)
            writer.write(apt.Molecule(positions, rng.integers(1, 9, n), energy=float(number)))


def molecules(dataset: Any, **options: Any) -> Any:
    """A DataLoader with DistributedMoleculeSampler."""
    sampler = apt.DistributedMoleculeSampler(dataset, seed=3, pad=True)
    return DataLoader(dataset, BATCH, sampler=sampler, **options)


def blocks(dataset: Any, **options: Any) -> Any:
    """A DataLoader with BlockShuffleSampler."""
    sampler = apt.BlockShuffleSampler(dataset, block=16, window=4, seed=3, pad=True)
    return DataLoader(dataset, BATCH, sampler=sampler, **options)


def budget(dataset: Any, **options: Any) -> Any:
    """A DataLoader with AtomBudgetBatchSampler."""
    sampler = apt.AtomBudgetBatchSampler(dataset, MAX_ATOMS, seed=3)
    return DataLoader(dataset, batch_sampler=sampler, **options)


def plain(dataset: Any, **options: Any) -> Any:
    """A DataLoader with torch's own sampler."""
    return DataLoader(dataset, BATCH, shuffle=True, **options)


def loader_budget(dataset: Any) -> Any:
    """A Loader with AtomBudgetBatchSampler."""
    sampler = apt.AtomBudgetBatchSampler(dataset, MAX_ATOMS, seed=3)
    return apt.Loader(dataset, batch_sampler=sampler, num_threads=1)


def loader_molecules(dataset: Any) -> Any:
    """A Loader with DistributedMoleculeSampler."""
    sampler = apt.DistributedMoleculeSampler(dataset, seed=3, pad=True)
    return apt.Loader(dataset, BATCH, sampler=sampler, num_threads=1)


def loader_shuffle(dataset: Any) -> Any:
    """A Loader that shuffles by itself, which knows of no ranks."""
    return apt.Loader(dataset, BATCH, shuffle=True, num_threads=1)


LOADERS: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        molecules,
        blocks,
        budget,
        plain,
        loader_budget,
        loader_molecules,
        loader_shuffle,
    )
}
