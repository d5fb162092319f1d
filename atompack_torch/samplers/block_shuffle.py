"""Molecules in an order that stays in a few blocks at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atompack_torch.samplers._blocks import BlockOrder
from atompack_torch.samplers._random import Integers
from atompack_torch.samplers._sizes import digest, is_array, n_molecules, numbers
from atompack_torch.samplers.distributed import IndexSampler, Order, StoredOrder

_MOST_LANES = 8  # unless asked for


class BlockShuffleSampler(IndexSampler):
    """Yields the numbers of molecules; at a time, only from a window of blocks.

    For data of which a whole block is read or decompressed for one molecule: shards, compressed
    blocks, files behind a network. Blocks come in random order, and the molecules of a window of
    them are mixed. Shuffling is as good as the window is large.

    The blocks of a window are dealt to ``lanes`` that take turns, and ranks take turns in them:
    where their number divides that of the lanes, each block is read by one rank only, and each rank
    has ``window`` / ranks blocks open. The order is the same for any number of ranks.

    Args:
        n_or_block_sizes: a count, a data set, or an array with one entry a molecule, in blocks of
            ``block``; without ``block`` an array of the blocks' sizes, or a data set that knows
            them (``block_sizes``).
        block: molecules in a block.
        window: blocks that are mixed.
        lanes: divides ``window``; None: the largest of 8, 4, 2, 1 that does.
        shuffle: draw an order for every epoch; else the stored one, in which lanes play no part.
        seed: of these orders.
        drop_last: leave out the molecules that do not divide among the ranks.
        num_replicas: how many ranks; None: asks torch.distributed when a pass begins, 1 without it.
        rank: of this process; None likewise.
        pad: repeat molecules so that every rank gets as many; see ``DistributedMoleculeSampler``.
    """

    def __init__(
        self,
        n_or_block_sizes: Any,
        *,
        block: int | None = None,
        window: int,
        lanes: int | None = None,
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
        if window < 1:
            raise ValueError(f"window: expected a positive number, got {window}")
        if lanes is not None and (lanes < 1 or window % lanes):
            raise ValueError(f"lanes: expected a number that divides {window}, got {lanes}")
        self.window = window
        self.lanes = lanes or math.gcd(window, _MOST_LANES)
        self._firsts = _firsts(n_or_block_sizes, block)
        self.n = int(self._firsts[-1])

    def _order(self, key: int) -> Order:
        if not self.shuffle:
            return StoredOrder()
        return BlockOrder(key, self._firsts, self.window // self.lanes, self.lanes)

    def _planned(self) -> dict[str, Any]:
        return {
            "sampler": type(self).__name__,
            "molecules": self.n,
            "blocks": digest(self._firsts),
            "window": self.window,
            "lanes": self.lanes,
            "shuffle": self.shuffle,
        }


def _firsts(source: Any, block: int | None) -> Integers:
    """The first molecule of each block, and the end."""
    if block is not None:
        if block < 1:
            raise ValueError(f"block: expected a positive number, got {block}")
        n = n_molecules(source)
        return np.append(np.arange(0, n, block), n)
    sizes = getattr(source, "block_sizes", source)
    if not is_array(sizes):
        raise TypeError("block: expected molecules in a block, or the sizes of all blocks")
    of_each = numbers("block sizes", sizes)
    if of_each.dtype.kind == "f":
        raise TypeError(f"block sizes: expected integers, got {of_each.dtype}")
    return np.concatenate([[0], np.cumsum(of_each, dtype=np.int64)])
