"""Common base of all datasets of this package, which make whole batches in one call."""

from __future__ import annotations

import copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import Dataset, get_worker_info

from atompack_torch._core import Batcher, Prefetcher, resolve_indices
from atompack_torch.batch.indices import Indices, check_several
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets import transport as transport  # registers how batches cross processes
from atompack_torch.datasets.collated import as_items
from atompack_torch.datasets.digest import digest_of, samples_of
from atompack_torch.datasets.html import dataset_html
from atompack_torch.datasets.selection.blocks import Array, Block, deal, deal_strata, sizes_of
from atompack_torch.datasets.selection.expressions import Expression
from atompack_torch.datasets.selection.grouping import GroupBy, Strata
from atompack_torch.datasets.sweeping import OnProgress, reporting
from atompack_torch.errors import CorruptFileError, FieldError
from atompack_torch.fields import FieldSpec
from atompack_torch.options import checked_integer, redact_path
from atompack_torch.random_order import shuffled

_AT_ONCE = 1024  # items in which another is looked for
_HINT = "filter('has(LABEL)') selects those that have a label beforehand"

Item = TypeVar("Item", covariant=True)
Batch = TypeVar("Batch", covariant=True)
Made = TypeVar("Made")
Self = TypeVar("Self", bound="BatchDataset[Any, Any]")


class BatchPrefetcher(Protocol):
    """Batches that native threads make ahead of their use, in the order of the requests.

    One thread may submit requests while another takes batches.
    """

    def submit(self, indices: Indices) -> bool:
        """Requests a batch, without waiting; returns True if there is room for more requests."""

    def take(self) -> Any:
        """Returns the oldest batch, or raises the error that stopped it."""

    def __len__(self) -> int:
        """Number of batches that were requested and not taken."""


