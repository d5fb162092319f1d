"""Random orders that use a few blocks at a time."""

from __future__ import annotations

import numpy as np

from atompack_torch.random_order import Integers, RandomOrder, mix, permutation


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
