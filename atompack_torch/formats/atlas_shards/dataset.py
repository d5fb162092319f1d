"""Examples of datasets of Atlas shards."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch import formats
from atompack_torch._core import ExampleBatcher, read_example, resolve_index, resolve_indices
from atompack_torch._native import ShardReader
from atompack_torch.batch.indices import Indices, is_batch
from atompack_torch.batch.molecule_batch import MoleculeBatch
from atompack_torch.datasets.batches import BatchDataset, BatchPrefetcher
from atompack_torch.datasets.options import DatasetOptions, DTypes, Missing
from atompack_torch.datasets.selection.blocks import BatchBlock, Block
from atompack_torch.datasets.transport import as_payload
from atompack_torch.errors import CorruptFileError
from atompack_torch.fields import FieldSpec
from atompack_torch.formats.atlas_shards.examples import (
    Examples,
    cast_floats,
    complete_examples,
    molecules_of,
    specs_of_batch,
)
from atompack_torch.options import absolute_location, check_choice, is_url, redact_path, utf8
from atompack_torch.remote.files import RemoteFiles

KEPT_BLOCKS = 16  # by default


def unpickle_blocks(reader: ShardReader, most: int) -> Callable[[int, int], Any]:
    """Returns a function that unpickles a block, and keeps the ``most`` that were used last."""

    @lru_cache(int(most))  # it refuses integers of NumPy
    def unpickle(shard: int, block: int) -> Any:
        return pickle.loads(reader.read_block(shard, block))

    return unpickle


class PickledQueue:
    """Batches of examples that Python unpickles, made when they are taken.

    Args:
        n: number of examples in the dataset.
        collate: returns the arena and the batch of indices.
    """

    def __init__(self, n: int, collate: Callable[[Indices], tuple[Tensor | None, Any]]) -> None:
        self._n, self._collate = n, collate
        self._asked: deque[Tensor] = deque()

    def submit(self, indices: Indices) -> bool:
        """Queues a batch; False: it is made when it is taken."""
        self._asked.append(resolve_indices(indices, self._n, None, "example"))
        return False

    def take(self) -> Any:
        """Makes the batch that was queued first."""
        return self._collate(self._asked.popleft())[1]

    def __len__(self) -> int:
        return len(self._asked)


# Result of the native core: (arena, batch, None), or (None, examples, their numbers) for examples
# that are not alike.
HandedOver = tuple[Tensor | None, Any, Sequence[int] | None]

MissingShards = Literal["renumber", "error", "keep"]

# Shards of a local dataset when it was opened: their number, and a digest of their metadata.
Generation = tuple[int, str]

# Identity of the files: of meta.json, or the fingerprint of a remote dataset.
Version = tuple[int, ...] | str

_MAX_ATTEMPTS = 1000


def local_version(root: str) -> Version:
    """Returns the identity of a local root's `meta.json`."""
    try:
        found = (Path(root) / "meta.json").stat()
    except OSError:
        return ()  # opening reports it
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _open_one_generation(
    root: str, opened: Callable[[], ShardReader]
) -> tuple[ShardReader, Version]:
    """Opens again while a writer exchanges the folder, of which one could see parts of two."""
    for attempts_left in reversed(range(_MAX_ATTEMPTS)):
        version = local_version(root)
        try:
            reader = opened()
        except (OSError, CorruptFileError):
            if not attempts_left or local_version(root) == version:
                raise
        else:
            if not attempts_left or local_version(root) == version:
                return reader, version
    raise AssertionError("the last attempt returns or raises")


class ReadOptions(NamedTuple):
    """Options by which files are opened, and examples become batches.

    Attributes:
        cache_blocks: number of decoded blocks to keep; None: as many as fit in 256 MiB.
        allow_pickle: unpickle blocks in Python.
        jagged: join arrays that differ in their first dimension.
        levels: True for keys of atoms, False for keys of molecules.
        num_threads: maximum number of threads for a batch; None: as many as torch uses.
        missing_shards: treatment of lost shards.
    """

    cache_blocks: int | None
    allow_pickle: bool
    jagged: bool
    levels: Mapping[str, bool]
    num_threads: int | None
    missing_shards: MissingShards


