"""Sampler of batches with a limited number of atoms."""

from __future__ import annotations

import heapq
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from atompack_torch.loading.samplers._dealing import deal
from atompack_torch.loading.samplers._windows import Batches, Limits, Plan, Windows, concatenate
from atompack_torch.loading.samplers.elastic import (
    BatchSampler,
    ElasticSampler,
    Place,
    SamplerOptions,
)
from atompack_torch.loading.samplers.sizes import (
    atoms_of_each,
    n_molecules,
    no_other_molecules,
    numbers,
)
from atompack_torch.options import check_choice, checked_integer, checked_number, with_options
from atompack_torch.random_order import Integers, mix

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AtomBudgetBatchSampler(BatchSampler):
    """Yields batches, as lists of molecule numbers, that nearly use a budget of atoms.

        sampler = AtomBudgetBatchSampler(dataset, max_atoms=4096)
        loader = DataLoader(dataset, batch_sampler=sampler)

    All ranks get the same number of batches, and the batches of a step cost nearly the same. A
    shuffled epoch is planned in windows of about 100,000 molecules in random order; within a
    window, batches have nearly equal costs, so that all are well filled. In the stored order
    (``shuffle=False``), each batch takes the next molecules as long as they fit.

    Without ``drop_last`` and ``pad``, the last batches are split until there is one for each rank;
    no molecule occurs twice.

    Windows are independent and take about 20 ms each, so an epoch starts or resumes immediately,
    however large the dataset is. ``len`` has to plan a whole epoch (one second for ten million
    molecules) and keeps the result for that epoch.
    """

    _repr_options = ("max_atoms", "max_molecules")

    @with_options(ElasticSampler.__init__)
    def __init__(
        self,
        n_atoms: Any,
        max_atoms: float,
        *,
        max_molecules: int | None = None,
        costs: Any = None,
        oversized: Literal["alone", "error"] = "alone",
        **options: Unpack[SamplerOptions],
    ) -> None:
        """Checks the options.

        Args:
            n_atoms: atoms of each molecule, or a dataset that knows them (``n_atoms``); a count of
                molecules if ``costs`` are given.
            max_atoms: budget of a batch, in atoms or in the unit of ``costs``.
            max_molecules: maximum number of molecules in a batch.
            costs: cost of each molecule, used instead of its atoms: its number of edges, for
                example.
            oversized: treatment of molecules over the budget: ``"alone"`` puts each in a batch of
                its own, with one warning for all, ``"error"`` raises an error.
            **options: of all samplers.

        Raises:
            TypeError: the source has no numbers of atoms, or an option has the wrong type.
            ValueError: an option is invalid, costs are negative or of a different number of
                molecules, or a molecule is over the budget and ``oversized="error"``. While
                iterating: there are too few molecules to split the last batches for all ranks.
        """
        super().__init__(n_atoms, **options)
        budget = checked_number("max_atoms", max_atoms)
        if not budget:
            raise ValueError(f"max_atoms: expected a positive number, got {max_atoms}")
        if max_molecules is not None:
            max_molecules = checked_integer("max_molecules", max_molecules, 1)
        check_choice("oversized", oversized, ("alone", "error"))
        self.max_atoms = int(budget) if budget.is_integer() else budget  # not of NumPy: for states
        self.max_molecules = max_molecules
        self._has_costs = costs is not None
        self._oversized = oversized
        of_each = _costs(n_atoms, costs)
        self._report_oversized(of_each)
        self._plan_costs(of_each)

    def _plan_costs(self, costs: np.ndarray[Any, Any]) -> None:
        self._of_each, self._digest = costs, None
        self._plan_windows(costs)

    def _plan_windows(self, costs: np.ndarray[Any, Any]) -> None:
        most = len(costs) if self.max_molecules is None else self.max_molecules
        limits = Limits(float(self.max_atoms), max(most, 1))
        self._windows = Windows(costs, limits, self.shuffle)
        self._counted: tuple[int, int, int] | None = None  # seed, epoch, its number of batches

    @property
    def _depends_on_sizes(self) -> bool:
        costs = self._of_each
        return bool(len(costs) and costs.min() < costs.max())

    def _replan(self, n_atoms: np.ndarray[Any, Any]) -> None:
        if self._has_costs and not self._depends_on_sizes:
            return
        if self._has_costs:
            raise no_other_molecules("costs")
        if self._oversized == "error":
            self._report_oversized(n_atoms)
        self._plan_costs(n_atoms)

    def _plan_drawn(self, drawn: Integers) -> None:
        self._plan_windows(self._of_each[drawn])

    def _report_oversized(self, costs: np.ndarray[Any, Any]) -> None:
        if not len(costs) or costs.max() <= self.max_atoms:
            return
        count = int(np.count_nonzero(costs > self.max_atoms))
        largest = int(costs.argmax())
        what = (
            f"{count} of {len(costs)} molecules cost more than the budget of {self.max_atoms}, "
            f"the largest is molecule {largest} with {costs[largest]}"
        )
        if self._oversized == "error":
            raise ValueError(what)
        warnings.warn(f"{what}; each makes a batch by itself", stacklevel=3)

    def _start(self) -> Place:
        return {"position": 0, "offset": 0, "window": 0, "window_position": 0}

    def _share(self, seed: int, epoch: int, start: Place, ranks: range, n_ranks: int) -> BatchShare:
        plan = Plan(self._windows, mix(seed, epoch))
        return BatchShare(plan, start, ranks, n_ranks, self.drop_last, self.pad)

    def _n_batches(self) -> int:
        if self._counted is None or self._counted[:2] != (self.seed, self.epoch):
            n_batches = Plan(self._windows, mix(self.seed, self.epoch)).n_batches()
            self._counted = self.seed, self.epoch, n_batches
        return self._counted[2]

    def _plan_settings(self) -> dict[str, object]:
        return {
            "molecules": len(self._of_each),
            "costs": self._digest_of(self._of_each),
            "max_atoms": self.max_atoms,
            "max_molecules": self.max_molecules,
            "shuffle": self.shuffle,
        }


