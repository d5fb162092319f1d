"""The order in which a ``Loader`` draws items where it is given no sampler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from atompack_torch.loader import Loader


class OwnOrder:
    """The stored order of a data set, or one drawn for each epoch of a loader."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the loader; a place in it that was loaded is kept."""
        if not self._loader._is_resumed_in(epoch):
            self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self._loader.dataset)

    def batches(self, skip: int) -> Iterator[Tensor]:
        """Item numbers of each batch, from batch ``skip`` on."""
        loader, n, size = self._loader, len(self), self._loader.batch_size
        assert size is not None
        end = n // size * size if loader.drop_last else n
        order = None
        if loader.shuffle:
            # Of both numbers: epoch 1 of seed 0 is not epoch 0 of seed 1.
            generator = torch.Generator().manual_seed(_mixed(loader.seed, loader.epoch))
            order = torch.randperm(n, generator=generator)
        for first in range(skip * size, end, size):
            last = min(first + size, end)
            yield torch.arange(first, last) if order is None else order[first:last]

    def __repr__(self) -> str:
        return f"OwnOrder(seed={self._loader.seed}, epoch={self._loader.epoch})"


def _mixed(seed: int, epoch: int) -> int:
    """One number of two (splitmix64's finishing steps), for generators that take one."""
    mask = (1 << 64) - 1
    mixed = (seed * 0x9E3779B97F4A7C15 + epoch + 1) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return (mixed ^ (mixed >> 31)) >> 1
