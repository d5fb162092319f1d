"""Order of items in a ``Loader`` without a sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch import Tensor
from torch.utils.data import Sampler


class OwnOrder(Sampler[int]):
    """Yields all items in a random order that depends only on seed and epoch."""

    def __init__(self, dataset: Sized, seed: int) -> None:
        self._dataset = dataset
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self._dataset)

    def numbers(self) -> Tensor:
        """Returns the items of this epoch in order, (len,) int64."""
        # A hash of both, so that epoch 1 of seed 0 differs from epoch 0 of seed 1.
        generator = torch.Generator().manual_seed(_mixed(self.seed, self.epoch))
        return torch.randperm(len(self), generator=generator)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers().tolist())

    def __repr__(self) -> str:
        return f"OwnOrder({len(self)} items, seed={self.seed}, epoch={self.epoch})"


def chunks(order: Tensor | None, n: int, size: int, drop_last: bool, skip: int) -> Iterator[Tensor]:
    """Splits items into batches.

    Args:
        order: the items in order; None: the stored order.
        n: number of items.
        size: number of items in a batch.
        drop_last: leave out a last batch that is not full.
        skip: number of items to skip at the start.

    Yields:
        The items of a batch, int64.
    """
    end = n - (n - skip) % size if drop_last and skip < n else n
    for first in range(skip, end, size):
        last = min(first + size, end)
        yield torch.arange(first, last) if order is None else order[first:last]


def _mixed(seed: int, epoch: int) -> int:
    """Hashes two numbers to one, by the finalizer of splitmix64."""
    mask = (1 << 64) - 1
    mix = (seed * 0x9E3779B97F4A7C15 + epoch + 1) & mask
    mix = ((mix ^ (mix >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mix = ((mix ^ (mix >> 27)) * 0x94D049BB133111EB) & mask
    return (mix ^ (mix >> 31)) >> 1
