"""Single molecules, dealt to the ranks in turn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from torch.utils.data import DistributedSampler

from atompack_torch.loading.samplers._elastic import ElasticSampler, Place
from atompack_torch.loading.samplers._random import Integers, RandomOrder, mix
from atompack_torch.loading.samplers._sizes import n_molecules

_CHUNK = 1 << 13  # indices that are made at a time


class Order(Protocol):
    """An order of molecules, of which any part can be asked for."""

    def at(self, positions: Integers) -> Integers:
        """The molecules at these positions."""


class StoredOrder:
    """The order in which molecules lie in the data set."""

    def at(self, positions: Integers) -> Integers:
        """The positions themselves."""
        return positions


class IndexShare:
    """Every so-manieth molecule of an order."""

    def __init__(self, order: Order, positions: range, start: int, n: int) -> None:
        self._order = order
        self._positions = positions  # of this rank; beyond n they begin again
        self._first = start
        self._n = n

    def chunks(self) -> Iterator[list[int]]:
        """The molecules of this rank."""
        for first in range(0, len(self._positions), _CHUNK):
            part = self._positions[first : first + _CHUNK]
            positions = np.arange(part.start, part.stop, part.step, dtype=np.int64)
            yield self._order.at(positions % self._n).tolist()

    def place_after(self, n_items: int) -> Place:
        """All ranks have used as many."""
        return {"position": min(self._first + n_items * self._positions.step, self._n)}

    def end(self) -> Place:
        """Behind the last molecule."""
        return {"position": self._n}


class IndexSampler(ElasticSampler[int], DistributedSampler[int]):  # type: ignore[misc, override]
    """A sampler of single molecules; subclasses say in which order.

    Frameworks (Lightning, Ray) replace or wrap any sampler that is no ``DistributedSampler`` of
    torch, so it is one by class; the attributes and methods are all its own.
    """

    n: int

    @abstractmethod
    def _order(self, key: int) -> Order:
        """The order that belongs to a key."""

    def _start(self) -> Place:
        return {"position": 0}

    def _all_ranks(self, n_ranks: int) -> tuple[range, int]:
        return range(1), 1  # wrappers deal batches that are made of these items

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
        """How many molecules this rank gets in a whole pass."""
        ranks, n_ranks = self._ranks_of_pass()
        if self.drop_last:
            return self.n // n_ranks
        return -(-(self.n if self.pad else self.n - ranks.start) // n_ranks)


class DistributedMoleculeSampler(IndexSampler):
    """Yields the numbers of molecules; ranks take turns in one order.

    That order is computed, not stored: neither the number of molecules nor the place at which a
    pass is resumed costs time or memory.

    Args:
        n: a count, a data set, or an array with one entry a molecule.
        shuffle: draw an order for every epoch; else the stored one.
        seed: of these orders.
        drop_last: leave out the molecules that do not divide among the ranks.
        num_replicas: how many ranks; None: asks torch.distributed when a pass begins, 1 without it.
        rank: of this process; None likewise.
        pad: repeat molecules from the start of the epoch so that every rank gets as many. Without
            this and ``drop_last`` every molecule comes exactly once, and the first ranks may get
            one more than the others: training in step with other ranks wants one of the two.
    """

    def __init__(
        self,
        n: Any,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        num_replicas: int | None = None,
        rank: int | None = None,
        pad: bool = False,
    ) -> None:
        super().__init__(
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            num_replicas=num_replicas,
            rank=rank,
            pad=pad,
        )
        self.n = n_molecules(n)

    def _order(self, key: int) -> Order:
        return RandomOrder(key, self.n) if self.shuffle else StoredOrder()

    def _plan_settings(self) -> dict[str, Any]:
        return {"sampler": type(self).__name__, "molecules": self.n, "shuffle": self.shuffle}
