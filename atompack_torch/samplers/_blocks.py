"""Orders that stay in a few blocks at a time."""

from __future__ import annotations

import numpy as np

from atompack_torch.samplers._random import Integers, RandomOrder, mixed, shuffled


class BlockOrder:
    """Blocks in random order, molecules in random order inside of a window of blocks.

    The blocks are dealt to lanes, and the lanes take turns, one molecule each, as long as they
    last: the molecule at position p comes from lane p modulo the number of lanes. So ranks that
    take turns too, if their number divides that of the lanes, each have lanes of their own, and no
    block is read by two of them.

    Args:
        key: the order.
        firsts: the first molecule of each block, and the end.
        window: blocks that a lane mixes.
        n_lanes: lanes.
    """

    def __init__(self, key: int, firsts: Integers, window: int, n_lanes: int) -> None:
        self._key = key
        self._firsts = firsts
        self._window = window
        n_blocks = len(firsts) - 1
        blocks = RandomOrder(mixed(key, 0), n_blocks).at(np.arange(n_blocks))
        self._lanes = [blocks[lane::n_lanes] for lane in range(n_lanes)]
        sizes = np.diff(firsts)
        ends = [np.concatenate([[0], np.cumsum(sizes[lane])]) for lane in self._lanes]
        # Where the windows of each lane begin, and its end.
        self._borders = [np.append(end[:-1:window], end[-1]) for end in ends]
        lengths = np.array([end[-1] for end in ends])
        self._by_length = np.argsort(lengths, kind="stable")
        # Stretches between two lanes' ends: how many lanes are left, where each of them is then.
        self._n_left = n_lanes - np.arange(n_lanes)
        self._offsets = np.concatenate([[0], lengths[self._by_length]])
        stretches = np.cumsum(np.diff(self._offsets) * self._n_left)
        self._stretches = np.concatenate([[0], stretches[:-1]])
        self._mixed: dict[tuple[int, int], Integers] = {}  # windows that were used last

    def at(self, positions: Integers) -> Integers:
        """The molecules at these positions (ascending)."""
        stretch = np.searchsorted(self._stretches, positions, "right") - 1
        n_left = self._n_left[stretch]
        turns, nth = np.divmod(positions - self._stretches[stretch], n_left)
        lanes = self._by_length[len(self._lanes) - n_left + nth]
        offsets = self._offsets[stretch] + turns
        molecules = np.empty(len(positions), np.int64)
        for lane in np.unique(lanes):
            of_lane = lanes == lane
            molecules[of_lane] = self._of_lane(int(lane), offsets[of_lane])
        return molecules

    def _of_lane(self, lane: int, offsets: Integers) -> Integers:
        borders = self._borders[lane]
        molecules = np.empty(len(offsets), np.int64)
        windows = np.searchsorted(borders, offsets, "right") - 1
        for window in np.unique(windows):
            of_window = windows == window
            mixed_window = self._mixed_window(lane, int(window))
            molecules[of_window] = mixed_window[offsets[of_window] - borders[window]]
        return molecules

    def _mixed_window(self, lane: int, window: int) -> Integers:
        """The molecules of a window of a lane; the last ones are kept."""
        found = self._mixed.pop((lane, window), None)
        if found is None:
            first = window * self._window
            blocks = self._lanes[lane][first : first + self._window]
            ranges = [np.arange(self._firsts[b], self._firsts[b + 1]) for b in blocks]
            molecules = np.concatenate(ranges)
            found = molecules[shuffled(mixed(self._key, 1, lane, window), len(molecules))]
        self._mixed[lane, window] = found
        if len(self._mixed) > 2 * len(self._lanes):
            del self._mixed[next(iter(self._mixed))]
        return found
