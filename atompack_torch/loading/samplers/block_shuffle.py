"""Sampler that shuffles within a few blocks at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.loading.samplers.distributed import IndexSampler, Order, stored_order
from atompack_torch.loading.samplers.elastic import ElasticSampler, SamplerOptions
from atompack_torch.loading.samplers.sizes import (
    digest,
    is_array,
    n_molecules,
    numbers,
)
from atompack_torch.options import checked_integer, with_options
from atompack_torch.random_order import Integers, RandomOrder, mix, permutation

if TYPE_CHECKING:
    from typing_extensions import Unpack


_MAX_LANES = 8  # by default


class BlockShuffleSampler(IndexSampler):
    """Yields molecule numbers in a random order that uses one window of blocks at a time.

    For data that is read or decompressed in whole blocks: shards, compressed blocks,
    remote files. The blocks are in random order, and the molecules of a window of blocks are
    shuffled; larger windows shuffle better.

    The blocks of a window are dealt to ``lanes``, which alternate, as do the ranks: if the number
    of ranks divides that of the lanes, each block is read by only one rank, which has ``window`` /
    ranks blocks open. The order is the same for any number of ranks.

    A ``DataLoader`` gives whole batches to its workers in turn, each of which decodes blocks for
    itself. With ``workers`` and ``batch_size``, each worker has lanes, and therefore blocks, of its
    own, except for the last molecules of an epoch. The threads of a ``Loader`` share decoded blocks
    and do not need these options.
    """

    _repr_options = ("window", "lanes", "workers", "batch_size")

    @with_options(ElasticSampler.__init__)
    def __init__(
        self,
        n_or_block_sizes: Any,
        *,
        block: int | None = None,
        window: int,
        lanes: int | None = None,
        workers: int = 1,
        batch_size: int | None = None,
        **options: Unpack[SamplerOptions],
    ) -> None:
        """Checks the options.

        Args:
            n_or_block_sizes: a count, a dataset, or an array with one entry per molecule, in
                blocks of ``block``; without ``block``, an array of block sizes, or a dataset that
                knows them (``block_sizes``).
            block: number of molecules in a block.
            window: number of blocks to shuffle at a time.
            lanes: number of lanes of each worker; divides ``window`` / ``workers``. None: the
                largest of 8, 4, 2, 1 that does. The stored order ignores lanes and workers.
            workers: ``num_workers`` of the ``DataLoader`` on each rank; divides ``window``. 0 is
                the same as 1.
            batch_size: number of molecules in a batch of all ranks together, that is ``batch_size``
                of the ``DataLoader`` times the number of ranks; required for several workers.
            **options: of all samplers.

        Raises:
            TypeError: an argument has the wrong type, or the source has no block sizes.
            ValueError: an option is out of range, or does not divide another.
        """
        super().__init__(n_or_block_sizes, **options)
        window = checked_integer("window", window, 1)
        workers = checked_integer("workers", workers)
        lanes = None if lanes is None else checked_integer("lanes", lanes)
        batch_size = None if batch_size is None else checked_integer("batch_size", batch_size, 1)
        block = None if block is None else checked_integer("block", block, 1)
        if workers < 0 or window % max(workers, 1):
            raise ValueError(f"workers: expected a number that divides {window}, got {workers}")
        self.workers = max(workers, 1)
        of_worker = window // self.workers
        if lanes is not None and (lanes < 1 or of_worker % lanes):
            raise ValueError(f"lanes: expected a number that divides {of_worker}, got {lanes}")
        if batch_size is None and workers > 1:
            raise ValueError("batch_size: expected the molecules of a batch, as workers are given")
        self.window = window
        self.lanes = lanes or math.gcd(of_worker, _MAX_LANES)
        self.batch_size = batch_size
        self._bounds = self._firsts = _firsts(n_or_block_sizes, block)
        self.n = int(self._firsts[-1])

    def _plan_drawn(self, drawn: Integers) -> None:
        self._firsts = np.searchsorted(drawn, self._bounds)  # the draws ascend

    def _extent(self) -> str:
        return f"{self.n} molecules in {len(self._firsts) - 1} blocks"

    def _order(self, key: int) -> Order:
        if not self.shuffle:
            return stored_order
        window = self.window // (self.workers * self.lanes)
        turn = self.batch_size or 1
        return BlockOrder(key, self._firsts, window, self.lanes, self.workers, turn).at

    def _plan_settings(self) -> dict[str, object]:
        return {
            "molecules": self.n,
            "blocks": digest(self._bounds),
            "window": self.window,
            "lanes": self.lanes,
            "workers": self.workers,
            "batch_size": self.batch_size if self.workers > 1 else None,
            "shuffle": self.shuffle,
        }


def _firsts(source: Any, block: int | None) -> Integers:
    """Returns the first molecule of each block, and the end."""
    if block is not None:
        n = n_molecules(source)
        return np.append(np.arange(0, n, block), n)
    sizes = getattr(source, "block_sizes", source)
    if not is_array(sizes):
        raise TypeError("block: expected molecules in a block, or the sizes of all blocks")
    of_each = numbers("block sizes", sizes)
    if of_each.dtype.kind == "f":
        raise TypeError(f"block sizes: expected integers, got {of_each.dtype}")
    return np.concatenate([[0], np.cumsum(of_each, dtype=np.int64)])


class BlockOrder:
    """Random order of blocks, with molecules in random order within a window of blocks.

    The blocks are dealt to the lanes of all workers. Workers alternate every ``turn`` molecules,
    and within that the lanes of a worker after every molecule, until they are exhausted; less than
    one turn per worker is left over and follows at the end. Workers that take batches in turn
    therefore have lanes of their own, as do ranks whose number divides that of the lanes, and no
    block is read by two of them.

    Args:
        key: seed of the order.
        firsts: first molecule of each block, and the end.
        window: number of blocks that a lane mixes.
        n_lanes: number of lanes per worker.
        n_workers: number of workers.
        turn: number of molecules per turn of a worker.
    """

    def __init__(
        self, key: int, firsts: Integers, window: int, n_lanes: int, n_workers: int, turn: int
    ) -> None:
        self._key = key
        self._firsts = firsts
        self._window = window
        self._n_lanes = n_lanes
        self._turn = turn
        n_blocks = len(firsts) - 1
        blocks = RandomOrder(mix(key, 0), n_blocks).at(np.arange(n_blocks))
        n_all = n_lanes * n_workers
        self._blocks = [blocks[lane::n_all] for lane in range(n_all)]
        sizes = np.diff(firsts)
        ends = [np.concatenate([[0], np.cumsum(sizes[lane])]) for lane in self._blocks]
        # First molecule of each window of a lane, and the end of the lane.
        self._borders = [np.append(end[:-1:window], end[-1]) for end in ends]
        lengths = np.array([end[-1] for end in ends]).reshape(n_workers, n_lanes)
        self._lanes = [_Turns(of_worker) for of_worker in lengths]
        of_workers = lengths.sum(axis=1)
        self._workers = _Turns(of_workers // turn)
        self._rests = np.concatenate([[0], np.cumsum(of_workers % turn)])
        self._whole = of_workers - of_workers % turn
        self._mixed: dict[tuple[int, int], Integers] = {}  # most recently used windows

    def at(self, positions: Integers) -> Integers:
        """Returns the molecules at these positions."""
        workers, offsets = self._of_workers(positions)
        molecules = np.empty(len(positions), np.int64)
        for worker, in_turn in enumerate(self._lanes):
            of_worker = np.flatnonzero(workers == worker)
            lanes, nth = in_turn.at(offsets[of_worker])
            for lane in np.unique(lanes):
                of_lane = lanes == lane
                number = worker * self._n_lanes + int(lane)
                molecules[of_worker[of_lane]] = self._of_lane(number, nth[of_lane])
        return molecules

    def _of_workers(self, positions: Integers) -> tuple[Integers, Integers]:
        """Returns (workers, number of molecules that each has contributed before)."""
        if len(self._lanes) == 1:
            return np.zeros_like(positions), positions
        behind = positions - self._whole.sum()
        at_end = behind >= 0
        turns, offsets = np.divmod(np.where(at_end, 0, positions), self._turn)
        workers, nth = self._workers.at(turns)
        offsets += nth * self._turn
        of_rests = np.searchsorted(self._rests, behind[at_end], "right") - 1
        workers[at_end] = of_rests
        offsets[at_end] = self._whole[of_rests] + behind[at_end] - self._rests[of_rests]
        return workers, offsets

    def _of_lane(self, lane: int, offsets: Integers) -> Integers:
        borders = self._borders[lane]
        molecules = np.empty(len(offsets), np.int64)
        windows = np.searchsorted(borders, offsets, "right") - 1
        for window in np.unique(windows):
            of_window = windows == window
            mixed_window = self._window_molecules(lane, int(window))
            molecules[of_window] = mixed_window[offsets[of_window] - borders[window]]
        return molecules

    def _window_molecules(self, lane: int, window: int) -> Integers:
        """Returns the molecules of a window of a lane, from a small cache."""
        found = self._mixed.pop((lane, window), None)
        if found is None:
            first = window * self._window
            blocks = self._blocks[lane][first : first + self._window]
            ranges = [np.arange(self._firsts[b], self._firsts[b + 1]) for b in blocks]
            molecules = np.concatenate(ranges)
            found = molecules[permutation(mix(self._key, 1, lane, window), len(molecules))]
        self._mixed[lane, window] = found
        if len(self._mixed) > 2 * len(self._blocks):
            del self._mixed[next(iter(self._mixed))]
        return found


class _Turns:
    """Round-robin order of participants that drop out when they are exhausted.

    Args:
        lengths: number of turns of each participant.
    """

    def __init__(self, lengths: Integers) -> None:
        self._by_length = np.argsort(lengths, kind="stable")
        # Stretches between two dropouts: remaining participants, and turns of each before.
        self._n_left = len(lengths) - np.arange(len(lengths))
        self._before = np.concatenate([[0], lengths[self._by_length]])
        stretches = np.cumsum(np.diff(self._before) * self._n_left)
        self._stretches = np.concatenate([[0], stretches[:-1]])

    def at(self, positions: Integers) -> tuple[Integers, Integers]:
        """Returns (participant, number of its earlier turns) at these positions."""
        stretch = np.searchsorted(self._stretches, positions, "right") - 1
        n_left = self._n_left[stretch]
        rounds, nth = np.divmod(positions - self._stretches[stretch], n_left)
        who = self._by_length[len(self._by_length) - n_left + nth]
        return who, self._before[stretch] + rounds