def _costs(n_atoms: Any, costs: Any) -> np.ndarray[Any, Any]:
    if costs is None:
        return atoms_of_each(n_atoms, ": give costs too")
    of_each = numbers("costs", costs)
    if len(of_each) != n_molecules(n_atoms):
        raise ValueError(
            f"costs: expected one for each of {n_molecules(n_atoms)} molecules, got {len(of_each)}"
        )
    return of_each


class BatchShare:
    """Batches of some ranks from a place in the epoch to its end.

    Each step takes the next batches of the sequence, one for each rank. If the last batches are
    fewer than the ranks, they are dropped, padded with the first batches of the epoch, or split.
    In the latter case the remaining molecules are divided again, in order, so that the last steps
    are full. A place is therefore a batch and the number of its molecules that have been used.
    """

    def __init__(
        self, plan: Plan, start: Place, ranks: range, n_ranks: int, drop_last: bool, pad: bool
    ) -> None:
        self._plan = plan
        self._start = start
        self._ranks = ranks
        self._n_ranks = n_ranks
        self._drop_last = drop_last
        self._pad = pad
        self._window_starts = [start["window_position"]]  # the first batch of each window so far
        self._n_whole_steps = 0  # each a batch for each rank
        self._recut: list[tuple[int, int]] = []  # places after steps that were divided again

    def chunks(self) -> Iterator[list[list[int]]]:
        """Yields the batches of these ranks, as lists of molecules."""
        kept: list[Batches] = []  # not dealt yet, as they may have to be split
        for window in range(self._start["window"], self._plan.windows.n):
            kept.append(self._plan_window(window))
            if sum(part.spare for part in kept) < self._n_ranks and self._splits:
                continue
            batches = concatenate(kept)
            n_steps = self._n_safe_steps(batches)
            yield self._whole_steps(batches, n_steps)
            kept = [batches.drop_first(n_steps * self._n_ranks)]
        yield from self._last_steps(concatenate(kept))

    @property
    def _splits(self) -> bool:
        return self._n_ranks > 1 and not self._drop_last and not self._pad

    def _plan_window(self, window: int) -> Batches:
        batches = self._plan.batches(window)
        first = self._window_starts[-1]
        self._window_starts.append(first + len(batches))
        if window > self._start["window"]:
            return batches
        skipped, offset = self._start["position"] - first, self._start["offset"]
        if not 0 <= skipped < len(batches) or offset >= np.diff(batches.ptr)[skipped]:
            raise ValueError(f"state: no batch {self._start['position']} in window {window}")
        return batches.drop_first(skipped, offset)

    def _n_safe_steps(self, batches: Batches) -> int:
        """Returns the number of steps that stay as they are, whatever follows these batches.

        The molecules after them suffice for one more batch per rank.
        """
        if not self._splits:
            return len(batches) // self._n_ranks
        borders = np.arange(0, len(batches) + 1, self._n_ranks)
        spare_behind = batches.spare - (batches.ptr[borders] - borders)
        return max(int(np.count_nonzero(spare_behind >= self._n_ranks)) - 1, 0)

    def _whole_steps(self, batches: Batches, n_steps: int) -> list[list[int]]:
        self._n_whole_steps += n_steps
        n_batches = n_steps * self._n_ranks
        if len(self._ranks) == self._n_ranks:
            return batches.lists(range(n_batches))
        return batches.lists(range(self._ranks.start, n_batches, self._n_ranks))

    def _last_steps(self, batches: Batches) -> Iterator[list[list[int]]]:
        n_steps, n_over = divmod(len(batches), self._n_ranks)
        if n_over == 0 or self._drop_last:
            yield self._whole_steps(batches, n_steps)
        elif self._pad:
            yield self._whole_steps(batches, n_steps)
            rest = batches.drop_first(n_steps * self._n_ranks)
            self._recut.append((self._window_starts[-1], 0))
            yield [self._pad_batch(rest, rank) for rank in self._ranks]
        else:
            n_recut = self._n_recut_steps(batches, n_steps + 1)
            n_whole = n_steps + 1 - n_recut
            yield self._whole_steps(batches, n_whole)
            yield self._recut_steps(batches.drop_first(n_whole * self._n_ranks), n_recut)

    def _pad_batch(self, rest: Batches, rank: int) -> list[int]:
        """Returns the batch of a rank in the last step, padded with the first batches."""
        batches, wanted = rest, rank
        windows = cycle(range(self._plan.windows.n))
        while wanted >= len(batches):
            wanted -= len(batches)
            batches = self._plan.batches(next(windows))
        return batches.lists(range(wanted, wanted + 1))[0]

    def _n_recut_steps(self, batches: Batches, n_steps: int) -> int:
        """Returns the number of last steps to divide again, so that all are full."""
        steps = np.arange(1, n_steps + 1)
        n_molecules = len(batches.molecules) - batches.ptr[(n_steps - steps) * self._n_ranks]
        enough = np.flatnonzero(n_molecules >= steps * self._n_ranks)
        if not len(enough):
            raise ValueError(
                f"the last {len(batches.molecules)} molecules, {len(batches)} batches, cannot be "
                f"split evenly among {self._n_ranks} ranks: use pad=True or drop_last=True"
            )
        return int(steps[enough[0]])

    def _recut_steps(self, batches: Batches, n_steps: int) -> list[list[int]]:
        """Divides from the end: all steps but the first have one molecule per rank."""
        end = len(batches.molecules)
        steps: list[tuple[int, int]] = []
        for step in reversed(range(n_steps)):
            first = min(int(batches.ptr[step * self._n_ranks]), end - self._n_ranks)
            steps.insert(0, (first, end))
            end = first
        base = self._window_starts[-1] - len(batches)
        pieces: list[list[int]] = []
        for first, end in steps:
            batch = bisect_right(batches.ptr, end) - 1
            self._recut.append((base + batch, end - int(batches.ptr[batch])))
            pieces += self._pieces(batches, first, end)
        return pieces

    def _pieces(self, batches: Batches, first: int, end: int) -> list[list[int]]:
        """Returns the parts of these ranks of the molecules of one step."""
        molecules = batches.molecules[first:end]
        if len(molecules) == self._n_ranks:  # in order, as by a pass that is resumed here
            return [[int(molecules[rank])] for rank in self._ranks]
        costs, limits = self._plan.windows.costs_of(molecules), self._plan.windows.limits
        pieces = deal(costs, self._n_ranks, limits.most)
        spent = np.bincount(pieces, costs)
        if np.any((spent > limits.budget) & (np.bincount(pieces) > 1)):
            ptr = np.unique(np.clip(batches.ptr, first, end)) - first
            pieces = _split(costs, ptr, self._n_ranks, limits.most)
        return [molecules[pieces == rank].tolist() for rank in self._ranks]

    def place_after(self, n_items: int) -> Place:
        """Returns the place after a number of batches of every rank; repeats partial steps."""
        n_items //= len(self._ranks)
        if n_items <= self._n_whole_steps:
            if n_items == 0:
                return dict(self._start)
            return self._place(self._start["position"] + n_items * self._n_ranks, 0)
        return self._place(*self._recut[min(n_items - self._n_whole_steps, len(self._recut)) - 1])

    def end(self) -> Place:
        """Returns the place after the last batch."""
        return self._place(self._window_starts[-1], 0)

    def _place(self, position: int, offset: int) -> Place:
        window = bisect_right(self._window_starts, position) - 1
        return {
            "position": position,
            "offset": offset,
            "window": self._start["window"] + window,
            "window_position": self._window_starts[window],
        }


def _split(costs: np.ndarray, ptr: Integers, n_pieces: int, most: int) -> Integers:
    """Splits batches into pieces, the most expensive first; no piece spans two batches."""
    counts = [1] * (len(ptr) - 1)
    costliest = [
        (-float(costs[ptr[i] : ptr[i + 1]].sum()), i)
        for i in range(len(counts))
        if ptr[i + 1] - ptr[i] > 1
    ]
    heapq.heapify(costliest)
    for _ in range(n_pieces - len(counts)):
        share, i = heapq.heappop(costliest)
        counts[i] += 1
        if ptr[i + 1] - ptr[i] > counts[i]:
            heapq.heappush(costliest, (share * (counts[i] - 1) / counts[i], i))
    pieces, first = np.empty(len(costs), np.int64), 0
    for i, count in enumerate(counts):
        batch = slice(ptr[i], ptr[i + 1])
        pieces[batch] = first + deal(costs[batch], count, most)
        first += count
    return pieces
