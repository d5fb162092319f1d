"""Datasets that stay in memory whole, on the host or on a device."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch._core import (
    MoleculeBatcher,
    PrecomputedEdges,
    count_stored_rows,
    resolve_indices,
)
from atompack_torch._native import ForceSubsetSource, MoleculeSource
from atompack_torch.batch.collated_fields import contents_of
from atompack_torch.batch.indices import Indices
from atompack_torch.batch.molecule_batch import Molecule, MoleculeBatch
from atompack_torch.datasets.base import MoleculeDataset
from atompack_torch.datasets.batches import BatchPrefetcher, n_ranks, warn_of_batch
from atompack_torch.datasets.force_subset import flags_of
from atompack_torch.datasets.request import Request, declared_fields
from atompack_torch.datasets.resident.device import DeviceFields
from atompack_torch.datasets.resident.loading import (
    HostFields,
    ResidentBlock,
    load_block,
    load_on_device,
)
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN, GEOMETRY
from atompack_torch.options import checked_integer, open_hint, redact_path

Self = TypeVar("Self", bound="ResidentDataset")


class ResidentDataset(MoleculeDataset):
    """A dataset of molecules that is in memory whole, with its edges.

        ds = apt.ResidentDataset(apt.AtpDataset("data.atp", neighbors=apt.NeighborList(5.0)))
        for batch in apt.Loader(ds, batch_size=64, shuffle=True):
            ...

    Batches equal those of the dataset that it is made of, bit for bit, with its options
    (``fields``, ``dtype``, ``missing``, ``neighbors``, ``transform``, ...) and numbers
    (``index``). Edges are found once, while the molecules are loaded, and only copied after that,
    except with ``augment``, which needs the CPU.

    On the CPU, records are kept as stored, in one block, from which the native core makes each
    batch on its threads. On another device there is one tensor for each field, and a batch is
    gathered by kernels on the current stream, without waiting for the device: sizes come from
    counts on the host. Strings and fields whose shape differs between molecules stay on the
    host, and follow in a copy.

    The number of bytes is computed before memory is taken. ``DataLoader`` workers that are forked
    use the same memory; for spawned ones it moves to shared memory once. A pickle holds all data.

    Args:
        dataset: a dataset of molecules, or a subset. Its molecules are numbered from 0 here.
        device: where the molecules are kept. For a device other than the CPU, samplers and
            ``Loader`` work as always, and a ``DataLoader`` needs ``num_workers=0``.
        max_bytes: limit on ``nbytes``; None: the free memory of the device.
        progress: True for a progress bar, or a function that is called with the number of further
            molecules that are done, in two passes (four with ``neighbors``).

    Raises:
        TypeError: the dataset is not one of molecules, or a mixture (make a mixture of datasets
            that are resident on the CPU instead), or an option has the wrong type.
        ValueError: the features or forces of the dataset cannot be kept on another device, or its
            molecules change in each epoch (``augment``). Later, a subset is made of molecules on
            another device, of whose forces only some are used (``force_subset``).
        MemoryError: more bytes are needed than ``max_bytes`` allows or than are free; both numbers
            are in the message.
        CorruptFileError: a record is damaged.
        FieldError: the neighbor search fails for a molecule, or on another device a value is
            missing with ``missing="error"``.
    """

    _of_this_process = (*MoleculeDataset._of_this_process, "_kept")
    _block: ResidentBlock
    _on_device: DeviceFields | None = None
    _rest: HostFields | None = None  # fields that stay on the host
    _kept: PrecomputedEdges | None = None

    def __init__(
        self,
        dataset: MoleculeDataset,
        device: torch.device | str | int = "cpu",
        *,
        max_bytes: int | None = None,
        progress: bool | OnProgress = False,
    ) -> None:
        if not isinstance(dataset, MoleculeDataset) or isinstance(dataset, ResidentDataset):
            kind = type(dataset).__name__
            hint = open_hint(dataset)
            raise TypeError(f"dataset: expected a dataset of molecules in files, got {kind}{hint}")
        if dataset._has_parts:
            raise TypeError(
                "dataset: expected one dataset, got a MixtureDataset: make a MixtureDataset of "
                "resident datasets"
            )
        if max_bytes is not None:
            checked_integer("max_bytes", max_bytes)
        self._device = torch.device(device)
        self._max_bytes = max_bytes
        self._origin = copy.copy(dataset)  # not affected by refresh() of the original
        self._path = dataset._path
        self._load(progress)

    def _load(self, progress: bool | OnProgress) -> None:
        origin = self._origin
        self._request, self._forces = origin._request, origin._forces
        self._clock = self._clock or copy.copy(origin._clock)  # its own, from the same epoch
        self._digests = None
        self._computer, self._keeps_features = origin._computer, origin._keeps_features
        size, selection = origin._size(), origin._selection
        numbers = torch.arange(size) if selection is None else selection.clone()
        reader = origin.without_mapping()
        source = reader._source() if self._is_elsewhere else reader._open_source()
        self._numbers = numbers
        self._rows = count_stored_rows(source, numbers.numpy())
        # Edges of molecules that change are found for each batch.
        kept = (
            self._request
            if self._request.augment is None
            else replace(self._request, neighbors=None)
        )
        n_passes = 2 if kept.neighbors is None else 4
        with reporting(progress, n_passes * len(numbers), "loading") as report:
            if self._is_elsewhere:
                self._on_device, self._rest = load_on_device(
                    origin, source, numbers, self._rows, self._device, self._max_bytes, report
                )
            else:
                wanted = [self._request]
                if self._computer is not None:
                    wanted.append(self._computer.input_request(self._request))
                requests = [request.native(source, self._path) for request in wanted]
                self._block = load_block(
                    source,
                    numbers,
                    self._rows[:, 0],
                    kept,
                    requests,
                    self._path,
                    self._max_bytes,
                    report,
                )
                geometry = {(BUILTIN, key) for key in GEOMETRY}
                self._loaded = [
                    field
                    for field in declared_fields(source)
                    if (field.scope, field.key) in geometry
                    or any(request.selects(field) for request in requests)
                ]
        reader.close()

    @property
    def _is_elsewhere(self) -> bool:
        return self._device.type != "cpu"

    @property
    def path(self) -> Path | str | tuple[Path | str, ...]:
        """Path of the dataset that was loaded."""
        return self._origin.path

    @property
    def device(self) -> torch.device:
        """Device of the molecules and of batches."""
        return self._device

    @property
    def nbytes(self) -> int:
        """Bytes of all molecules and their edges on the device (that of the host for the CPU)."""
        if self._on_device is not None:
            return self._on_device.n_bytes
        return self._block.memory.numel()

    def _size(self) -> int:
        return len(self._numbers)

    def _atom_counts(self) -> Tensor:
        return self._rows[:, 0].contiguous()

    def _block_sizes(self) -> Tensor:
        return torch.tensor([self._size()] if self._size() else [], dtype=torch.int64)

    def _identity(self) -> Any:
        return [self._origin._identity(), self._numbers.tolist()]

    def _contents(self, n: int) -> list[object]:
        return self._loaded_part()._contents(n)

    def _open_source(self) -> MoleculeSource:
        return self._origin._source() if self._is_elsewhere else self._block.source()

    def _source(self) -> MoleculeSource:
        source = self._open_source()
        if self._forces is None or self._is_elsewhere:
            return source
        origin = self._origin
        candidates = origin._force_entries()
        candidates = candidates[torch.isin(candidates, self._loaded_numbers())]
        flags = flags_of(self._forces, candidates, origin._size(), self.current_epoch)
        return ForceSubsetSource(source, [flags[number] for number in self._numbers.tolist()])

    def _batcher_over(self, source: MoleculeSource) -> MoleculeBatcher:
        native = self._request.native(source, self._path, self.current_epoch)
        if self._is_elsewhere:
            return MoleculeBatcher(source, native)
        loaded = set(self._loaded)
        for field in declared_fields(source):
            if native.selects(field) and field not in loaded:
                raise FieldError(
                    f"{redact_path(self._path)}: expected a field that was loaded, got one that "
                    "the dataset omitted by fields= or exclude= before it became resident "
                    f"(field {field.key!r})"
                )
        if self._kept is None and self._block.edges:
            searched = self._origin._request.of_edges()
            self._kept = self._block.kept_edges(searched.native(source, self._path))
        return MoleculeBatcher(source, native, self._kept)

    def __getstate__(self) -> dict[str, Any]:
        if self._is_elsewhere:
            raise TypeError(
                f"ResidentDataset: expected one on the CPU, got {self._device}, which cannot be "
                "pickled: use a Loader, or a DataLoader with num_workers=0"
            )
        return super().__getstate__()

    def __copy__(self) -> ResidentDataset:
        other = object.__new__(type(self))
        other.__dict__.update(super().__getstate__())
        return other

    def refresh(self) -> bool:
        """Loads the molecules again if the files have changed.

        Returns:
            True if they have changed.

        Raises:
            IndexError: molecules of a subset no longer exist; the dataset is unchanged.
            MemoryError: there is not enough memory for the new state.
        """
        if not self._origin.refresh():
            return False
        self._check_selection(len(self._origin))
        self._load(False)
        self.close()
        return True

    def _molecule(self, item: Any) -> Molecule:
        if not self._is_elsewhere:
            return super()._molecule(item)
        number = resolve_indices([item], self._size(), self._selection, self.item_name)
        return self._gather(number, drops=False)[0]

    def batch(self, indices: Indices) -> MoleculeBatch:
        """Collates molecules into one batch, on the device of the dataset.

        Args:
            indices: a list, range, array or tensor of integers in any order, repeats allowed,
                negative ones from the end; or a mask of ``len(self)`` booleans.

        Returns:
            The batch; ``index`` (B,) int64 holds the numbers in the dataset that was loaded. With
            ``transform``, its result instead.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
            FieldError: a value is missing and ``missing="error"``, or a trainer's tensors are
                wanted on a device.
            RuntimeError: this is a ``DataLoader`` worker, and the molecules are on a device.
        """
        return super().batch(indices)

    def _loaded_numbers(self) -> Tensor:
        """Returns the numbers that the molecules here have in the dataset that was loaded."""
        return self._numbers if self._selection is None else self._numbers[self._selection]

    def _loaded_part(self) -> MoleculeDataset:
        """Returns the molecules here as a subset of the dataset that was loaded."""
        part = copy.copy(self._origin)
        part._selection = self._loaded_numbers()
        return part

    def _on_host(self) -> MoleculeDataset:
        return self._loaded_part() if self._is_elsewhere else self

    @property
    def selection(self) -> Tensor | None:
        """(len,) int64: numbers of the items in ``source()``; None: all."""
        return self._loaded_numbers() if self._is_elsewhere else self._selection

    def with_request(self: Self, request: Request, *, computes_features: bool = True) -> Self:
        """Makes a copy that reads other things; from the files, if the molecules are elsewhere.

        Args:
            request: replaces that of this dataset.
            computes_features: False for a copy without computed features.

        Returns:
            The copy.
        """
        if not self._is_elsewhere or request.outputs:  # which are refused
            return super().with_request(request, computes_features=computes_features)
        copied: Any = self._on_host().with_request(request, computes_features=computes_features)
        return copied  # type: ignore[no-any-return]

    def _select(self, numbers: Tensor) -> ResidentDataset:
        if self._is_elsewhere and self._forces is not None:
            raise ValueError(
                f"subset: expected a dataset without force_subset on {self._device}, where the "
                "molecules with forces are chosen while they are loaded: make the subset resident"
            )
        return super()._select(numbers)

    def _make(self, indices: Indices) -> MoleculeBatch:
        if not self._is_elsewhere:
            return super()._make(indices)
        if get_worker_info() is not None:
            raise RuntimeError(
                f"ResidentDataset: the molecules are on {self._device}, which worker processes "
                "cannot use: use a Loader, or a DataLoader with num_workers=0"
            )
        numbers = resolve_indices(indices, self._size(), self._selection, self.item_name)
        batch = self._gather(numbers, drops=self.drops_items)
        if self.drops_items and not self._has_warned:
            self._has_warned = warn_of_batch(indices, batch)
        return batch

    def _gather(self, numbers: Tensor, drops: bool) -> MoleculeBatch:
        fields = self._on_device
        assert fields is not None
        if self._request.outputs:
            raise FieldError(
                "expected molecules on the CPU, where the tensors of trainers are made, got "
                f"{self._device}: use ResidentDataset(dataset) and Loader(..., device=)"
            )
        if drops:
            numbers = numbers[fields.complete[numbers]]
        made, masks = fields.gather(numbers)
        values: dict[str, Any] = dict(made)
        infos, mask_rows = fields.infos, {name: row for row, name in enumerate(fields.mask_names)}
        if self._rest is not None:
            rest = self._rest.batch(numbers).to(self._device, non_blocking=True)
            stored = contents_of(rest)
            own = [name for name in stored.mask_rows if name not in made]
            values |= {name: rest[name] for name in own}
            infos = infos | {name: stored.infos[name] for name in own}
            mask_rows |= {name: len(masks) + stored.mask_rows[name] for name in own}
            if stored.masks is not None:
                masks = torch.cat([masks, stored.masks])
        unlisted = [name for name in values if name not in fields.infos]
        values = {name: values[name] for name in (*fields.order, *unlisted)}
        return MoleculeBatch(values, {name: infos[name] for name in values}, masks, mask_rows)

    def _start_prefetch(self, num_threads: int, max_ready: int, pinned: bool) -> BatchPrefetcher:
        if not self._is_elsewhere:
            return super()._start_prefetch(num_threads, max_ready, pinned)
        return _DeviceBatches(self)

    def _add_features(self, batch: MoleculeBatch) -> MoleculeBatch:
        if self._computer is None:
            return batch
        whole = self._feature_input()
        order = torch.argsort(self._numbers, stable=True)
        ascending = self._numbers[order]

        def structures(numbers: Tensor) -> MoleculeBatch:
            return whole.batch(order[torch.searchsorted(ascending, numbers)])

        return self._computer.add_to(batch, structures, self._keeps_features)

    def __repr__(self) -> str:
        return (
            f"ResidentDataset({len(self)} molecules in {self.nbytes:,} bytes on {self._device}, "
            f"from {self._origin!r})"
        )


class _DeviceBatches:
    """A ``BatchPrefetcher`` whose batches are made when they are taken."""

    def __init__(self, dataset: ResidentDataset) -> None:
        self._dataset = dataset
        self._asked: deque[Indices] = deque()

    def submit(self, indices: Indices) -> bool:
        """Requests a batch; returns False, as nothing is gained by requesting more."""
        self._asked.append(indices)
        return False

    def take(self) -> MoleculeBatch:
        """Makes and returns the oldest batch."""
        indices = self._asked.popleft()
        batch = self._dataset._make(indices)
        return self._dataset._never_empty(indices, batch) if n_ranks() > 1 else batch

    def __len__(self) -> int:
        return len(self._asked)
