"""Batches from the datasets of an ATLAS store."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import ColumnBatcher, resolve_index
from atompack_torch._native import AtlasReader
from atompack_torch.batch.indices import Indices, is_batch
from atompack_torch.datasets.batches import BatchDataset
from atompack_torch.datasets.options import DatasetOptions, Missing
from atompack_torch.datasets.transport import as_payload
from atompack_torch.fields import FieldSpec
from atompack_torch.formats.atlas_store.array_schema import ArraySchema, Values
from atompack_torch.formats.atlas_store.atlas_store import AtlasStore
from atompack_torch.formats.atlas_store.block_cache import BlockCache
from atompack_torch.formats.atlas_store.columns import Layout, ScanOptions
from atompack_torch.options import Buffer, is_url, short_list

# Values of one dataset by array, None where it lacks the array, and its name.
Item = dict[str, Values | None]
# Values, masks and offsets of all datasets of a batch, and their names.
Batch = dict[str, Tensor | Sequence[Values | None]]
# Result of the native core: the arena, (values, offsets or None, mask) of each array, names.
Columns = tuple[Tensor, list[Any], list[str]]
Transform = Callable[[Batch], Any]


class AtlasDataset(BatchDataset[Item, Batch]):
    """Datasets of an ATLAS store as items, with some of their arrays in batches.

        store = AtlasStore("profiles")
        for batch in DataLoader(AtlasDataset(store, ["depth", "temperature"]), batch_size=64):
            batch["temperature"], batch["temperature_mask"], batch["name"]

    A batch of B datasets is a plain dict: for each array its values as from ``AtlasStore.scan``,
    ``<array>_mask`` (B,) bool, True for datasets that have it, and with ``layout="jagged"``
    ``<array>_offsets`` (B + 1,) int64; ``name`` is a list of B dataset names. All tensors share
    one block of memory.

    The dataset shows the last flush at the time it was created, even if the store is open for
    writing: names, length and values are those of that flush until ``refresh``. If values of a
    later flush would have to be read, that is a ``FieldError``.

    Args:
        path: an ``AtlasStore``, or what it takes for reading: a path, a URL, or the bytes of files;
            also accepted as ``store``. A store that is open for writing is pickled as a handle for
            reading.
        arrays: names of arrays.
        start: first element along each axis of every array; None: 0.
        shape: number of elements along each axis, clamped to each array; None: to the end.
        layout: ``"stacked"``, ``"jagged"`` or ``"list"``; see ``ColumnScan``.
        dtype: dtype of numbers, cast while copying; None: as stored.
        missing: treatment of datasets that lack one of the arrays: ``"nan"`` fills in NaN (0, None)
            and masks it, ``"error"`` raises ``FieldError``, ``"drop"`` leaves the dataset out.
        transform: called with every batch in the process that made it.
        num_threads: maximum number of threads for a batch; None: as many as torch uses. Always one
            in ``DataLoader`` workers.
        cache_bytes: memory for decoded blocks, for a path or URL; see ``AtlasStore``.
        storage_options: options of the remote store of a URL; see ``AtpDataset``.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option does not have one of its values, or two keys of a batch would be the
            same.
        FieldError: no dataset has one of the arrays.
    """

    item_name = "dataset"
    _missing: Missing = "nan"

    def __init__(
        self,
        path: AtlasStore | str | os.PathLike[str] | Mapping[str, Buffer],
        arrays: Sequence[str],
        *,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        layout: Layout = "stacked",
        dtype: torch.dtype | None = None,
        missing: Missing = "nan",
        transform: Transform | None = None,
        num_threads: int | None = None,
        cache_bytes: int | BlockCache | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> None:
        if isinstance(arrays, str):
            raise TypeError(f"arrays: expected a list of names, got {arrays!r}")
        checked = DatasetOptions(missing=missing, transform=transform, num_threads=num_threads)
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype: expected a torch dtype, got {type(dtype).__name__}")
        self._missing = checked.missing
        if not isinstance(path, AtlasStore):
            path = AtlasStore(path, cache_bytes=cache_bytes, storage_options=storage_options)
        self._store = path
        self._view = self._store.last_flush()  # independent of refresh() of the store
        self._arrays = tuple(arrays)
        self._keys = [_keys(array, layout) for array in arrays]
        _check_keys([key for keys in self._keys for key in keys])
        self._options = ScanOptions(start, shape, layout, dtype, num_threads)
        self._transform = transform
        self._native: tuple[AtlasReader, ColumnBatcher] | None = None
        self.batcher()  # checks names and options

    def batcher(self) -> ColumnBatcher:
        """Returns the native batcher of the whole store.

        Returns:
            The batcher.
        """
        reader = self._view._handle.reader()
        native = self._native
        if native is None or native[0] is not reader:
            native = self._native = reader, self._open_batcher(self._view)
        return native[1]

    def _open_batcher(self, store: AtlasStore) -> ColumnBatcher:
        return store._batcher(self._arrays, self._options, self._missing)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_native", "_store")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._store = copy.copy(self._view)
        self._native = None

    def refresh(self) -> bool:
        """Switches to the last flush, as does ``store``; a subset keeps its numbers.

        Returns:
            True if there was a later flush.

        Raises:
            FieldError: no dataset has one of the arrays any more; the dataset is unchanged.
            IndexError: datasets of a subset no longer exist; the dataset is unchanged.
        """
        self._store.refresh()
        view = self._store.last_flush()
        is_newer = view._handle.version != self._view._handle.version
        if is_newer or is_url(self.path):  # its files may have been replaced by equal ones
            native = view._handle.reader(), self._open_batcher(view)
            self._check_selection(len(view))
            self._view, self._native, self._digests = view, native, None
        return is_newer

    @property
    def path(self) -> Path | str:
        """Absolute path of the store, or its URL."""
        return self._view.path

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """Arrays of a batch: name → dtype, level ``"molecule"`` (one row per dataset) and shape.

        The shape is that of one dataset after ``start`` and ``shape``; None if it varies. Strings
        and binary values have the dtype ``"string"``.

        Raises:
            CorruptFileError: the file of an array contradicts itself or the metadata.
        """
        options = self._options
        specs = {}
        for array in self._arrays:
            found: Iterable[ArraySchema] = self._view.schema(array).values()
            shapes = {tuple(each.box(options.start, options.shape)[1]) for each in found}
            specs[array] = FieldSpec(
                _dtype_of(next(iter(found)).dtype, options.dtype),
                "molecule",
                shapes.pop() if len(shapes) == 1 else None,
            )
        return specs

    def close(self) -> None:
        """Releases files; the next read opens them again, at the same flush."""
        self._native = None
        self._view.close()

    @property
    def store(self) -> AtlasStore:
        """Store that was given; its own ``refresh`` and ``flush`` do not affect the dataset."""
        return self._store

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays in a batch."""
        return self._arrays

    def _size(self) -> int:
        return len(self._view)

    @property
    def block_sizes(self) -> Tensor:
        """(number of blocks,) int64: consecutive datasets that share a block of the first array.

        For ``BlockShuffleSampler``: datasets of one block are decompressed together.
        """
        rows = range(len(self)) if self._selection is None else self._selection.tolist()
        blocks = torch.tensor(self._view._blocks(self._arrays[0], rows), dtype=torch.int64)
        sizes: Tensor = torch.unique_consecutive(blocks, return_counts=True)[1]
        return sizes

    @overload
    def __getitem__(self, item: slice | Indices) -> Batch: ...
    @overload
    def __getitem__(self, item: int) -> Item: ...
    def __getitem__(self, item: int | slice | Indices) -> Item | Batch:
        """Returns one dataset, or a batch for a slice, integers or a mask.

        Args:
            item: a number, negative ones from the end, or as for ``batch``.

        Returns:
            A dict from array names to values in their own shape, None for a missing array, and
            ``name``; ``transform`` is not applied. Or the result of ``batch``.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
            CorruptFileError: a file is damaged.
        """
        if isinstance(item, slice):
            return self.batch(range(*item.indices(len(self))))
        if is_batch(item):
            return self.batch(item)
        number = resolve_index(item, self._size(), self._selection, self.item_name)
        options = self._options._replace(layout="list")
        batcher = self._view._batcher(self._arrays, options)
        _, columns, names = batcher.collate([number], None, False)
        values: Item = {a: column[0][0] for a, column in zip(self._arrays, columns, strict=True)}
        return values | {"name": names[0]}

    def batch(self, indices: Indices) -> Batch:
        """Reads datasets into one batch, with one column scan per array.

        Args:
            indices: a list, range, array or tensor of integers in any order, repeats allowed,
                negative ones from the end; or a mask of ``len(self)`` booleans.

        Returns:
            A dict as described above; with ``transform``, its result instead.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
            FieldError: shapes or dtypes differ where the layout joins them, or an array is missing
                and ``missing="error"``.
            CorruptFileError: a file is damaged.
        """
        return self.apply_transform(self._scan(indices)[1])

    def __getitems__(self, indices: Sequence[int]) -> list[object]:
        """Returns a list of one collated batch, for ``DataLoader``; see ``collate_identity``."""
        arena, batch = self._scan(indices)
        batch = self._never_empty(indices, batch)
        return as_payload(arena if self._transform is None else None, self.apply_transform(batch))

    def _make(self, indices: Indices) -> Batch:
        return self._scan(indices)[1]

    def _scan(self, indices: Indices) -> tuple[Tensor, Batch]:
        """Returns the memory of all tensors, and the batch."""
        in_worker = get_worker_info() is not None
        made = self.batcher().collate(indices, self._selection, in_worker)
        return made[0], self._assemble(made)

    def _assemble(self, made: Columns, indices: Indices | None = None) -> Batch:
        _, columns, names = made
        batch: Batch = {}
        for keys, (values, offsets, mask) in zip(self._keys, columns, strict=True):
            batch[keys[0]] = values
            batch[keys[1]] = mask
            if offsets is not None:
                batch[keys[2]] = offsets
        batch["name"] = names
        return batch

    @property
    def drops_items(self) -> bool:
        """True if batches omit items that lack a label."""
        return self._missing == "drop"

    def count_items(self, batch: Any) -> int:
        """Returns the number of datasets in a batch.

        Args:
            batch: the batch.

        Returns:
            The number.
        """
        return len(batch["name"])

    def _copy_for_subset(self) -> AtlasDataset:
        part = super()._copy_for_subset()
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


def _dtype_of(stored: str, wanted: torch.dtype | None) -> torch.dtype | Literal["string"]:
    if stored in ("string", "binary"):
        return "string"
    kept: torch.dtype = torch.int64 if stored == "timestamp_ns" else getattr(torch, stored)
    return kept if wanted is None or stored in ("timestamp_ns", "bool") else wanted