class OpenShards:
    """Open files of a dataset, and its batches.

    Args:
        root: absolute path or URL of the folder.
        remote: access to remote files.
        options: see ``ReadOptions``.
        n_shards: number of shards to use, the first ones; None: all.
    """

    def __init__(
        self, root: str, remote: RemoteFiles, options: ReadOptions, n_shards: int | None
    ) -> None:
        how = options.missing_shards, n_shards
        place, store = remote.location(root)
        self.version: Version
        with formats.opening(root, "a folder of Atlas shards", "shards"):
            if store is None:
                self.reader, self.version = _open_one_generation(
                    root, lambda: ShardReader(place, options.cache_blocks, *how)
                )
            else:
                location = place.rstrip("/"), store
                self.reader = ShardReader(location, options.cache_blocks, *how)
                self.version = self.reader.fingerprint
        self._needs_process = None if store is None else os.getpid()
        self.native: ExampleBatcher | None = None
        self.unpickle: Callable[[int, int], Any] | None = None
        self._options = options
        if options.allow_pickle:
            kept = KEPT_BLOCKS if options.cache_blocks is None else options.cache_blocks
            self.unpickle = unpickle_blocks(self.reader, kept)
        else:
            self.native = ExampleBatcher(
                self.reader,
                jagged=options.jagged,
                levels=options.levels,
                max_threads=options.num_threads or 0,
            )

    def generation(self) -> Generation:
        """Returns what a later generation begins with if shards are appended."""
        n_shards = len(self.reader.shards())
        return n_shards, self.reader.fingerprint_of_first(n_shards) or ""

    def continues(self, generation: Generation | None) -> bool:
        """True if the first shards are those of an earlier generation."""
        if generation is None or self._needs_process is not None:
            return False
        return self.reader.fingerprint_of_first(generation[0]) == generation[1]

    def is_of_another_process(self) -> bool:
        """True if they need threads that another process has: those of a remote store."""
        return self._needs_process not in (None, os.getpid())

    def example(self, number: int) -> Any:
        """Reads one example."""
        if self.unpickle is not None:
            shard, block, position = self.reader.locate(number)
            return self.unpickle(shard, block)[position]
        return read_example(self.reader, number)

    def whole(self, made: HandedOver) -> tuple[Tensor | None, Any]:
        """Returns arena and batch from the native core's result: a batch, or decoded examples."""
        arena, batch, numbers = made
        return (arena, batch) if numbers is None else (None, self.collate_in_python(numbers, batch))

    def collate_in_python(self, numbers: Sequence[int], examples: list[Any] | None = None) -> Any:
        """Collates examples that the native core does not support."""
        levels = self._options.levels if self.native is None else self.native.levels()
        if examples is None:
            examples = [self.example(number) for number in numbers]
        return Examples(numbers, levels, jagged=self._options.jagged).collate(examples)


Layout = Literal["list", "jagged"]
LevelName = Literal["atom", "molecule"]

_AT_ONCE = 1024  # examples per batch in passes of the dataset itself


