"""The order in which a ``Loader`` draws items where it is given no sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import torch
from torch import Tensor
from torch.utils.data import Sampler


class OwnOrder(Sampler[int]):
    """All items, in an order that depends on seed and epoch alone."""

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
        """(len,) int64: the items of this epoch in order."""
        # Of both numbers: epoch 1 of seed 0 is not epoch 0 of seed 1.
        generator = torch.Generator().manual_seed(_mixed(self.seed, self.epoch))
        return torch.randperm(len(self), generator=generator)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers().tolist())

    def __repr__(self) -> str:
        return f"OwnOrder({len(self)} items, seed={self.seed}, epoch={self.epoch})"


def chunks(order: Tensor | None, n: int, size: int, drop_last: bool, skip: int) -> Iterator[Tensor]:
    """The items of each batch, from batch ``skip`` on.

    Args:
        order: the items in order; None: the stored one.
        n: number of items.
        size: items in a batch.
        drop_last: leave out a last batch that is not full.
        skip: batches that are left out at the start.
    """
    end = n // size * size if drop_last else n
    for first in range(skip * size, end, size):
        last = min(first + size, end)
        yield torch.arange(first, last) if order is None else order[first:last]


def _mixed(seed: int, epoch: int) -> int:
    """One number of two (splitmix64's finishing steps), for generators that take one."""
    mask = (1 << 64) - 1
    mix = (seed * 0x9E3779B97F4A7C15 + epoch + 1) & mask
    mix = ((mix ^ (mix >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mix = ((mix ^ (mix >> 27)) * 0x94D049BB133111EB) & mask
    return (mix ^ (mix >> 31)) >> 1
