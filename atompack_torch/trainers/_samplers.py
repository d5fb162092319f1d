"""Sampler of batches that every trainer can take, on any number of ranks."""

from __future__ import annotations

import numpy as np

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.loading.samplers import AtomBudgetBatchSampler


def once_each(
    dataset: MoleculeDataset,
    *,
    max_atoms: float | None = None,
    batch_size: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
) -> AtomBudgetBatchSampler:
    """Returns a sampler with every molecule once an epoch and as many batches on each rank.

    Args:
        dataset: the data set.
        max_atoms: maximum number of atoms in a batch.
        batch_size: maximum number of molecules in a batch, in place of ``max_atoms``.
        shuffle: use a random order in every epoch; otherwise the stored one.
        seed: seed of these orders.
        drop_last: leave out batches that cannot be divided among the ranks.

    Returns:
        The sampler.

    Raises:
        ValueError: neither or both of ``max_atoms`` and ``batch_size`` are given.
    """
    check_budget(max_atoms, batch_size)
    n: MoleculeDataset | int = dataset
    costs = None
    if batch_size is not None:
        n, max_atoms, costs = len(dataset), batch_size, np.ones(len(dataset))
    assert max_atoms is not None
    return AtomBudgetBatchSampler(
        n, max_atoms, costs=costs, shuffle=shuffle, seed=seed, drop_last=drop_last
    )


def check_budget(max_atoms: float | None, batch_size: int | None) -> None:
    """Raises unless a batch has exactly one limit.

    Args:
        max_atoms: number of atoms or None.
        batch_size: number of molecules or None.

    Raises:
        ValueError: neither or both are given.
    """
    if (max_atoms is None) == (batch_size is None):
        raise ValueError(
            f"max_atoms and batch_size: expected one of them, got {max_atoms!r} and {batch_size!r}"
        )
