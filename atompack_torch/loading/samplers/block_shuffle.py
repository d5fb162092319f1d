"""Molecules in an order that stays in a few blocks at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atompack_torch.loading.samplers._blocks import BlockOrder
from atompack_torch.loading.samplers._random import Integers
from atompack_torch.loading.samplers._sizes import (
    digest,
    integer,
    is_array,
    n_molecules,
    numbers,
    optional_positive,
    positive,
)
from atompack_torch.loading.samplers.distributed import IndexSampler, Order, StoredOrder

_MAX_LANES = 8  # unless asked for


class BlockShuffleSampler(IndexSampler):
    """Yields the numbers of molecules; at a time, only from a window of blocks.

    For data of which a whole block is read or decompressed for one molecule: shards, compressed
    blocks, files behind a network. Blocks come in random order, and the molecules of a window of
    them are mixed. Shuffling is as good as the window is large.

    The blocks of a window are dealt to ``lanes`` that take turns, and ranks take turns in them:
    where their number divides that of the lanes, each block is read by one rank only, and each rank
    has ``window`` / ranks blocks open. The order is the same for any number of ranks.

    A ``DataLoader`` gives whole batches to its workers in turn, and each decodes blocks for itself.
    With ``workers`` and ``batch_size`` each of them has lanes, and so blocks, of its own, but for
    the last molecules of an epoch, where they do not divide evenly. A ``Loader``, whose threads
    share what they decoded, needs none of that.

    Args:
        n_or_block_sizes: a count, a data set, or an array with one entry a molecule, in blocks of
            ``block``; without ``block`` an array of the blocks' sizes, or a data set that knows
            them (``block_sizes``).
        block: molecules in a block.
        window: blocks that are mixed.
        lanes: of each worker; divides ``window`` / ``workers``; None: the largest of 8, 4, 2, 1
            that does.
        workers: of the ``DataLoader`` on each rank, its ``num_workers``; divides ``window``. 0 is
            the same as 1.
        batch_size: molecules in a batch of all ranks together, so that of the ``DataLoader`` times
            the ranks; needed where there are several workers.
        shuffle: draw an order for every epoch; else the stored one, in which neither lanes nor
            workers play a part.
        seed: of these orders.
        drop_last: leave out the molecules that do not divide among the ranks.
        num_replicas: how many ranks; None: asks torch.distributed when a pass begins, 1 without it.
        rank: of this process; None likewise.
        pad: repeat molecules so that every rank gets as many; see ``DistributedMoleculeSampler``.
    """

    _repr_options = ("window", "lanes", "workers", "batch_size")

    def __init__(
        self,
        n_or_block_sizes: Any,
        *,
        block: int | None = None,
        window: int,
        lanes: int | None = None,
        workers: int = 1,
        batch_size: int | None = None,
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
        window = positive("window", window)
        workers = integer("workers", workers)
        lanes = None if lanes is None else integer("lanes", lanes)
        batch_size = optional_positive("batch_size", batch_size)
        block = optional_positive("block", block)
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
        self._firsts = _firsts(n_or_block_sizes, block)
        self.n = int(self._firsts[-1])

    def _extent(self) -> str:
        return f"{self.n} molecules in {len(self._firsts) - 1} blocks"

    def _order(self, key: int) -> Order:
        if not self.shuffle:
            return StoredOrder()
        window = self.window // (self.workers * self.lanes)
        turn = self.batch_size or 1
        return BlockOrder(key, self._firsts, window, self.lanes, self.workers, turn)

    def _plan_settings(self) -> dict[str, Any]:
        return {
            "sampler": type(self).__name__,
            "molecules": self.n,
            "blocks": digest(self._firsts),
            "window": self.window,
            "lanes": self.lanes,
            "workers": self.workers,
            "batch_size": self.batch_size if self.workers > 1 else None,
            "shuffle": self.shuffle,
        }


def _firsts(source: Any, block: int | None) -> Integers:
    """The first molecule of each block, and the end."""
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