class ShardDataset(BatchDataset[object, object]):
    """Examples from a folder of shards of torch_atlas_ds, as a map-style dataset.

        for batch in DataLoader(ShardDataset("train"), batch_size=64):
            ...

    ``ds[i]`` is the stored example. Its arrays, NumPy scalars and tensors are returned as tensors
    of the same dtype that own their memory; values without a torch dtype (strings, dates, records,
    objects) stay NumPy values. Numbers, strings, bytes, lists, tuples and dicts stay as they are.

    A batch is the result of torch's ``default_collate``, with two exceptions. Dicts with both
    ``positions`` and ``atomic_numbers`` become a ``MoleculeBatch``: labels by their names, other
    keys as custom properties, of atoms if their arrays have one row per atom. Arrays that differ
    in shape become a list of tensors.

    Pickles are not executed: only data is decoded, anything else is an ``UnsafePickleError``. Files
    are opened by the first read in each process; the dataset may be pickled, forked, and used by
    several threads at the same time. Shuffle with ``BlockShuffleSampler``, since a block is read
    and decoded as a whole: ranks share no block if their number divides its ``lanes``, nor do the
    workers of a ``DataLoader`` that it knows (``workers``, ``batch_size``), and the threads of a
    ``Loader`` decode each block once for all.

    Args:
        path: folder of the dataset, or its URL (``s3://``, ``gs://``, ``https://``); also
            accepted as ``root``.
        allow_pickle: decode blocks with ``pickle.loads``, which executes code from the file; only
            for data that you trust like a program. Examples are then the unpickled objects
            themselves, shared by all reads of a cached block. Batches are made in Python, and a
            ``Loader`` makes none ahead: for speed, use a ``DataLoader`` with workers.
        cache_blocks: number of decoded blocks to keep, at least the window of the sampler; None:
            as many as fit in 256 MiB.
        layout: ``"list"``, or ``"jagged"``: arrays that differ only in their first dimension
            become two tensors, the rows of all examples (total, ...) and the first row of each
            (B + 1,) int64, as ``NAME`` and ``NAME_offsets`` in a dict, as a pair elsewhere.
        levels: level of custom keys of molecules, ``"atom"`` or ``"molecule"``; others are
            determined from the first examples and some further ones.
        dtype: dtype of all floating tensors except ``energy``, or a dict from keys to dtypes; None:
            as stored. Tensors are cast after collation, which takes a second copy.
        missing: treatment of molecules that lack a field of their batch: ``"nan"`` fills in NaN
            and masks it, ``"error"`` raises ``FieldError``, ``"drop"`` leaves the example out.
        transform: called with every batch in the process that made it.
        num_threads: maximum number of threads for a batch; None: as many as torch uses.
        storage_options: options of the remote store of a URL; see ``AtpDataset``.
        missing_shards: treatment of shards whose files are lost. ``"renumber"``: as torch_atlas_ds,
            the examples of the others are numbered consecutively, with a warning, and a missing
            file is an error when it is read. ``"error"``: a ``FileNotFoundError`` immediately.
            ``"keep"``: the others keep their numbers, and reading a lost example is a
            ``FileNotFoundError``; ``ds.subset(ds.is_present)`` leaves the lost ones out.

    Raises:
        TypeError: an option has the wrong type.
        ValueError: an option does not have one of its values.
        FileNotFoundError: a ``meta.json`` or a shared dictionary does not exist.
        UnsupportedFormatError: the version or strategy is not supported.
        CorruptFileError: a ``meta.json`` is not JSON.
        OSError: a file cannot be read. For a URL also PermissionError, TimeoutError, or ESTALE if
            the files have changed since they were opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        allow_pickle: bool = False,
        cache_blocks: int | None = None,
        layout: Layout = "list",
        levels: Mapping[str, LevelName] | None = None,
        dtype: DTypes | None = None,
        missing: Missing = "nan",
        transform: Callable[[Any], Any] | None = None,
        num_threads: int | None = None,
        storage_options: Mapping[str, object] | None = None,
        missing_shards: MissingShards = "renumber",
    ) -> None:
        self._remote = RemoteFiles.checked(storage_options, path)
        self._options = DatasetOptions(
            dtype=dtype, missing=missing, transform=transform, num_threads=num_threads
        )
        if cache_blocks is not None and cache_blocks < 0:
            raise ValueError(f"cache_blocks: expected at least 0, got {cache_blocks}")
        check_choice("layout", layout, ("list", "jagged"))
        check_choice("missing_shards", missing_shards, ("renumber", "error", "keep"))
        for key, level in (levels or {}).items():
            if level not in ("atom", "molecule"):
                raise ValueError(f"levels: expected atom or molecule for {key!r}, got {level!r}")
        self._transform = transform
        self._root = absolute_location(path)
        is_of_atoms = {utf8("levels", key): at == "atom" for key, at in (levels or {}).items()}
        self._reading = ReadOptions(
            cache_blocks, allow_pickle, layout == "jagged", is_of_atoms, num_threads, missing_shards
        )
        self._version: Version | None = None
        self._generation: Generation | None = None
        self._n = len(reader := (opened := self._open()).reader)
        self._generation = opened.generation()
        if (warning := reader.shard_sizes_warning()) is not None:
            warnings.warn(warning, stacklevel=3)

    def _open(self) -> OpenShards:
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        opened = self._opened
        if opened is None or opened.is_of_another_process():
            opened = self._open_current()
            if self._version is None:
                self._version = opened.version
            elif opened.version != self._version:
                opened = self._open_earlier(opened)
            self._opened = opened
        return opened

    def _open_earlier(self, current: OpenShards) -> OpenShards:
        """Opens the shards of the dataset that was opened first, to which others were appended."""
        if self._generation is None or not current.continues(self._generation):
            raise OSError(
                errno.ESTALE,
                "another dataset is here than the one that was opened first: open it again",
                self._shown,
            )
        return self._open_current(self._generation[0])

    def _open_current(self, n_shards: int | None = None) -> OpenShards:
        return OpenShards(self._root, self._remote, self._reading, n_shards)

    @property
    def _is_remote(self) -> bool:
        return is_url(self._root)

    @property
    def _shown(self) -> str:
        """Path, or URL without secrets, for messages."""
        return redact_path(self._root)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    item_name = "example"
    _has_full_schema = False
    _molecules = staticmethod(molecules_of)
    _opened: OpenShards | None = None  # in this process

    def _size(self) -> int:
        return self._n

    @property
    def path(self) -> Path | str:
        """Absolute path of the folder, or its URL."""
        return self._root if self._is_remote else Path(self._root)

    @property
    def root(self) -> str:
        """Absolute path of the folder, or its URL, as a string."""
        return self._root

    @property
    def schema(self) -> dict[str, FieldSpec]:
        """Fields of the first example, as a batch holds them; shards store no schema.

        Name → dtype, level (``"molecule"``: one row per example) and shape of one row. Other
        examples may differ. Keys that are neither tensors nor strings are omitted; it is empty
        without examples, and for examples that are not dicts.
        """
        if self._n == 0:
            return {}
        whole = copy.copy(self)
        whole._selection, whole._options = None, DatasetOptions(dtype=self._options.dtype)
        return specs_of_batch(whole._collate_examples([0])[1])

    def refresh(self) -> bool:
        """Switches to the dataset that is now at the path; a subset keeps its numbers.

        Returns:
            True if it is a different one.

        Raises:
            IndexError: examples of a subset no longer exist; the dataset is unchanged.
            FileNotFoundError: there is no dataset any more.
            CorruptFileError: a ``meta.json`` is not JSON.
        """
        if not self._is_remote and local_version(self._root) == self._version:
            return False
        with self._remote.refreshing():
            current = self._open_current()
            if self._is_remote and current.version == self._version:
                return False
            self._check_selection(len(current.reader))
        self._opened, self._version, self._n = current, current.version, len(current.reader)
        self._generation, self._digests = current.generation(), None
        return True

    def close(self) -> None:
        """Releases files and decoded blocks; the next read opens them again."""
        self._opened = None

    @property
    def is_present(self) -> Tensor:
        """(len,) bool: False for examples of lost shards, with ``missing_shards="keep"``."""
        shards = self._open().reader.shards()
        counts = torch.tensor([n for _, _, _, n, *_ in shards], dtype=torch.int64)
        lost = torch.tensor([is_lost for *_, is_lost in shards], dtype=torch.bool)
        whole = torch.repeat_interleave(~lost, counts)
        return whole if self._selection is None else whole[self._selection]

    def _block_sizes(self) -> Tensor:
        parts = [torch.zeros(0, dtype=torch.int64)]
        for _, _, block_size, n, *_ in self._open().reader.shards():
            sizes = torch.full((-(-n // block_size),), block_size)
            if n % block_size:
                sizes[-1] = n % block_size
            parts.append(sizes)
        return torch.cat(parts)

    def __getitem__(self, index: int | slice | Indices) -> object:
        """Returns one example, or a batch for a slice, integers or a mask.

        Args:
            index: a number, negative ones from the end, or as for ``batch``.

        Returns:
            The example, or the result of ``batch``.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            TypeError: the indices are neither integers nor a mask.
            CorruptFileError: the shard or block is damaged.
            UnsafePickleError: the block holds more than data.
            UnsupportedFormatError: the block holds data in an unsupported form.
            FileNotFoundError: a file of the shard does not exist.
        """
        if isinstance(index, slice):
            return self.batch(range(*index.indices(len(self))))
        if is_batch(index):
            return self.batch(index)
        number = resolve_index(index, self._size(), self._selection, self.item_name)
        return self._open().example(number)

    def batch(self, indices: Indices) -> object:
        """Collates examples.

        Args:
            indices: a list, range, array or tensor of integers in any order, repeats allowed,
                negative ones from the end; or a mask of ``len(self)`` booleans.

        Returns:
            The batch, with a ``MoleculeBatch`` for dicts of molecules, whose ``index`` holds the
            numbers of the examples; an empty list for no examples. With ``transform``, its result
            instead.

        Raises:
            IndexError: an index is out of range, or a mask has a different length.
            FieldError: keys differ, values cannot share a batch, or a value is missing and
                ``missing="error"``.
            TypeError: ``default_collate`` does not support a value (None, for example), or the
                indices are neither integers nor a mask.
        """
        return self.apply_transform(self._collate_examples(indices)[1])

    def __getitems__(self, indices: Sequence[int]) -> list[object]:
        """Returns a list of one collated batch, for ``DataLoader``; see ``collate_identity``."""
        arena, batch = self._collate_examples(indices)
        batch = self._never_empty(indices, batch)
        shared = arena if self._transform is None else None
        return as_payload(shared, self.apply_transform(batch))

    def _blocks(self, fields: Sequence[str] | None) -> Iterator[tuple[Block, int]]:
        plain = copy.copy(self)
        plain._options = DatasetOptions(num_threads=self._options.num_threads)
        for first in range(0, len(self), _AT_ONCE):
            batch = plain._collate_examples(range(first, min(first + _AT_ONCE, len(self))))[1]
            if not isinstance(batch, MoleculeBatch):
                raise TypeError(f"expected examples of molecules, got {type(batch).__name__}")
            yield BatchBlock(batch), first

    @property
    def drops_items(self) -> bool:
        """True if batches omit items that lack a label."""
        return self._options.missing == "drop"

    def _make(self, indices: Indices) -> Any:
        return self._collate_examples(indices)[1]

    def _collate_examples(self, indices: Indices) -> tuple[Tensor | None, Any]:
        """Returns the arena of a batch, if it has one, and the batch."""
        arena, batch = self._collate_stored(indices)
        if self._options.dtype is None and self._options.missing == "nan":
            return arena, batch
        return None, self._apply_options(batch, indices)

    def _apply_options(self, batch: Any, indices: Indices) -> Any:
        """Applies ``missing`` and ``dtype`` to a batch."""
        has_all = complete_examples(batch, self._options.missing)
        if has_all is not None and not bool(has_all.all()):
            numbers = resolve_indices(indices, len(self), None, self.item_name)
            batch = self._collate_stored(numbers[has_all])[1]
        return cast_floats(batch, self._options.dtype)

    def _collate_stored(self, indices: Indices) -> tuple[Tensor | None, Any]:
        opened = self._open()
        if opened.native is None:
            numbers = resolve_indices(indices, self._size(), self._selection, self.item_name)
            return None, opened.collate_in_python(numbers.tolist())
        in_worker = get_worker_info() is not None
        return opened.whole(
            opened.native.collate(indices, self._selection, in_worker, molecules_of)
        )

    def _start_prefetch(self, num_threads: int, max_ready: int, pinned: bool) -> BatchPrefetcher:
        native = self._open().native
        if native is None:
            return PickledQueue(len(self), self._collate_examples)
        return super()._start_prefetch(num_threads, max_ready, pinned)

    def batcher(self) -> ExampleBatcher:
        """Returns the native batcher of the whole dataset.

        Returns:
            The batcher.
        """
        native = self._open().native
        assert native is not None, "allow_pickle has no native batches"
        return native

    def _assemble(self, made: HandedOver, indices: Indices) -> Any:
        return self._apply_options(self._open().whole(made)[1], indices)

    def __repr__(self) -> str:
        return f"ShardDataset({len(self)} examples in {self._shown!r})"
