"""Loaders of fairchem's ``AtomicData``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from fairchem.core.common import distutils, gp_utils
from fairchem.core.datasets.mt_concat_dataset import ConcatDataset

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.options import with_options
from atompack_torch.trainers._layout import Data, float_dtype, open_dataset
from atompack_torch.trainers._samplers import FirstBatches, SteppedLoader, stepped_loader
from atompack_torch.trainers.fairchem.concatenation import (
    concatenated,
    in_memory,
    labels_of_tasks,
    layout_of,
)
from atompack_torch.trainers.fairchem.config import neighbor_list
from atompack_torch.trainers.fairchem.layout import Part
from atompack_torch.trainers.fairchem.naming import Names, References, pairs_of


class Loader(SteppedLoader):
    """Loader for fairchem's trainer, instead of ``get_dataloader`` in its configuration.

        train_dataloader:
          _target_: atompack_torch.trainers.fairchem.Loader
          dataset: ${train_dataset}
          batch_sampler_fn:
            _target_: fairchem.core.common.data_parallel.BalancedBatchSampler
            _partial_: true
            batch_size: 32
            seed: 0
          collate_fn:
            _target_: fairchem.core.units.mlip_unit.mlip_unit.mt_collater_adapter
            tasks: ${tasks}

    Takes the arguments of ``get_dataloader``. The dataset is a ``ConcatDataset`` of fairchem whose
    parts have the format ``atompack_torch.trainers.fairchem.Dataset``; it keeps their shares and
    order. Its batches are made as a whole by native threads, and hold the same as those of
    fairchem's collater; there are no worker processes.

    Args:
        dataset: of fairchem.
        batch_sampler_fn: called with ``dataset``, ``num_replicas`` and ``rank``; returns the
            batch sampler, of this package or of fairchem.
        collate_fn: result of ``mt_collater_adapter``, of which only the tasks are used; None: no
            tasks, so that batches have the labels of their datasets.
        num_workers: ignored.
        references: as for ``loader``, for tasks without ``element_references``.
        resident: keep the molecules and their edges in memory, so that these are searched once
            instead of in every epoch; see ``ResidentDataset``.
        num_threads: as for ``atompack_torch.Loader``.
        prefetch: as for ``atompack_torch.Loader``.

    Raises:
        FieldError: a task has a label that no molecule of its dataset has.
        TypeError: an argument has the wrong type, or the datasets are of different formats.
        ValueError: options of the datasets differ, or a task finds no label.
        MemoryError: ``resident`` and there is not enough memory.
    """

    def __init__(
        self,
        dataset: ConcatDataset,
        batch_sampler_fn: Callable[..., Any],
        collate_fn: Any = None,
        num_workers: int = 0,
        *,
        references: References | None = None,
        resident: bool = False,
        num_threads: int | None = None,
        prefetch: int = 4,
    ) -> None:
        molecules, layout = concatenated(dataset, collate_fn, references, resident=resident)
        replicas, rank = _replicas()
        sampler = batch_sampler_fn(dataset=dataset, num_replicas=replicas, rank=rank)
        super().__init__(layout.dataset(molecules), sampler, num_threads, prefetch, dataset)


class StepSampler(FirstBatches):
    """Batch sampler of this package with the method that fairchem's trainer calls.

    Args:
        sampler: of this package.
    """

    def set_epoch_and_start_iteration(self, epoch: int, start_iter: int) -> None:
        """Selects an epoch, and the batch of it with which the next pass begins.

        Args:
            epoch: at least 0.
            start_iter: number of the batch, of this rank.
        """
        self._sampler.set_epoch(epoch)
        self.first = start_iter


class _Named:
    """Dataset with the names that fairchem's evaluation asks for."""

    def __init__(self, molecules: MoleculeDataset, dataset_names: list[str]) -> None:
        self.molecules, self.dataset_names = molecules, dataset_names

    def __len__(self) -> int:
        return len(self.molecules)


@with_options(stepped_loader)
def loader(
    data: Data,
    batch_size: int | None = None,
    *,
    task: str,
    split: str = "train",
    tasks: Sequence[Any] = (),
    labels: Names | None = None,
    references: References | None = None,
    cutoff: float | None = None,
    max_neighbors: int | None = None,
    vacuum: float = 0.0,
    flat_stress: bool = False,
    dtype: torch.dtype = torch.float32,
    key_map: Mapping[str, str] | None = None,
    resident: bool = False,
    **options: Any,
) -> SteppedLoader:
    """Returns a loader of one dataset for fairchem's trainer, or for a loop of one's own.

    Ranks get equal numbers of batches and every molecule once. The trainer selects the epoch with
    ``loader.batch_sampler.set_epoch_and_start_iteration(epoch, first_batch)``.

    Args:
        data: a dataset of molecules, or what ``atompack_torch.open`` takes.
        batch_size: molecules in a batch.
        task: name of the dataset to the model, such as ``"omol"``.
        split: second half of the name in metrics, as ``"omol.train"``.
        tasks: tasks of fairchem; their labels are infinite where the dataset lacks them.
        labels: energy, forces or stress → their name or names in fairchem.
        references: atomic number → energy in eV, subtracted for each atom in float64; for tasks
            without ``element_references``.
        cutoff: of the edges, in Å; None: no edges, because the model makes them.
        max_neighbors: maximum number of edges of an atom, the shortest ones; None: all.
        vacuum: Å around molecules without periodic direction, which are centered in boxes.
        flat_stress: make stresses (B, 9).
        dtype: of positions, cells and labels.
        key_map: as for ``atompack_torch.trainers.lightning.DataModule``.
        resident: keep the molecules and their edges in memory; see ``ResidentDataset``.
        **options: of batches, ranks and threads.

    Returns:
        The loader.

    Raises:
        FieldError: a task has a label that no molecule has.
        ValueError: not one of ``batch_size`` and ``max_atoms`` is given, or a task finds no label.
        TypeError: the data holds no molecules, or ``resident`` and it is a mixture, or in memory.
        MemoryError: ``resident`` and there is not enough memory.
    """
    molecules = open_dataset(data, key_map)
    edges = neighbor_list(cutoff, max_neighbors)
    if resident:
        molecules = in_memory(molecules, edges)
    name = f"{task}.{split}"
    part = Part(task, name, pairs_of(labels), vacuum)
    layout = layout_of(
        [part],
        [molecules],
        molecules,
        labels_of_tasks(tasks),
        edges=edges,
        dtype=float_dtype(dtype),
        flat_stress=flat_stress,
        references=references,
    )
    n_ranks, rank = _replicas()
    if options.get("num_replicas") is None:
        options["num_replicas"] = n_ranks
    if options.get("rank") is None:
        options["rank"] = rank
    named, made = _Named(molecules, [name]), layout.dataset(molecules)

    def make(sampler: Any, num_threads: int | None, prefetch: int) -> SteppedLoader:
        return SteppedLoader(made, StepSampler(sampler), num_threads, prefetch, named)

    return stepped_loader(make, molecules, batch_size, **options)


def _replicas() -> tuple[int, int]:
    """Returns the number of ranks with different data, and the number of this one."""
    if gp_utils.initialized():
        return gp_utils.get_dp_world_size(), gp_utils.get_dp_rank()
    return distutils.get_world_size(), distutils.get_rank()
