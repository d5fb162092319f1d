"""What all data sets of this package share: whole batches at once, for DataLoader and Loader."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from atompack_torch._core import Batcher, Prefetcher, resolve_indices
from atompack_torch.batch.indices import Indices
from atompack_torch.datasets._collated import as_items

Item = TypeVar("Item", covariant=True)
Self = TypeVar("Self", bound="BatchDataset[Any]")


class Ahead(Protocol):
    """Batches that native threads make ahead of their use; they come in the order of asking."""

    def ask(self, indices: Indices) -> None:
        """Never waits."""

    def take(self) -> Any:
        """The oldest; raises what stopped it from being made."""

    def __len__(self) -> int:
        """How many were asked for and not taken."""


class BatchDataset(Dataset[Item]):
    """A data set that makes whole batches at once."""

    _item: ClassVar[str] = "molecule"  # what errors call one
    _molecules: Callable[..., Any] | None = None  # makes the batches of molecules in examples
    _selection: Tensor | None = None  # of a subset: numbers in the whole data set

    def batch(self, indices: Indices) -> Any:
        """One batch of these items, any order, repeats allowed; a mask chooses some in order."""
        raise NotImplementedError

    def _size(self) -> int:
        """Number of items in the whole data set."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._size() if self._selection is None else len(self._selection)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """A whole batch at once, for DataLoader: a list of one, collated already.

        ``collate_identity`` tells what that means to collate functions.
        """
        return as_items(self.batch(indices))

    def _ahead(self, num_threads: int, pinned: bool) -> Ahead:
        """Batches on native threads, before what `_finished` does to them.

        Args:
            num_threads: that make a batch each.
            pinned: in page-locked memory.
        """
        return BatchesAhead(self, num_threads, pinned)

    def _batcher(self) -> Batcher[Any]:
        """The native batcher of the whole data set, opened on first use in each process."""
        raise NotImplementedError

    def _assembled(self, made: Any) -> Any:
        """The batch of what the native batcher hands over."""
        raise NotImplementedError

    def _finished(self, batch: Any) -> Any:
        """The last step, on a batch that is where it should be: what the user asked for."""
        return batch

    def _copied(self: Self) -> Self:
        """The same data set, for another selection."""
        return copy.copy(self)

    def subset(self: Self, indices: Indices) -> Self:
        """The same data set, seen through these indices; nothing is read or copied.

        Args:
            indices: as ``batch`` takes them: integers in any order, repeats allowed, negative ones
                from the end; or a mask of ``len(self)`` bools.

        Returns:
            The subset; indices of it count its own items.

        Raises:
            IndexError: an index is out of range, or a mask has another length.
            TypeError: something else than integers or a mask.
        """
        numbers = resolve_indices(indices, self._size(), self._selection, self._item)
        part = self._copied()
        part._selection = numbers
        return part

    def split(self: Self, fractions: Sequence[float], seed: int) -> list[Self]:
        """Random parts of these fractions, the same for the same seed.

        Raises:
            ValueError: the fractions are negative or do not add up to 1.
        """
        if min(fractions, default=0) < 0 or abs(sum(fractions) - 1) > 1e-6:
            raise ValueError(f"fractions: expected positive numbers that add up to 1: {fractions}")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        sizes = [int(len(self) * fraction) for fraction in fractions]
        for i in range(len(self) - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return self._parted(list(torch.split(order, sizes)))

    def _parted(self: Self, numbers: Sequence[Tensor]) -> list[Self]:
        """Subsets; the first is for training."""
        return [self.subset(part) for part in numbers]


class BatchesAhead:
    """Batches that native threads make ahead of their use."""

    def __init__(self, dataset: BatchDataset[Any], num_threads: int, pinned: bool) -> None:
        self._assembled, self._selection = dataset._assembled, dataset._selection
        self._molecules = dataset._molecules
        self._native = Prefetcher(dataset._batcher(), num_threads, pinned)

    def ask(self, indices: Indices) -> None:
        """Never waits."""
        self._native.ask(indices, self._selection)

    def take(self) -> Any:
        """The oldest."""
        return self._assembled(self._native.take(self._molecules))

    def __len__(self) -> int:
        return len(self._native)


def transformed(transform: Callable[[Any], Any] | None, batch: Any) -> Any:
    """A batch as ``transform`` returns it.

    Raises:
        TypeError: it returns None.
    """
    if transform is None:
        return batch
    made = transform(batch)
    if made is None:
        name = getattr(transform, "__qualname__", repr(transform))
        raise TypeError(
            f"transform: expected a batch, got None from {name}; a function that changes the batch "
            "in place has to return it too"
        )
    return made
