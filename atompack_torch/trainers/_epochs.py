"""Loaders of trainers: every molecule once in an epoch, shared by all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from atompack_torch.datasets._base import MoleculeDataset
from atompack_torch.loading.loader import Loader
from atompack_torch.loading.samplers import AtomBudgetBatchSampler
from atompack_torch.trainers._layout import Layout


def epoch_loader(
    dataset: MoleculeDataset,
    layout: Layout,
    *,
    batch_size: int | None = None,
    max_atoms: float | None = None,
    batch_sampler: Iterable[Sequence[int]] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    **options: Any,
) -> Loader[Any]:
    """Makes a loader whose batches are those of a trainer.

    Args:
        dataset: molecules.
        layout: of the batches.
        batch_size: maximum number of molecules in a batch.
        max_atoms: maximum number of atoms in a batch.
        batch_sampler: yields lists of molecule numbers.
        shuffle: use a random order in every epoch.
        seed: of these orders.
        **options: of the ``Loader``.

    Returns:
        The loader. Without ``batch_sampler``, all ranks get as many batches, each molecule comes
        once, and a state of any rank resumes an epoch.

    Raises:
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
    """
    given = {"batch_size": batch_size, "max_atoms": max_atoms, "batch_sampler": batch_sampler}
    if len(chosen := [name for name, value in given.items() if value is not None]) != 1:
        raise ValueError(
            "expected one of batch_size, max_atoms and batch_sampler, got "
            f"{' and '.join(chosen) or 'none'}"
        )
    order: dict[str, Any] = {"shuffle": shuffle, "seed": seed}
    if max_atoms is not None:
        batch_sampler = AtomBudgetBatchSampler(dataset, max_atoms, **order)
    elif batch_size is not None:
        ones = np.ones(len(dataset))
        batch_sampler = AtomBudgetBatchSampler(len(dataset), batch_size, costs=ones, **order)
    return Loader(layout.dataset(dataset), batch_sampler=batch_sampler, seed=seed, **options)
