"""What all data sets of this package share: whole batches at once, for DataLoader and Loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset
from torch.utils.data._utils.collate import default_collate_fn_map

from atompack_torch.batch import MoleculeBatch

Item = TypeVar("Item", covariant=True)

Indices = Sequence[int] | Tensor | np.ndarray[Any, Any]


class Collated:
    """A finished batch that is no MoleculeBatch.

    A DataLoader collates the list that ``__getitems__`` returns; this wrapper is how the value
    inside comes through unchanged.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


def _unwrap(items: Sequence[Collated], *, collate_fn_map: Any = None) -> Any:
    (item,) = items
    return item.value


default_collate_fn_map[Collated] = _unwrap


class Ahead(Protocol):
    """Batches that native threads make ahead of their use; they come in the order of asking."""

    def ask(self, indices: Sequence[int] | Tensor) -> None:
        """Never waits."""

    def take(self) -> Any:
        """The oldest; raises what stopped it from being made."""

    def __len__(self) -> int:
        """How many were asked for and not taken."""


class BatchDataset(Dataset[Item]):
    """A data set that makes whole batches at once."""

    def batch(self, indices: Indices) -> Any:
        """One batch of these items, any order, repeats allowed."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """A whole batch at once, for DataLoader: a list of one, collated already."""
        batch = self.batch(indices)
        return [batch if isinstance(batch, MoleculeBatch) else Collated(batch)]

    def _ahead(self, num_threads: int, pinned: bool) -> Ahead:
        """Batches on native threads, before what `_finished` does to them.

        Args:
            num_threads: that make a batch each.
            pinned: in page-locked memory.
        """
        raise NotImplementedError

    def _finished(self, batch: Any) -> Any:
        """The last step, on a batch that is where it should be: what the user asked for."""
        return batch


def as_sequence(indices: Indices) -> Sequence[int]:
    """Indices in a form whose items are integers to Python."""
    if not isinstance(indices, (Tensor, np.ndarray)):
        return indices
    is_integer = str(indices.dtype).removeprefix("torch.").startswith(("int", "uint"))
    if not is_integer and len(indices):
        raise TypeError(f"indices: expected integers, got {indices.dtype}")
    return indices.tolist()
