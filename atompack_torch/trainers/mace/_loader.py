"""Datasets and loaders that MACE's command trains from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from mace.data import AtomicData
from mace.tools.torch_geometric import Batch
from mace.tools.torch_geometric.dataloader import DataLoader
from torch.utils.data import BatchSampler, ConcatDataset, Dataset, RandomSampler, SequentialSampler

from atompack_torch.loading.loader import Loader
from atompack_torch.trainers.mace._layout import LABELS
from atompack_torch.trainers.mace._structures import Row, Structures

# Values of a single graph without a dimension for molecules.
_SCALARS = frozenset(
    (
        *("weight", "head", "volume"),
        *(name for name, label in LABELS.items() if not label.per_atom and not label.shape),
        *(f"{name}_weight" for name, label in LABELS.items() if label.weight_shape == ()),
    )
)


class GraphDataset(Dataset[Any]):
    """Molecules as graphs of MACE, for a model.

    Args:
        structures: the molecules.
        numbers: atomic numbers of the model.
        cutoff: of the model, in Å.
        heads: names of all heads.
    """

    def __init__(
        self, structures: Structures, numbers: Sequence[int], cutoff: float, heads: Sequence[str]
    ) -> None:
        self.structures = structures
        self.parts: list[Any] = [  # datasets whose batches are those of MACE
            part.layout(numbers, cutoff, heads).dataset(part.dataset) for part in structures.parts
        ]

    def __len__(self) -> int:
        return len(self.structures)

    def __getitem__(self, place: int) -> AtomicData:
        """Returns one graph, for data loaders that mix these with graphs of other files."""
        structures = self.structures
        part = self.parts[int(structures.part_numbers[place])]
        batch = part.batch([int(structures.numbers[place])])
        values = {
            name: batch[name][0] if name in _SCALARS else batch[name]
            for name in set(batch.keys) - {"batch", "ptr", "index"}
        }
        return AtomicData(**values)


class Graph:
    """A molecule that MACE has asked to make a graph of; the loader makes all of a batch together.

    Args:
        row: the molecule.
        numbers: atomic numbers of the model.
        cutoff: of the model, in Å.
        heads: names of all heads.
    """

    def __init__(
        self, row: Row, numbers: Sequence[int], cutoff: float, heads: Sequence[str]
    ) -> None:
        self.row = row
        self.model = (tuple(numbers), float(cutoff), tuple(heads))


def graphs_of(dataset: Any) -> list[GraphDataset] | None:
    """Returns the datasets of this package that a dataset consists of.

    Args:
        dataset: argument of a data loader of MACE.

    Returns:
        The datasets in order; None if there are others among them.
    """
    if isinstance(dataset, GraphDataset):
        return [dataset]
    if isinstance(dataset, ConcatDataset):
        found = [graphs_of(part) for part in dataset.datasets]
        if any(part is None for part in found):
            return None
        return [one for part in found for one in part or ()]
    if isinstance(dataset, list) and dataset and all(isinstance(one, Graph) for one in dataset):
        first: Graph = dataset[0]
        places = np.array([one.row.place for one in dataset])
        return [GraphDataset(first.row.structures.take(places), *first.model)]
    return None


def make_loader(dataset: Any, **options: Any) -> GraphLoader | DataLoader:
    """Makes a loader instead of MACE's ``DataLoader``, with the same arguments.

    Args:
        dataset: a dataset.
        **options: of the data loader.

    Returns:
        A loader of this package, or MACE's own if other data are among these.
    """
    graphs = graphs_of(dataset)
    return DataLoader(dataset, **options) if graphs is None else GraphLoader(graphs, **options)


class GraphLoader:
    """Batches of MACE made ahead on native threads, in the order of MACE's own data loader.

    Args:
        datasets: datasets, numbered as if they were one.
        batch_size: molecules in a batch.
        shuffle: use a random order in each pass.
        sampler: yields indices of molecules.
        drop_last: drop the last batch if it is not full.
        pin_memory: make batches in page-locked memory.
        generator: of random orders.
        num_workers: ignored: threads make the batches.
    """

    def __init__(
        self,
        datasets: Sequence[GraphDataset],
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        drop_last: bool = False,
        pin_memory: bool = False,
        generator: torch.Generator | None = None,
        num_workers: int = 0,
    ) -> None:
        self.dataset: Any = ConcatDataset(datasets)
        self._generator = generator
        if sampler is None and shuffle:
            sampler = RandomSampler(self.dataset, generator=generator)
        sampler = SequentialSampler(self.dataset) if sampler is None else sampler
        self.batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_size, self._pin_memory = sampler, batch_size, pin_memory
        self._parts = [part for graphs in datasets for part in graphs.parts]
        first_parts = np.cumsum([0, *(len(graphs.parts) for graphs in datasets)])
        where = [graphs.structures for graphs in datasets]
        self._part_of = np.concatenate(
            [one.part_numbers + first for one, first in zip(where, first_parts, strict=False)]
        )
        self._number_of = np.concatenate([one.numbers for one in where])

    def __len__(self) -> int:
        """Number of batches of a pass."""
        return len(self.batch_sampler)

    def __iter__(self) -> Iterator[Batch]:
        if self._generator is not None:
            # torch's DataLoader draws a seed for its workers first: so that both orders are equal.
            torch.empty((), dtype=torch.int64).random_(generator=self._generator)
        used = np.unique(self._part_of).tolist()
        if len(used) == 1:
            return iter(self._loader(used[0], iter(self.batch_sampler)))
        return self._joined(used)

    def _loader(self, part: int, batches: Iterator[list[int]]) -> Loader[Any]:
        """Returns a loader of the molecules of a file in the batches that have some."""
        places = map(np.asarray, batches)
        shares = (self._number_of[one[self._part_of[one] == part]] for one in places)
        numbers = (share for share in shares if len(share))
        return Loader(
            self._parts[part], batch_sampler=_Stream(numbers), pin_memory=self._pin_memory
        )

    def _joined(self, used: Sequence[int]) -> Iterator[Batch]:
        """Yields batches of molecules from several files: those of each file are made together."""
        batches, *copies = itertools.tee(self.batch_sampler, len(used) + 1)
        loaders = zip(used, copies, strict=True)
        passes = {part: iter(self._loader(part, copy)) for part, copy in loaders}
        for batch in batches:
            yield join([next(passes[part]) for part in np.unique(self._part_of[batch]).tolist()])


class _Stream:
    """Batch sampler for one pass."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return self._batches


def join(batches: Sequence[Any]) -> Batch:
    """Joins batches.

    Args:
        batches: batches of MACE with the same values.

    Returns:
        One batch with all molecules.
    """
    if len(batches) == 1:
        return batches[0]
    firsts = list(itertools.accumulate((len(batch.positions) for batch in batches), initial=0))
    rows = list(itertools.accumulate((len(batch.ptr) - 1 for batch in batches), initial=0))
    values = {}
    for name in set(batches[0].keys) - {"batch", "ptr", "num_nodes"}:
        parts = [batch[name] for batch in batches]
        if name == "edge_index":
            parts = [part + first for part, first in zip(parts, firsts, strict=False)]
        values[name] = torch.cat(parts, dim=1 if name == "edge_index" else 0)
    numbers = [batch.batch + first for batch, first in zip(batches, rows, strict=False)]
    ptrs = [batch.ptr[:-1] + first for batch, first in zip(batches, firsts, strict=False)]
    end = batches[-1].ptr[-1:] + firsts[-2]
    return Batch(
        batch=torch.cat(numbers), ptr=torch.cat([*ptrs, end]), num_nodes=firsts[-1], **values
    )
