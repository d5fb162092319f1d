"""Batches of the datasets of an ATLAS store."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import ColumnBatcher, resolve_index
from atompack_torch.batch.indices import Indices, is_batch
from atompack_torch.datasets._batches import BatchDataset, transformed
from atompack_torch.datasets._one_arena import sent_whole
from atompack_torch.options import short_list
from atompack_torch.stores.atlas_store import AtlasStore
from atompack_torch.stores.column_scan import Layout

Batch = dict[str, Any]
Transform = Callable[[Batch], Any]


class AtlasDataset(BatchDataset[Batch]):
    """The datasets of a store by number, some of their arrays in batches.

        store = AtlasStore("profiles")
        for batch in DataLoader(AtlasDataset(store, ["depth", "temperature"]), batch_size=64):
            batch["temperature"], batch["temperature_mask"], batch["name"]

    A batch of B datasets is a plain dict: for each array its tensor as ``AtlasStore.scan`` makes
    it, ``<array>_mask`` (B,) bool for those that have it, ``<array>_offsets`` (B + 1,) int64 with
    ``layout="jagged"``; ``name``: a list of B dataset names. All tensors share one memory.

    A data set shows the last flush at the time it was made, also where the store is open for
    writing and has pending changes: names, length and values are of that flush until ``refresh``
    of the data set itself. Where values of a later flush would have to be read, that is a
    ``FieldError``.

    Args:
        store: an ``AtlasStore``, or the path of one. One that is open for writing is pickled as a
            handle for reading.
        arrays: names.
        start: the first element along each axis of every array; None: 0.
        shape: how many, clamped to each array; None: to the end.
        layout: ``"stacked"``, ``"jagged"`` or ``"list"``; see ``ColumnScan``.
        dtype: cast numbers in the copy.
        transform: called with every batch, in the process that made it.
        num_threads: at most as many for a batch; None: as many as torch uses. One in DataLoader
            workers.

    Raises:
        FieldError: no dataset has one of the arrays.
        ValueError: two keys of a batch would have the same name.
    """

    _item = "dataset"

    def __init__(
        self,
        store: AtlasStore | str | os.PathLike[str],
        arrays: Sequence[str],
        *,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout = "stacked",
        dtype: torch.dtype | None = None,
        transform: Transform | None = None,
        num_threads: int | None = None,
    ) -> None:
        if isinstance(arrays, str):
            raise TypeError(f"arrays: expected a list of names, got {arrays!r}")
        self._store = store if isinstance(store, AtlasStore) else AtlasStore(store)
        self._view = self._store._last_flush()  # nobody else refreshes it
        self._arrays = tuple(arrays)
        self._keys = [_keys(array, layout) for array in arrays]
        _check_keys([key for keys in self._keys for key in keys])
        self._options: tuple[Any, ...] = (start, shape, layout, dtype, num_threads)
        self._transform = transform
        self._native: ColumnBatcher | None = None
        self._batcher()  # names and options are checked here and now

    def _batcher(self) -> ColumnBatcher:
        native = self._native
        if native is None:
            native = self._native = self._view._batcher(self._arrays, *self._options)
        return native

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_native", "_store")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._store = copy.copy(self._view)
        self._native = None

    def refresh(self) -> bool:
        """Takes up what was flushed since; ``store`` does too. A subset keeps its numbers.

        Returns:
            True if there was anything.

        Raises:
            FieldError: no dataset has one of the arrays any more; the data set stays as it was.
            IndexError: a dataset of a subset is gone; likewise.
        """
        if self._store._writer is None:
            self._store.refresh()
        view = self._store._last_flush()
        if view._version == self._view._version:
            return False
        native = view._batcher(self._arrays, *self._options)
        needed = 0 if self._selection is None else int(max(self._selection, default=-1)) + 1
        if needed > len(view):
            raise IndexError(
                f"{view.path}: subset: expected at least {needed} datasets, got {len(view)}"
            )
        self._view, self._native = view, native
        return True

    @property
    def store(self) -> AtlasStore:
        """The store. Its own ``refresh`` and ``flush`` do not change what this data set shows."""
        return self._store

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays in a batch."""
        return self._arrays

    def _size(self) -> int:
        return len(self._view)

    @property
    def block_sizes(self) -> Tensor:
        """(blocks,) int64: how many datasets, one after another, share a block of the first array.

        For ``BlockShuffleSampler``: datasets of one block are decompressed together.
        """
        variable = self._view._variable(self._arrays[0])
        rows = range(len(self)) if self._selection is None else self._selection.tolist()
        blocks = torch.tensor(self._view._reader().blocks(variable, rows), dtype=torch.int64)
        sizes: Tensor = torch.unique_consecutive(blocks, return_counts=True)[1]
        return sizes

    def __getitem__(self, item: int | slice | Indices) -> Any:
        """One dataset by number (negative too): array name → value; or a batch.

        A slice, numbers or a mask of ``len(self)`` bools give a batch.

        Values are in their own shape, None where the dataset does not have the array; ``name`` is
        its name. ``transform`` is for batches and does not see it.

        Raises:
            IndexError: out of range, or a mask of another length.
            TypeError: something else than integers or a mask.
            CorruptFileError: a file is damaged.
        """
        if isinstance(item, slice):
            return self.batch(range(*item.indices(len(self))))
        if is_batch(item):
            return self.batch(item)
        number = resolve_index(item, self._size(), self._selection, self._item)
        start, shape, _, dtype, num_threads = self._options
        batcher = self._view._batcher(self._arrays, start, shape, "list", dtype, num_threads)
        _, columns, names = batcher.collate([number], None, False)
        values = {array: column[0][0] for array, column in zip(self._arrays, columns, strict=True)}
        return values | {"name": names[0]}

    def batch(self, indices: Indices) -> Any:
        """One column scan an array.

        Args:
            indices: numbers of datasets, any order, repeats allowed, negative ones from the end:
                a list, range, array or tensor of integers of any width. Or a mask: as many bools
                as there are datasets.

        Returns:
            A dict as above, or what ``transform`` makes of it.

        Raises:
            IndexError: an index is out of range, or a mask has another length.
            TypeError: something else than integers or a mask.
            FieldError: shapes or dtypes differ where the layout joins them.
            CorruptFileError: a file is damaged.
        """
        return self._finished(self._scanned(indices)[1])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """A whole batch at once, for DataLoader: a list of one, collated already."""
        arena, batch = self._scanned(indices)
        return sent_whole(arena if self._transform is None else None, self._finished(batch))

    def _scanned(self, indices: Indices) -> tuple[Tensor, Batch]:
        """The memory of all tensors, and the batch."""
        in_worker = get_worker_info() is not None
        made = self._batcher().collate(indices, self._selection, in_worker)
        return made[0], self._assembled(made)

    def _assembled(self, made: tuple[Tensor, list[Any], list[str]]) -> Batch:
        _, columns, names = made
        batch: Batch = {}
        for keys, (values, offsets, mask) in zip(self._keys, columns, strict=True):
            batch[keys[0]] = values
            batch[keys[1]] = mask
            if offsets is not None:
                batch[keys[2]] = offsets
        batch["name"] = names
        return batch

    def _finished(self, batch: Batch) -> Any:
        return transformed(self._transform, batch)

    def _copied(self) -> AtlasDataset:
        part = super()._copied()
        part._native = self._native
        return part

    def __repr__(self) -> str:
        return f"AtlasDataset({self._store!r}, {short_list(self._arrays, len(self._arrays))})"


def _keys(array: str, layout: str) -> list[str]:
    keys = [array, f"{array}_mask"]
    return [*keys, f"{array}_offsets"] if layout == "jagged" else keys


def _check_keys(keys: list[str]) -> None:
    twice = {key for key in keys if keys.count(key) > 1 or key == "name"}
    if twice:
        raise ValueError(f"arrays: two keys of a batch would be called {', '.join(sorted(twice))}")
