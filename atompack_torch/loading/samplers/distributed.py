"""Samplers of single molecules, dealt to the ranks in turn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DistributedSampler

from atompack_torch.loading.samplers.elastic import (
    ElasticSampler,
    Place,
    SamplerOptions,
)
from atompack_torch.loading.samplers.sizes import n_molecules
from atompack_torch.options import with_options
from atompack_torch.random_order import Integers, RandomOrder, mix

if TYPE_CHECKING:
    from typing_extensions import Unpack


_CHUNK = 1 << 13  # indices per step


Order = Callable[[Integers], Integers]  # returns the molecules at any positions of an epoch


def stored_order(positions: Integers) -> Integers:
    """Returns the positions themselves: the order of the dataset."""
    return positions


class IndexShare:
    """Every n-th molecule of an order, for one of n ranks."""

    def __init__(self, order: Order, positions: range, start: int, n: int) -> None:
        self._order = order
        self._positions = positions  # of this rank, modulo n
        self._first = start
        self._n = n

    def chunks(self) -> Iterator[list[int]]:
        """Yields the molecules of this rank."""
        for first in range(0, len(self._positions), _CHUNK):
            part = self._positions[first : first + _CHUNK]
            positions = np.arange(part.start, part.stop, part.step, dtype=np.int64)
            yield self._order(positions % self._n).tolist()

    def place_after(self, n_items: int) -> Place:
        """Returns the place after a number of items of every rank."""
        return {"position": min(self._first + n_items * self._positions.step, self._n)}

    def end(self) -> Place:
        """Returns the place after the last molecule."""
        return {"position": self._n}


class IndexSampler(ElasticSampler[int], DistributedSampler[int]):  # type: ignore[misc, override]
    """Base of samplers of single molecules; subclasses define the order.

    Frameworks (Lightning, Ray) replace or wrap any sampler that is not a ``DistributedSampler`` of
    torch. This class derives from it only for that reason and shares none of its code.
    """

    n: int

    @abstractmethod
    def _order(self, key: int) -> Order:
        """Returns the order for a key."""

    def _start(self) -> Place:
        return {"position": 0}

    def _all_ranks(self, n_ranks: int) -> tuple[range, int]:
        return range(1), 1  # wrappers deal batches of these items

    def _share(self, seed: int, epoch: int, start: Place, ranks: range, n_ranks: int) -> IndexShare:
        first = start["position"]
        left = max(self.n - first, 0)
        if self.drop_last:
            left -= left % n_ranks
        elif self.pad:
            left += -left % n_ranks
        positions = range(first + ranks.start, first + left, n_ranks)
        return IndexShare(self._order(mix(seed, epoch)), positions, first, self.n)

    def __len__(self) -> int:
        """Number of molecules of this rank in a whole pass."""
        ranks, n_ranks = self._ranks_of_pass()
        if self.drop_last:
            return self.n // n_ranks
        return -(-(self.n if self.pad else self.n - ranks.start) // n_ranks)


class DistributedMoleculeSampler(IndexSampler):
    """Yields molecule numbers, with ranks taking turns in a single order.

    The order is computed, not stored: time and memory depend neither on the number of molecules
    nor on the place at which a pass is resumed. Without ``pad`` and ``drop_last``, every molecule
    occurs exactly once, and the first ranks may get one more; synchronous training requires one of
    the two options.
    """

    @with_options(ElasticSampler.__init__)
    def __init__(
        self,
        n: Any,
        **options: Unpack[SamplerOptions],
    ) -> None:
        """Checks the options.

        Args:
            n: a count, a dataset (which then enters each epoch, and by which states are
                recognized), or an array with one entry per molecule.
            **options: of all samplers.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an option is out of range, or ``pad`` and ``drop_last`` are combined.
        """
        super().__init__(n, **options)
        self.n = n_molecules(n)

    def _order(self, key: int) -> Order:
        return RandomOrder(key, self.n).at if self.shuffle else stored_order

    def _plan_settings(self) -> dict[str, object]:
        return {"molecules": self.n, "shuffle": self.shuffle}