class BatchDataset(Dataset[Item], Generic[Item, Batch]):
    """Base of all datasets: a map-style dataset that makes whole batches in one call.

    Annotations have the types of items and batches without ``transform``, whose result
    replaces the batch.
    """

    item_name: ClassVar[str] = "molecule"  # name of an item in errors
    _has_parts: ClassVar[bool] = False  # made of other datasets
    _transform: Callable[[Any], Any] | None = None  # given by the user
    _molecules: Callable[..., Any] | None = None  # makes batches of the molecules in examples
    _has_full_schema = True  # False: it is that of some items
    _selection: Tensor | None = None  # items of a subset, as numbers in the whole dataset
    _digests: dict[int, str] | None = None  # known ones, by number of items

    @property
    def path(self) -> Path | str | tuple[Path | str, ...]:
        """Path as given: a ``Path``, a URL as a string, or a tuple of them for several files."""
        raise NotImplementedError

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """Fields of a batch: name → dtype, level and shape of one row."""
        raise NotImplementedError

    def batch(self, indices: Indices) -> Batch:
        """Collates items into one batch; see the classes of datasets."""
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

    @property
    def selection(self) -> Tensor | None:
        """(len,) int64: numbers in the whole dataset of the items of a subset; None: all."""
        return self._selection

    def _size(self) -> int:
        """Returns the number of items in the whole dataset."""
        raise NotImplementedError

    def _block_sizes(self) -> Tensor:
        """Returns the number of items in each block of the whole dataset, int64."""
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

    def _repr_html_(self) -> str | None:
        try:
            n_atoms: Tensor | None = getattr(self, "n_atoms", None)
            return dataset_html(repr(self), len(self), self.item_name, self.schema, n_atoms)
        except (OSError, CorruptFileError):  # the files have changed: notebooks show the repr
            return None

    def digest(self, n: int | None = None) -> str:
        """Returns a digest of the first ``n`` items (None: all) and their order, for states.

        Args:
            n: number of items; None: all.

        Returns:
            16 hexadecimal digits.
        """
        n = len(self) if n is None else n
        if self._digests is None:
            self._digests = {}
        if n not in self._digests:
            self._digests[n] = digest_of(*self._contents(n))
        return self._digests[n]

    def _contents(self, n: int) -> list[object]:
        """Returns values that the digest of the first ``n`` items is made of."""
        part = self.subset(range(n))
        return [n, self.item_name, [part[number] for number in samples_of(n)]]

    def __len__(self) -> int:
        return self._size() if self._selection is None else len(self._selection)

    def __iter__(self) -> Iterator[Item]:
        """Yields the items one by one, without ``transform``; a ``Loader`` yields batches."""
        return (self[number] for number in range(len(self)))

    def __getitems__(self, indices: Sequence[int]) -> list[object]:
        """Returns a list of one collated batch, for ``DataLoader``; see ``collate_identity``."""
        return as_items(self.batch(indices))

    def prefetch(self, num_threads: int, max_ready: int, pinned: bool) -> BatchPrefetcher:
        """Starts threads that make batches, to which ``apply_transform`` is still to be applied.

        Args:
            num_threads: number of threads; each makes one batch at a time.
            max_ready: number of batches to make ahead.
            pinned: make batches in page-locked memory.

        Returns:
            What makes the batches that are requested.
        """
        return self._start_prefetch(num_threads, max_ready, pinned)

    def _start_prefetch(self, num_threads: int, max_ready: int, pinned: bool) -> BatchPrefetcher:
        return NativePrefetcher(self, num_threads, max_ready, pinned)

    @property
    def drops_items(self) -> bool:
        """True if batches omit items that lack a label."""
        return False

    def _make(self, indices: Indices) -> Any:
        """Makes a batch, to which ``transform`` is still to be applied."""
        raise NotImplementedError

    def _never_empty(self, indices: Indices, batch: Any) -> Any:
        """Returns a batch, or an item in its place if ``missing="drop"`` drops all items of it.

        For a ``DataLoader``, which cannot skip a batch, and ranks, which need equally many. The
        item is drawn at random, in the same way in every process.

        Args:
            indices: indices of the items.
            batch: what is left of them, before any ``transform``.

        Returns:
            A batch, before any ``transform``.

        Raises:
            FieldError: no item has all labels.
        """
        if not self.drops_items or self.count_items(batch) or not len(indices):
            return batch
        seed = int(indices[0]) % len(self)
        order = shuffled(seed, len(self))
        first, n = 0, 1
        while first < len(self):
            chosen = torch.from_numpy(order.between(first, min(first + n, len(self))))
            if self.count_items(self._make(chosen)):
                while len(chosen) > 1:
                    half = chosen[: len(chosen) // 2]
                    chosen = half if self.count_items(self._make(half)) else chosen[len(half) :]
                return self._make(chosen)
            first, n = first + n, min(2 * n, _AT_ONCE)
        raise FieldError(
            f"{redact_path(self.path)}: expected a {self.item_name} that has all labels "
            "(missing='drop'), got none"
        )

    def count_items(self, batch: Any) -> int:
        """Returns the number of items in a batch, before any ``transform``.

        Args:
            batch: the batch.

        Returns:
            The number.
        """
        return len(batch)

    def batcher(self) -> Batcher:
        """Returns the native batcher of the whole dataset, opened on first use in a process.

        Returns:
            The batcher.
        """
        raise NotImplementedError

    def _assemble(self, made: Any, indices: Indices) -> Any:
        """Builds the batch of these indices from the result of the native batcher."""
        raise NotImplementedError

    def apply_transform(self, batch: Any) -> Batch:
        """Applies the user's ``transform`` to a batch that is on its target device.

        Args:
            batch: the batch.

        Returns:
            Its result.
        """
        made: Batch = apply_transform(self._transform, batch)
        return made

    def _copy_for_subset(self: Self) -> Self:
        """Copies the dataset, to give the copy another selection."""
        return copy.copy(self)

    def subset(self: Self, indices: Indices) -> Self:
        """Returns the selected items as a dataset; no data is read or copied.

        Args:
            indices: integers in any order, repeats allowed, negative ones from the end; or a mask
                of ``len(self)`` booleans.

        Returns:
            The subset; its items are numbered from 0.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
        """
        check_several(indices)
        return self._select(resolve_indices(indices, self._size(), self._selection, self.item_name))

    def _select(self: Self, numbers: Tensor) -> Self:
        part = self._copy_for_subset()
        part._selection, part._digests = numbers, None
        return part

    def split(
        self: Self,
        fractions: Sequence[float],
        seed: int,
        by: str | None = None,
        *,
        stratify: str | None = None,
    ) -> list[Self]:
        """Splits the dataset at random.

        With ``by`` all items of a group get into the same part, so that frames of one trajectory,
        say, are not in the training and in the test set. The sizes are then as near to the
        fractions as whole groups permit. With ``stratify`` each part gets its share of the items of
        every group instead. The values are read in blocks; memory grows by a few bytes per item.

        Args:
            fractions: sizes of the parts, which add up to 1; 0 for an empty part.
            seed: the same seed gives the same parts.
            by: None; ``"name"`` or the name of another field with one string or number per
                molecule, equal in a group; or ``"formula"`` for groups of equal composition (a
                property of that name is ``"properties/formula"``).
            stratify: None; or as ``by``, the name of a field whose values are to be distributed
                alike in all parts. Reals, such as ``"energy"``, are grouped by up to 100 quantiles.

        Returns:
            One subset per fraction; together they have every item exactly once, with ``by`` and
            ``stratify`` in their order here, else in random order.

        Raises:
            ValueError: a fraction is negative, they do not add up to 1, or a part would be empty,
                as there are too few items or groups; or ``by`` and ``stratify`` are combined.
            FieldError: there is no field of this name, or an item lacks it, or it is NaN.
            TypeError: the seed is not an integer, or items have no fields to group by.
        """
        seed = checked_integer("seed", seed)
        if by is not None:
            if stratify is not None:
                raise ValueError("stratify: excludes by")
            return self._split(deal(self._groups(GroupBy(by)), fractions, seed))
        if stratify is not None:
            strata = Strata(stratify)
            groups = self._groups(strata)
            return self._split(deal_strata(groups, fractions, seed, are_ordered=strata.are_ordered))
        sizes = sizes_of(len(self), fractions)
        order = shuffled(seed, len(self))
        ends = np.cumsum([0, *sizes]).tolist()
        return self._split([torch.from_numpy(order.between(*part)) for part in pairwise(ends)])

    def group_numbers(self, by: str, option: str) -> Array:
        """Numbers the groups of items that have the same value of a field.

        Args:
            by: name of the field, or ``"formula"``.
            option: the option that names the field, for errors.

        Returns:
            (len,) int64, the group of each item.

        Raises:
            FieldError: there is no such field, or an item lacks a value.
        """
        return self._groups(GroupBy(by, option))

    def _groups(self, groups: GroupBy) -> Array:
        """Returns the number of the group of each item, (len(self),) uint64."""
        if not len(self):
            return np.zeros(0, np.uint64)
        if self._has_full_schema:
            groups.check(self._selectable())
        blocks = self._blocks(groups.fields)
        return np.concatenate([groups.numbers(block, first) for block, first in blocks])

    def filter(self: Self, expression: str, *, progress: bool | OnProgress = False) -> Self:
        """Selects the items for which an expression is true.

            stable = ds.filter("energy / n_atoms < -3 and n_atoms <= 200 and 'Fe' in elements")

        The expression has the syntax of Python; it is parsed, not executed. It knows numbers,
        strings, comparisons, ``and``, ``or``, ``not``, ``in``, arithmetic (in float64), and:

        - fields with one number or string per molecule, by name, and
          ``field("any name")`` for names that are not identifiers;
        - ``n_atoms``, ``n_elements``, ``elements`` (``'Fe' in elements``, ``elements <= {'C',
          'H'}``), ``count('Fe')``, ``formula`` (in Hill order), ``volume`` (Å³), ``periodic``,
          ``max_force``, ``rms_force`` (of the components; units of the file), ``index``;
        - for values of atoms and vectors ``max``, ``min``, ``mean``, ``sum`` (over all values of
          a molecule), ``any``, ``all`` (of conditions) and ``norm`` (over the last axis), as in
          ``max(norm(forces)) < 10``;
        - ``abs``, ``sqrt``, ``exp``, ``log``, ``isnan``, ``startswith(name, 'a')``, ``endswith``.

        Every comparison with a missing or NaN value is False, ``!=`` too; ``has(energy)`` says
        which molecules have a label. Only the fields that occur are read, in blocks; values are
        as stored, whatever ``dtype`` and ``fields`` are.

        Args:
            expression: the expression.
            progress: True for a progress bar, or a function that is called with the number of
                further items that are done.

        Returns:
            The subset, in the same order.

        Raises:
            FieldError: the expression is wrong; the message has the position.
            CorruptFileError: a record or a requested value is damaged.
            TypeError: items are not molecules.
        """
        parsed = Expression(expression)
        if not len(self):
            return self.subset(range(0))
        known = self._selectable()
        if self._has_full_schema:
            parsed.check(known)
        fields = parsed.fields_of(known) if parsed.needs_structures else None
        keep = np.zeros(len(self), bool)
        with reporting(progress, len(self), "filter", f"{self.item_name}s") as report:
            for block, first in self._blocks(fields):
                known |= block.names
                found = parsed.evaluate(block)
                keep[first : first + len(found)] = found
                report(len(found))
        parsed.check(known)
        return self.subset(torch.from_numpy(keep))

    def _selectable(self) -> set[str]:
        """Returns the names of the fields that ``split`` and ``filter`` may read."""
        return {*self.schema, "index"}

    def _blocks(self, fields: Sequence[str] | None) -> Iterator[tuple[Block, int]]:
        """Yields all items in order with these fields, and the number of the first in each block.

        None: only the numbers of atoms.
        """
        kind = type(self).__name__
        raise TypeError(f"expected a dataset of molecules, got {kind}, which has no labels")

    def _split(self: Self, numbers: Sequence[Tensor]) -> list[Self]:
        """Returns subsets, of which the first is for training.

        Args:
            numbers: int64 tensors or arrays, which the subsets keep; items of this dataset.
        """
        whole = self._selection
        parts = [torch.as_tensor(part, dtype=torch.int64) for part in numbers]
        return [self._select(part if whole is None else whole[part]) for part in parts]

    def _check_selection(self, n_items: int) -> None:
        """Raises an error if a subset would have items beyond the end after a refresh."""
        if self._selection is None or not len(self._selection):
            return
        needed = int(self._selection.max()) + 1
        if needed > n_items:
            raise IndexError(
                f"subset: expected at least {needed} {self.item_name}s, got {n_items} after refresh"
            )


class NativePrefetcher:
    """A ``BatchPrefetcher`` of native threads.

    Args:
        dataset: makes the batches.
        num_threads: number of native threads.
        max_ready: number of batches, finished or being made, at which it has no more room.
        pinned: whether batches are made in page-locked memory.

    Attributes:
        n_dropped: number of items that ``missing="drop"`` dropped from the batches delivered.
    """

    def __init__(
        self, dataset: BatchDataset[Any, Any], num_threads: int, max_ready: int, pinned: bool
    ) -> None:
        self._dataset = dataset
        self._native = Prefetcher(dataset.batcher(), num_threads, max_ready, pinned)
        self._selection = dataset._selection  # of the epoch in which the pass begins
        self._asked: deque[Indices] = deque()
        self._counts_drops = dataset.drops_items
        self._is_shared = n_ranks() > 1  # so that no batch can be skipped
        self.n_dropped = 0

    def submit(self, indices: Indices) -> bool:
        """Requests a batch; returns True if there is room for more requests."""
        self._asked.append(indices)  # first: another thread may take batches in the meantime
        try:
            has_room: bool = self._native.submit(indices, self._selection)
        except BaseException:
            self._asked.pop()
            raise
        return has_room

    def take(self) -> Any:
        """Returns the oldest batch."""
        indices = self._asked[0]
        try:
            made = self._native.take(self._dataset._molecules)
        finally:
            if len(self._asked) > len(self._native):  # Ctrl-C leaves the batch there
                self._asked.popleft()
        batch = self._dataset._assemble(made, indices)
        if self._counts_drops:
            self.n_dropped += n_dropped(indices, batch)
            if self._is_shared:
                batch = self._dataset._never_empty(indices, batch)
        return batch

    def __len__(self) -> int:
        return len(self._asked)


def n_ranks() -> int:
    """Returns the number of ranks in torch.distributed; 1 without it."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if distributed else 1


def apply_transform(transform: Callable[[Any], Any] | None, batch: Made) -> Made:
    """Returns the result of ``transform``, or the batch itself without one.

    Args:
        transform: the user's function or None.
        batch: its argument.

    Returns:
        The result, annotated as if there were no ``transform``.

    Raises:
        TypeError: the result is None.
        RuntimeError: ``transform`` raised StopIteration, which would end the loop over the batches.
    """
    if transform is None:
        return batch
    try:
        made: Made | None = transform(batch)
    except StopIteration as error:
        raise RuntimeError("transform raised StopIteration") from error
    if made is None:
        name = getattr(transform, "__qualname__", repr(transform))
        raise TypeError(
            f"transform: expected a batch, got None from {name}; a function that changes the batch "
            "in place has to return it too"
        )
    return made


def n_dropped(indices: Indices, batch: Any) -> int:
    """Returns the number of items that were asked for and are not in a batch.

    Args:
        indices: indices of the items, or a mask.
        batch: the batch, before any ``transform``.

    Returns:
        The number; 0 if the batch is not one of molecules.
    """
    if not isinstance(batch, MoleculeBatch):
        return 0
    numbers = np.asarray(indices.cpu() if isinstance(indices, Tensor) else indices)
    n = int(numbers.sum()) if numbers.dtype == bool else numbers.size
    return n - len(batch)


def warn_of_batch(indices: Indices, batch: Any) -> bool:
    """Warns of items that a single batch lacks, in one worker of a ``DataLoader`` at most.

    Args:
        indices: indices of the items, or a mask.
        batch: the batch, before any ``transform``.

    Returns:
        True if any was omitted; later batches need no warning.
    """
    n = n_dropped(indices, batch)
    worker = get_worker_info()
    if n and (worker is None or worker.id == 0):
        warnings.warn(
            f"missing='drop': dropped {n:,} of {n + len(batch):,} molecules of a batch, which "
            f"lack a label; later batches may drop more without a warning; {_HINT}",
            stacklevel=5,
        )
    return n > 0


def warn_of_pass(n: int) -> None:
    """Warns of the items that a whole pass of a ``Loader`` dropped.

    Args:
        n: number of items omitted.
    """
    warnings.warn(
        f"missing='drop': dropped {n:,} molecules in this pass, which lack a label; {_HINT}",
        stacklevel=4,
    )
