"""Epochs whose batches are all planned at its start, and the shares of the ranks."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from atompack_torch.loading.samplers._windows import Batches
from atompack_torch.loading.samplers.elastic import BatchSampler, Place
from atompack_torch.random_order import Integers, mix, permutation

_CHUNK = 1024  # batches at a time


class PlannedSampler(BatchSampler):
    """Base of samplers that plan all batches of an epoch at its start."""

    def _start(self) -> Place:
        return {"position": 0, "offset": 0}

    def _share(
        self, seed: int, epoch: int, start: Place, ranks: range, n_ranks: int
    ) -> PlannedShare:
        plan = self._plan(mix(seed, epoch))
        return PlannedShare(plan, start, ranks, n_ranks, self.drop_last)

    def _plan(self, key: int) -> Batches:
        """Returns the batches of an epoch, whose order is that of the key."""
        raise NotImplementedError

    def _ordered(self, molecules: Integers, lengths: Integers, key: int) -> Batches:
        """Puts batches in random order; without ``shuffle``, in that of their first molecules."""
        starts = np.cumsum(lengths) - lengths
        if self.shuffle:
            batches = permutation(key, len(lengths))
        else:
            batches = np.argsort(np.minimum.reduceat(molecules, starts), kind="stable")
        lengths = lengths[batches]
        ptr = np.concatenate([[0], np.cumsum(lengths)])
        within = np.arange(len(molecules)) - np.repeat(ptr[:-1], lengths)
        return Batches(molecules[np.repeat(starts[batches], lengths) + within], ptr)


class PlannedShare:
    """Batches of some ranks from a place in the epoch to its end.

    Each step takes the next batches, one for each rank. A place is a batch and the number of its
    molecules that have been used.
    """

    def __init__(
        self, plan: Batches, start: Place, ranks: range, n_ranks: int, drop_last: bool
    ) -> None:
        self._plan, self._start, self._ranks, self._n_ranks = plan, start, ranks, n_ranks
        n_batches = len(plan.ptr) - 1
        first, offset = start["position"], start["offset"]
        lengths = np.diff(plan.ptr)
        if first > n_batches or (offset and (first == n_batches or offset >= lengths[first])):
            raise ValueError(f"state: no molecule {offset} of batch {first}")
        self._bounds = [int(bound) for bound in plan.ptr[first:]]
        self._bounds[0] += offset
        n_left = n_batches - first
        self._n_whole = n_left // n_ranks
        self._pieces: list[int] = []  # bounds of the batches of the last steps
        if n_left % n_ranks and not drop_last:
            self._split_last_steps(n_left)

    def _split_last_steps(self, n_left: int) -> None:
        """Splits as few steps as possible; all but the first of them get single molecules.

        A pass that is resumed between them therefore finds the same batches.
        """
        end = self._bounds[-1]
        for n_split in range(1, self._n_whole + 2):
            first = (self._n_whole + 1 - n_split) * self._n_ranks
            if end - self._bounds[first] >= n_split * self._n_ranks:
                self._n_whole += 1 - n_split
                singles = end - (n_split - 1) * self._n_ranks
                bounds = [bound for bound in self._bounds[first:] if bound < singles]
                self._pieces = _split([*bounds, singles], self._n_ranks)
                self._pieces += range(singles + 1, end + 1)
                return
        raise ValueError(
            f"the last {end - self._bounds[0]} molecules, {n_left} batches, cannot be split evenly "
            f"among {self._n_ranks} ranks: use drop_last=True"
        )

    def chunks(self) -> Iterator[list[list[int]]]:
        """Yields the batches of these ranks, as lists of molecules."""
        yield from self._chunks_of(self._bounds, self._n_whole * self._n_ranks)
        yield from self._chunks_of(self._pieces, len(self._pieces) - 1)

    def _chunks_of(self, bounds: list[int], n_batches: int) -> Iterator[list[list[int]]]:
        is_all = len(self._ranks) == self._n_ranks
        step = 1 if is_all else self._n_ranks
        mine = range(0 if is_all else self._ranks.start, max(n_batches, 0), step)
        for first in range(0, len(mine), _CHUNK):
            part = mine[first : first + _CHUNK]
            yield [self._plan.molecules[bounds[i] : bounds[i + 1]].tolist() for i in part]

    def place_after(self, n_items: int) -> Place:
        """Returns the place after a number of batches of every rank."""
        n_steps = n_items // len(self._ranks)
        if n_steps == 0:
            return dict(self._start)
        if n_steps <= self._n_whole:
            return self._place(self._bounds[n_steps * self._n_ranks])
        number = min((n_steps - self._n_whole) * self._n_ranks, len(self._pieces) - 1)
        return self._place(self._pieces[number]) if self._pieces else self.end()

    def end(self) -> Place:
        """Returns the place after the last batch."""
        return {"position": len(self._plan.ptr) - 1, "offset": 0}

    def _place(self, molecule: int) -> Place:
        batch = int(np.searchsorted(self._plan.ptr, molecule, side="right")) - 1
        return {"position": batch, "offset": molecule - int(self._plan.ptr[batch])}


def _split(bounds: list[int], n_pieces: int) -> list[int]:
    """Halves the longest batches until there are ``n_pieces``; returns their bounds."""
    heap = [(first - last, first, last) for first, last in pairwise(bounds)]
    heapq.heapify(heap)
    while len(heap) < n_pieces:
        _, first, last = heapq.heappop(heap)
        middle = (first + last + 1) // 2
        heapq.heappush(heap, (first - middle, first, middle))
        heapq.heappush(heap, (middle - last, middle, last))
    return [*sorted(first for _, first, _ in heap), bounds[-1]]
