"""Common base of all data sets of this package, which make whole batches at once."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from atompack_torch._core import Batcher, Prefetcher, resolve_indices
from atompack_torch.batch.indices import Indices
from atompack_torch.datasets._collated import as_items
from atompack_torch.fields import FieldSpec

Item = TypeVar("Item", covariant=True)
Batch = TypeVar("Batch", covariant=True)
Made = TypeVar("Made")
Self = TypeVar("Self", bound="BatchDataset[Any, Any]")

_ROUNDING = 1e-6  # of fractions that should add up to 1


class BatchPrefetcher(Protocol):
    """Batches that native threads make ahead of their use, in the order of the requests."""

    def submit(self, indices: Indices) -> bool:
        """Requests a batch, without waiting; returns True if there is room for more requests."""

    def take(self) -> Any:
        """Returns the oldest batch, or raises the error that stopped it."""

    def __len__(self) -> int:
        """Number of batches that were requested and not taken."""


class BatchDataset(Dataset[Item], Generic[Item, Batch]):
    """Base of all data sets: a map-style data set that makes whole batches at once.

    Annotations have the types of items and batches without ``transform``, whose result takes the
    place of the batch.
    """

    _item: ClassVar[str] = "molecule"  # name of an item in errors
    _molecules: Callable[..., Any] | None = None  # makes batches of the molecules in examples
    _selection: Tensor | None = None  # items of a subset, as numbers in the whole data set

    @property
    def path(self) -> Path | str | tuple[Path | str, ...]:
        """Path as given: a ``Path``, a URL as a string, or a tuple of them for several files."""
        raise NotImplementedError

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """Fields of a batch: name → dtype, level and shape of one row."""
        raise NotImplementedError

    def batch(self, indices: Indices) -> Batch:
        """Collates items into one batch; see the classes of data sets."""
        raise NotImplementedError

    def refresh(self) -> bool:
        """Switches to the current state of the files; returns True if they have changed."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases files and memory; the next read opens them again."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _size(self) -> int:
        """Returns the number of items in the whole data set."""
        raise NotImplementedError

    def _block_sizes(self) -> Tensor:
        """Returns the number of items in each block of the whole data set, int64."""
        raise NotImplementedError

    @property
    def block_sizes(self) -> Tensor:
        """(number of blocks,) int64: consecutive items that are stored in one block.

        For ``BlockShuffleSampler``. A block is what is read or decoded as a whole, or a file. In a
        subset, consecutive items from the same block count as one block.
        """
        whole = self._block_sizes()
        if self._selection is None:
            return whole
        blocks = torch.searchsorted(torch.cumsum(whole, 0), self._selection, right=True)
        sizes: Tensor = torch.unique_consecutive(blocks, return_counts=True)[1]
        return sizes

    def __len__(self) -> int:
        return self._size() if self._selection is None else len(self._selection)

    def __getitems__(self, indices: Sequence[int]) -> list[object]:
        """Returns a list of one collated batch, for ``DataLoader``; see ``collate_identity``."""
        return as_items(self.batch(indices))

    def _prefetch(self, num_threads: int, max_ready: int, pinned: bool) -> BatchPrefetcher:
        """Starts threads that make batches, to which ``_apply_transform`` is still to be applied.

        Args:
            num_threads: number of threads; each makes one batch at a time.
            max_ready: number of batches to make ahead.
            pinned: make batches in page-locked memory.
        """
        return NativePrefetcher(self, num_threads, max_ready, pinned)

    def _batcher(self) -> Batcher[Any]:
        """Returns the native batcher of the whole data set, opened on first use in a process."""
        raise NotImplementedError

    def _assemble(self, made: Any, indices: Indices) -> Any:
        """Builds the batch of these indices from the result of the native batcher."""
        raise NotImplementedError

    def _apply_transform(self, batch: Any) -> Batch:
        """Applies the user's ``transform`` to a batch that is on its target device."""
        raise NotImplementedError

    def _copy_for_subset(self: Self) -> Self:
        """Copies the data set, to give the copy another selection."""
        return copy.copy(self)

    def subset(self: Self, indices: Indices) -> Self:
        """Returns the selected items as a data set; no data is read or copied.

        Args:
            indices: integers in any order, repeats allowed, negative ones from the end; or a mask
                of ``len(self)`` booleans.

        Returns:
            The subset; its items are numbered from 0.

        Raises:
            IndexError: an index is out of range, or a mask has another length.
            TypeError: the indices are neither integers nor a mask.
        """
        numbers = resolve_indices(indices, self._size(), self._selection, self._item)
        part = self._copy_for_subset()
        part._selection = numbers
        return part

    def split(self: Self, fractions: Sequence[float], seed: int) -> list[Self]:
        """Splits the data set at random.

        Args:
            fractions: sizes of the parts, which add up to 1.
            seed: the same seed gives the same parts.

        Returns:
            One subset per fraction; together they have every item exactly once.

        Raises:
            ValueError: a fraction is negative, or they do not add up to 1.
        """
        if min(fractions, default=0) < 0 or abs(sum(fractions) - 1) > _ROUNDING:
            raise ValueError(f"fractions: expected positive numbers that add up to 1: {fractions}")
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(seed))
        sizes = [int(len(self) * fraction) for fraction in fractions]
        for i in range(len(self) - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return self._split(list(torch.split(order, sizes)))

    def _split(self: Self, numbers: Sequence[Tensor]) -> list[Self]:
        """Returns subsets, of which the first is for training."""
        return [self.subset(part) for part in numbers]

    def _check_selection(self, n_items: int) -> None:
        """Raises an error if a subset would have items beyond the end after a refresh."""
        if self._selection is None or not len(self._selection):
            return
        needed = int(self._selection.max()) + 1
        if needed > n_items:
            raise IndexError(
                f"subset: expected at least {needed} {self._item}s, got {n_items} after refresh"
            )


class NativePrefetcher:
    """A ``BatchPrefetcher`` of native threads."""

    def __init__(
        self, dataset: BatchDataset[Any, Any], num_threads: int, max_ready: int, pinned: bool
    ) -> None:
        self._dataset = dataset
        self._native = Prefetcher(dataset._batcher(), num_threads, max_ready, pinned)
        self._asked: deque[Indices] = deque()

    def submit(self, indices: Indices) -> bool:
        """Requests a batch; returns True if there is room for more requests."""
        has_room: bool = self._native.submit(indices, self._dataset._selection)
        self._asked.append(indices)
        return has_room

    def take(self) -> Any:
        """Returns the oldest batch."""
        indices = self._asked[0]
        try:
            made = self._native.take(self._dataset._molecules)
        finally:
            if len(self._asked) > len(self._native):  # Ctrl-C leaves the batch there
                self._asked.popleft()
        return self._dataset._assemble(made, indices)

    def __len__(self) -> int:
        return len(self._asked)


def apply_transform(transform: Callable[[Any], Any] | None, batch: Made) -> Made:
    """Returns the result of ``transform``, or the batch itself without one.

    Args:
        transform: the user's function or None.
        batch: its argument.

    Returns:
        The result, annotated as if there were no ``transform``.

    Raises:
        TypeError: the result is None.
    """
    if transform is None:
        return batch
    made: Made | None = transform(batch)
    if made is None:
        name = getattr(transform, "__qualname__", repr(transform))
        raise TypeError(
            f"transform: expected a batch, got None from {name}; a function that changes the batch "
            "in place has to return it too"
        )
    return made
