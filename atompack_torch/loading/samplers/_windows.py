"""Batches of an epoch, planned in windows that are independent of each other."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atompack_torch.loading.samplers._dealing import Costs, deal_within, fill_in_order
from atompack_torch.random_order import Integers, RandomOrder, mix, permutation

_WINDOW = 1 << 17  # molecules whose batches are planned together
_LARGEST_WINDOW = 1 << 20  # for batches of many molecules
_BATCHES = 64  # minimum in a window, so that an underfull last one matters little


@dataclass(frozen=True)
class Batches:
    """Molecules of several batches; those of batch i are at ptr[i] to ptr[i + 1]."""

    molecules: Integers
    ptr: Integers

    def __len__(self) -> int:
        return len(self.ptr) - 1

    @property
    def spare(self) -> int:
        """Number of further batches that these molecules could be split into."""
        return len(self.molecules) - len(self)

    def lists(self, numbers: range) -> list[list[int]]:
        """Returns the molecules of some of the batches."""
        ptr = self.ptr.tolist()
        return [self.molecules[ptr[i] : ptr[i + 1]].tolist() for i in numbers]

    def drop_first(self, n_batches: int, n_molecules: int = 0) -> Batches:
        """Skips the first batches, and the first molecules of the next one."""
        first = int(self.ptr[n_batches]) + n_molecules
        ptr = np.maximum(self.ptr[n_batches:] - first, 0)
        return Batches(self.molecules[first:], ptr)


def concatenate(parts: list[Batches]) -> Batches:
    """Concatenates batches in order."""
    ptrs, n_molecules = [np.zeros(1, np.int64)], 0
    for part in parts:
        ptrs.append(part.ptr[1:] + n_molecules)
        n_molecules += len(part.molecules)
    molecules = [np.zeros(0, np.int64), *(part.molecules for part in parts)]
    return Batches(np.concatenate(molecules), np.concatenate(ptrs))


@dataclass(frozen=True)
class Limits:
    """Limits of a batch: cost and number of molecules."""

    budget: float
    most: int  # molecules


class Windows:
    """Division of the molecules of a dataset into windows, the same in every epoch."""

    def __init__(self, costs: NDArray[Any], limits: Limits, shuffle: bool) -> None:
        self.costs = costs
        self.limits = limits
        self.shuffle = shuffle
        n = len(costs)
        total = float(costs.sum(dtype=np.float64))
        wanted = _BATCHES * limits.budget * n / total if total else 0.0
        self.n = -(-n // int(min(max(wanted, _WINDOW), _LARGEST_WINDOW)))

    @property
    def common_cost(self) -> float | None:
        """The cost of every molecule if all cost the same whole number, else None."""
        if not len(self.costs) or self.costs[0] != self.costs[-1] or self.costs[0] % 1:
            return None
        return float(self.costs[0]) if self.costs.min() == self.costs.max() else None

    def costs_of(self, molecules: Integers) -> Costs:
        """Returns the costs of molecules as float64."""
        return self.costs[molecules].astype(np.float64, copy=False)


class Plan:
    """Batches of one epoch."""

    def __init__(self, windows: Windows, key: int) -> None:
        self.windows = windows
        self._key = key
        self._order = RandomOrder(key, len(windows.costs)) if windows.shuffle else None

    def batches(self, window: int) -> Batches:
        """Returns the batches of one window."""
        molecules = self._molecules(window)
        if self._order is None:
            return Batches(molecules, self._in_order(molecules))
        dealt, n_batches = self._deal_window(molecules)
        # Batches in random order; the molecules of each in the order of the epoch.
        places = permutation(mix(self._key, 1 + window), n_batches)[dealt]
        by_batch = places * len(molecules) + np.arange(len(molecules))
        by_batch.sort()
        ptr = np.zeros(n_batches + 1, np.int64)
        np.cumsum(np.bincount(places, minlength=n_batches), out=ptr[1:])
        return Batches(molecules[by_batch % len(molecules)], ptr)

    def n_batches(self) -> int:
        """Returns the number of batches of the whole epoch, which requires planning all of it."""
        if (cost := self.windows.common_cost) is not None:
            return sum(self._n_alike(window, cost) for window in range(self.windows.n))
        with ThreadPoolExecutor(os.cpu_count()) as threads:  # sorting holds no GIL
            return sum(threads.map(self._count, range(self.windows.n)))

    def _n_alike(self, window: int, cost: float) -> int:
        first, last = self._bounds(window)
        fitting = self.windows.limits.budget // cost if cost else math.inf
        return -(-(last - first) // int(max(min(fitting, self.windows.limits.most), 1)))

    def _count(self, window: int) -> int:
        molecules = self._molecules(window)
        if self._order is None:
            return len(self._in_order(molecules)) - 1
        return self._deal_window(molecules)[1]

    def _bounds(self, window: int) -> tuple[int, int]:
        n, n_windows = len(self.windows.costs), self.windows.n
        return n * window // n_windows, n * (window + 1) // n_windows

    def _molecules(self, window: int) -> Integers:
        first, last = self._bounds(window)
        return np.arange(first, last) if self._order is None else self._order.between(first, last)

    def _in_order(self, molecules: Integers) -> Integers:
        limits = self.windows.limits
        return fill_in_order(self.windows.costs_of(molecules), limits.budget, limits.most)

    def _deal_window(self, molecules: Integers) -> tuple[Integers, int]:
        """Assigns molecules to batches; those over the budget get batches of their own."""
        costs, limits = self.windows.costs_of(molecules), self.windows.limits
        above = costs > limits.budget
        n_above = int(np.count_nonzero(above))
        batches, n_batches = np.empty(len(costs), np.int64), 0
        if n_above < len(costs):
            fitting = ~above
            batches[fitting], n_batches = deal_within(costs[fitting], limits.budget, limits.most)
        batches[above] = n_batches + np.arange(n_above)
        return batches, n_batches + n_above
