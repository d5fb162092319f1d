"""Loaders of trainers: every molecule once in an epoch, shared by all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.resident.dataset import ResidentDataset
from atompack_torch.loading.loader import Loader
from atompack_torch.trainers._labels import require_labels
from atompack_torch.trainers._layout import Layout
from atompack_torch.trainers._samplers import once_each


def epoch_loader(
    dataset: MoleculeDataset,
    layout: Layout,
    *,
    batch_size: int | None = None,
    max_atoms: float | None = None,
    batch_sampler: Iterable[Sequence[int]] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    resident: bool = False,
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
        resident: keep the molecules and their edges in memory; see ``ResidentDataset``.
        **options: of the ``Loader``.

    Returns:
        The loader. Without ``batch_sampler``, all ranks get as many batches, each molecule comes
        once, and a state of any rank resumes an epoch.

    Raises:
        FieldError: no molecule has a label that the layout wants; without ``shuffle``, a warning.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
        TypeError: ``resident`` and the data set is a mixture, or in memory already.
        MemoryError: ``resident`` and there is not enough memory.
    """
    if batch_sampler is None:
        batch_sampler = once_each(
            dataset, max_atoms=max_atoms, batch_size=batch_size, shuffle=shuffle, seed=seed
        )
    elif (max_atoms, batch_size) != (None, None):
        raise ValueError("batch_sampler: excludes max_atoms and batch_size")
    require_labels(dataset, layout.wanted, trains=shuffle)
    made = layout.dataset(dataset)
    if resident:
        made = ResidentDataset(made)
    return Loader(made, batch_sampler=batch_sampler, seed=seed, **options)
