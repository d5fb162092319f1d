"""Sampler that shuffles within a few blocks at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from atompack_torch.loading.samplers._blocks import BlockOrder
from atompack_torch.loading.samplers.distributed import IndexSampler, Order, StoredOrder
from atompack_torch.loading.samplers.elastic import ElasticSampler, SamplerOptions
from atompack_torch.loading.samplers.sizes import (
    digest,
    is_array,
    n_molecules,
    numbers,
)
from atompack_torch.options import checked_integer, with_options
from atompack_torch.random_order import Integers

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
            return StoredOrder()
        window = self.window // (self.workers * self.lanes)
        turn = self.batch_size or 1
        return BlockOrder(key, self._firsts, window, self.lanes, self.workers, turn)

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
