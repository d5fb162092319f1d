"""Samplers of batches that every trainer can take, on any number of ranks, and epochs of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.resident.dataset import ResidentDataset
from atompack_torch.datasets.sweeping import runs
from atompack_torch.loading.checks import check_unknown_options
from atompack_torch.loading.loader import Loader
from atompack_torch.loading.samplers import AtomBudgetBatchSampler
from atompack_torch.loading.samplers.distributed import Order, stored_order
from atompack_torch.loading.samplers.elastic import BatchSampler, DropOptions, ElasticSampler, Place
from atompack_torch.options import checked_integer, with_options
from atompack_torch.random_order import RandomOrder, mix
from atompack_torch.trainers._labels import require_labels
from atompack_torch.trainers._layout import Layout

if TYPE_CHECKING:
    from typing_extensions import Unpack


Stepped = TypeVar("Stepped", bound="SteppedLoader")
_CHUNK = 1 << 13  # molecules per step of the plan
_ATOMS_AT_ONCE = 8192  # in batches of all molecules


def loading_options(options: dict[str, Any], layout: Callable[..., Layout]) -> dict[str, Any]:
    """Takes the options of ``epoch_loader`` out of those that a loader was given.

    Args:
        options: of the loader; those of its layout are left.
        layout: the function that makes it of these.

    Returns:
        The options of ``epoch_loader``.

    Raises:
        TypeError: an option belongs to neither.
    """
    own = inspect.signature(layout).parameters.values()
    known = {*_OPTIONS, *(one.name for one in own if one.kind is one.KEYWORD_ONLY)}
    check_unknown_options({name: options[name] for name in options.keys() - known}, sorted(known))
    return {name: options.pop(name) for name in options.keys() & _OPTIONS}


def epoch_loader(
    dataset: MoleculeDataset,
    layout: Layout,
    make_sampler: Callable[..., Iterable[Sequence[int]]] | None = None,
    *,
    batch_size: int | None = None,
    max_atoms: float | None = None,
    batch_sampler: Iterable[Sequence[int]] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    resident: bool = False,
    num_threads: int | None = None,
    prefetch: int = 4,
    pin_memory: bool = False,
    device: torch.device | str | int | None = None,
    **unknown: Any,
) -> Loader[Any]:
    """Makes a loader whose batches are those of a trainer.

    Args:
        dataset: molecules.
        layout: of the batches.
        make_sampler: makes the batch sampler of ``shuffle``, ``seed`` and ``drop_last``, instead
            of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
        batch_size: maximum number of molecules in a batch.
        max_atoms: maximum number of atoms in a batch, instead of ``batch_size``.
        batch_sampler: yields lists of molecule numbers, instead of both.
        shuffle: use a random order in every epoch; False for validation.
        seed: seed of these orders.
        drop_last: drop batches that cannot be divided among the ranks.
        resident: keep the molecules and their edges in memory, so that edges are searched once
            instead of in every epoch; see ``ResidentDataset``.
        num_threads: threads that make batches; see ``Loader``.
        prefetch: batches made ahead.
        pin_memory: make batches in page-locked memory.
        device: device of the batches; see ``Loader``.
        **unknown: any other option, which is an error.

    Returns:
        The loader. Without ``batch_sampler``, all ranks get as many batches, each molecule comes
        once, and a state of any rank resumes an epoch.

    Raises:
        FieldError: no molecule has a label that the layout wants; without ``shuffle``, a warning.
        ValueError: not exactly one of ``batch_size``, ``max_atoms`` and ``batch_sampler``.
        TypeError: an option is unknown; or ``resident`` and the dataset is a mixture, or in memory
            already.
        MemoryError: ``resident`` and there is not enough memory.
    """
    check_unknown_options(unknown, _OPTIONS)
    if make_sampler is not None:
        if (batch_sampler, max_atoms, batch_size) != (None, None, None):
            raise ValueError("max_atoms and batch_sampler: expected neither, as sizes are equal")
        batch_sampler = make_sampler(shuffle=shuffle, seed=seed, drop_last=drop_last)
    elif batch_sampler is None:
        batch_sampler = once_each(
            dataset,
            max_atoms=max_atoms,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
        )
    elif (max_atoms, batch_size) != (None, None):
        raise ValueError("batch_sampler: excludes max_atoms and batch_size")
    require_labels(dataset, layout.wanted, trains=shuffle)
    made = layout.dataset(dataset)
    if resident:
        made = ResidentDataset(made)
    return Loader(
        made,
        batch_sampler=batch_sampler,
        seed=seed,
        num_threads=num_threads,
        prefetch=prefetch,
        pin_memory=pin_memory,
        device=device,
    )


_OPTIONS = epoch_loader.__kwdefaults__ or {}


def once_each(
    dataset: MoleculeDataset,
    *,
    max_atoms: float | None = None,
    batch_size: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
) -> AtomBudgetBatchSampler | CountBatchSampler:
    """Returns a sampler with every molecule once an epoch and as many batches on each rank.

    Args:
        dataset: the dataset.
        max_atoms: maximum number of atoms in a batch.
        batch_size: maximum number of molecules in a batch, instead of ``max_atoms``.
        shuffle: use a random order in every epoch; otherwise the stored one.
        seed: seed of these orders.
        drop_last: drop batches that cannot be divided among the ranks.

    Returns:
        The sampler.

    Raises:
        ValueError: neither or both of ``max_atoms`` and ``batch_size`` are given.
    """
    check_budget(max_atoms, batch_size)
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "drop_last": drop_last}
    if batch_size is not None:
        return CountBatchSampler(dataset, batch_size, **options)
    assert max_atoms is not None
    return AtomBudgetBatchSampler(dataset, max_atoms, **options)


def all_batches(layout: Layout, dataset: MoleculeDataset) -> Iterator[Any]:
    """Yields batches of all molecules in their order, on every rank.

    Args:
        layout: of the batches.
        dataset: molecules.

    Yields:
        The batches.
    """
    batches = [*runs(dataset.n_atoms.numpy(), _ATOMS_AT_ONCE, max(len(dataset), 1))]
    yield from Loader(layout.dataset(dataset), batch_sampler=batches)


class SteppedLoader:
    """Base of loaders whose trainer sets the epoch, and the batch of it with which a pass begins.

    Args:
        dataset: a dataset whose batches are those of the trainer.
        batch_sampler: a batch sampler.
        num_threads: as for ``Loader``.
        prefetch: as for ``Loader``.
        shown: what the trainer finds as ``dataset``; None: the same.
    """

    def __init__(
        self,
        dataset: MoleculeDataset,
        batch_sampler: Any,
        num_threads: int | None = None,
        prefetch: int = 4,
        shown: Any = None,
    ) -> None:
        self.dataset, self.batch_sampler = dataset if shown is None else shown, batch_sampler
        self.batches = FirstBatches(batch_sampler)
        self._loader: Loader[Any] = Loader(
            dataset,
            batch_sampler=self.batches,
            num_threads=num_threads,
            prefetch=prefetch,
            pin_memory=torch.cuda.is_available(),
        )

    def __iter__(self) -> Iterator[Any]:
        """Starts a pass, from the epoch and batch that the trainer has set."""
        if (epoch := self.batches.epoch) is not None:
            self._loader.set_epoch(epoch)  # for what the dataset draws
        return iter(self._loader)

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return len(self.batch_sampler)


class FirstBatches:
    """Batches of a sampler, of which the next pass skips some; only the trainer sets its epochs.

    Args:
        sampler: the batch sampler.
    """

    def __init__(self, sampler: Any) -> None:
        self._sampler, self.first = sampler, 0

    def __iter__(self) -> Iterator[Sequence[int]]:
        first, self.first = self.first, 0
        return islice(iter(self._sampler), first, None)

    def __len__(self) -> int:
        """Number of batches in an epoch, of this rank."""
        return len(self._sampler)

    @property
    def epoch(self) -> int | None:
        """Number of the epoch that the trainer has set; None if the sampler does not know it."""
        of_items = getattr(self._sampler, "sampler", None)
        epoch: int | None = getattr(self._sampler, "epoch", getattr(of_items, "epoch", None))
        return epoch


def stepped_loader(
    make: Callable[[AtomBudgetBatchSampler, int | None, int], Stepped],
    molecules: MoleculeDataset,
    batch_size: int | None = None,
    *,
    max_atoms: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    drop_last: bool = False,
    num_replicas: int | None = None,
    rank: int | None = None,
    num_threads: int | None = None,
    prefetch: int = 4,
) -> Stepped:
    """Makes a loader whose trainer sets the epoch, of batches of nearly equal cost.

    Args:
        make: makes the loader of a batch sampler, and ``num_threads`` and ``prefetch``.
        molecules: the dataset.
        batch_size: maximum number of molecules in a batch.
        max_atoms: maximum number of atoms in a batch, instead of ``batch_size``.
        shuffle: use a new random order in every epoch.
        seed: seed of these orders.
        drop_last: drop what would make ranks unequal.
        num_replicas: number of ranks; None: that of the trainer.
        rank: of this process; None: that of the trainer.
        num_threads: as for ``atompack_torch.Loader``.
        prefetch: as for ``atompack_torch.Loader``.

    Returns:
        The loader. Ranks get equal numbers of batches and every molecule once.

    Raises:
        ValueError: not one of ``batch_size`` and ``max_atoms`` is given.
    """
    check_budget(max_atoms, batch_size)
    sampler = AtomBudgetBatchSampler(
        molecules,
        max_atoms or batch_size or 1,
        costs=None if max_atoms else np.ones(len(molecules)),
        shuffle=shuffle,
        seed=seed,
        drop_last=drop_last,
        num_replicas=num_replicas,
        rank=rank,
    )
    return make(sampler, num_threads, prefetch)


class CountBatchSampler(BatchSampler):
    """Yields batches, as lists of molecule numbers, with a limited number of molecules.

    The order of the molecules does not depend on the size of the batches, and a place in the epoch
    counts molecules: a different size resumes exactly. Without ``drop_last``, the last molecules
    are divided evenly among the ranks.
    """

    _repr_options = ("most",)

    @with_options(ElasticSampler.__init__, skip=("pad",))
    def __init__(self, dataset: MoleculeDataset, most: int, **options: Unpack[DropOptions]) -> None:
        """Checks the options.

        Args:
            dataset: the dataset.
            most: maximum number of molecules in a batch.
            **options: of all samplers.

        Raises:
            TypeError: an option is not an integer.
            ValueError: the number of molecules in a batch is below 1. While iterating: there are
                too few molecules for a last batch on every rank.
        """
        super().__init__(dataset, pad=False, **options)
        self.most = checked_integer("batch_size", most, 1)
        self.n = len(dataset)

    def _start(self) -> Place:
        return {"position": 0}

    def _share(self, seed: int, epoch: int, start: Place, ranks: range, n_ranks: int) -> CountShare:
        order = RandomOrder(mix(seed, epoch), self.n).at if self.shuffle else stored_order
        return CountShare(self, order, start["position"], ranks, n_ranks)

    def n_steps(self, n_left: int, n_ranks: int) -> int:
        """Returns the number of steps, in each of which every rank has a batch.

        Args:
            n_left: number of molecules that are left.
            n_ranks: number of ranks.

        Returns:
            The number.

        Raises:
            ValueError: the last step has fewer molecules than ranks, and those before it none to
                spare.
        """
        n_batches = -(-n_left // self.most)
        if self.drop_last:
            return n_batches // n_ranks
        n_steps = -(-n_batches // n_ranks)
        if n_left < n_steps * n_ranks:
            raise ValueError(
                f"the last {n_left} molecules cannot be divided into {n_steps} batches on each of "
                f"{n_ranks} ranks: use drop_last=True"
            )
        return n_steps

    def __len__(self) -> int:
        """Number of batches of this rank in a whole pass."""
        ranks, n_ranks = self._ranks_of_pass()
        return self.n_steps(self.n, n_ranks) * len(ranks)

    def _plan_settings(self) -> dict[str, object]:
        return {"molecules": self.n, "shuffle": self.shuffle}


class CountShare:
    """Batches of some ranks, cut from an order of molecules."""

    def __init__(
        self, sampler: CountBatchSampler, order: Order, first: int, ranks: range, n_ranks: int
    ) -> None:
        self._order, self._first, self._ranks, self._n_ranks = order, first, ranks, n_ranks
        self._n, self._step = sampler.n, sampler.most * n_ranks
        self._n_steps = sampler.n_steps(max(sampler.n - first, 0), n_ranks)
        self._least = 0 if sampler.drop_last else n_ranks  # molecules of the last steps

    def chunks(self) -> Iterator[list[list[int]]]:
        """Yields the batches of these ranks, as lists of molecules."""
        n_at_once = max(_CHUNK // self._step, 1)
        for first in range(0, self._n_steps, n_at_once):
            last = min(first + n_at_once, self._n_steps)
            bounds = [self._bound(step) for step in range(first, last + 1)]
            molecules = self._order(np.arange(bounds[0], bounds[-1]))
            yield [
                molecules[begin - bounds[0] : end - bounds[0]].tolist()
                for step in pairwise(bounds)
                for begin, end in self._parts(*step)
            ]

    def _parts(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields where the batches of these ranks begin and end in a step."""
        n = end - first
        for rank in self._ranks:
            yield first + n * rank // self._n_ranks, first + n * (rank + 1) // self._n_ranks

    def _bound(self, step: int) -> int:
        """Returns the position at which a step begins."""
        n_later = self._n_steps - step
        return min(self._first + step * self._step, self._n - n_later * self._least)

    def place_after(self, n_items: int) -> Place:
        """Returns the place after a number of batches of every rank; repeats partial steps."""
        return {"position": self._bound(min(n_items // len(self._ranks), self._n_steps))}

    def end(self) -> Place:
        """Returns the place after the last molecule."""
        return {"position": self._n}


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
