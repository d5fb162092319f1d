"""Examples from data sets of Atlas shards."""

from __future__ import annotations

import errno
import os
import pickle
import warnings
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Tensor
from torch.utils.data import get_worker_info

from atompack_torch import formats
from atompack_torch._core import (
    ExampleBatcher,
    read_example,
    resolve_index,
    resolve_indices,
)
from atompack_torch._native import ShardReader
from atompack_torch.batch.indices import Indices, is_batch
from atompack_torch.datasets._batches import Ahead, BatchDataset
from atompack_torch.datasets._examples import Examples, molecules_of
from atompack_torch.datasets._one_arena import sent_whole
from atompack_torch.options import absolute_path, utf8

Layout = Literal["list", "jagged"]
LevelName = Literal["atom", "molecule"]

_KEPT_PICKLES = 16  # blocks, with allow_pickle

# (arena, batch, None), or (None, examples, their numbers) where they are not alike
HandedOver = tuple[Tensor | None, Any, Sequence[int] | None]


class ShardDataset(BatchDataset[Any]):
    """Examples of a folder of shards, as torch_atlas_ds writes them, as a map-style data set.

        for batch in DataLoader(ShardDataset("train"), batch_size=64):
            ...

    ``ds[i]`` is the stored example: its arrays, NumPy scalars and tensors come as tensors of the
    same dtype in memory of their own; what torch has no dtype for (texts, dates, records, objects)
    comes as NumPy has it. Numbers, texts, bytes, lists, tuples and dicts come as such.

    A batch is what torch's ``default_collate`` makes of the examples, with two exceptions. A dict
    that holds both ``positions`` and ``atomic_numbers`` becomes part of a ``MoleculeBatch``: labels
    by their names, other keys as custom properties, of atoms where their arrays have as many rows
    as there are atoms. And arrays that differ in shape become a list of tensors.

    Pickles are not executed: only data is decoded, anything else is an ``UnsafePickleError``.
    Nothing is open until the first example is read, in each process by itself; the data set may be
    pickled, forked, and used from several threads at once. For random order ``BlockShuffleSampler``
    is the one: it knows the blocks, and a block is read and decoded as a whole. Its ranks share no
    block where their number divides its ``lanes``, nor do workers of a DataLoader that it is told
    of (``workers``, ``batch_size``); the threads of a ``Loader`` decode each block once for all.

    Args:
        root: the folder of the data set.
        allow_pickle: hands blocks to ``pickle.loads``, which runs whatever they say: for data that
            you trust as you trust programs. Examples are then those very objects, which the next
            read of the same block hands out again. Batches are made in Python: a ``Loader`` takes
            such a data set and makes none ahead, so for speed use a ``DataLoader`` with workers.
        cache_blocks: decoded blocks that are kept, at least as many as the window of the sampler
            has; None: as many as fit in 256 MiB.
        layout: ``"jagged"``: arrays that differ in their first dimension alone become two tensors,
            the rows of all examples (total, ...) and where those of each begin (B + 1,) int64:
            under ``NAME`` and ``NAME_offsets`` in a dict, as a pair elsewhere.
        levels: whether a custom key of molecules is one of their atoms: key → ``"atom"`` or
            ``"molecule"``. Of others the first examples and some further ones tell.
        num_threads: at most this many threads for a batch; None: as many as torch uses.

    Raises:
        FileNotFoundError: a ``meta.json`` or a shared dictionary is not there.
        UnsupportedFormatError: a version or strategy that is not read here, other keys.
        CorruptFileError: a ``meta.json`` is no JSON.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        allow_pickle: bool = False,
        cache_blocks: int | None = None,
        layout: Layout = "list",
        levels: Mapping[str, LevelName] | None = None,
        num_threads: int | None = None,
    ) -> None:
        if cache_blocks is not None and cache_blocks < 0:
            raise ValueError(f"cache_blocks: expected at least 0, got {cache_blocks}")
        if layout not in ("list", "jagged"):
            raise ValueError(f"layout: expected list or jagged, got {layout!r}")
        for key, level in (levels or {}).items():
            if level not in ("atom", "molecule"):
                raise ValueError(f"levels: expected atom or molecule for {key!r}, got {level!r}")
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads: expected a positive number, got {num_threads}")
        self._root = absolute_path(root)
        self._allow_pickle = allow_pickle
        self._cache_blocks = cache_blocks
        self._layout = layout
        self._levels = {
            utf8("levels", key): level == "atom" for key, level in (levels or {}).items()
        }
        self._num_threads = num_threads
        self._opened: _Opened | None = None
        self._version = self._current_version()
        reader = self._open().reader
        self._n = len(reader)
        if (warning := reader.shard_sizes_warning()) is not None:
            warnings.warn(warning, stacklevel=2)

    def _open(self) -> _Opened:
        # Without a lock (a fork could inherit it locked): opening twice does no harm.
        opened = self._opened
        if opened is None:
            opened = _Opened(self)
            if self._current_version() != self._version:
                raise OSError(
                    errno.ESTALE,
                    "another data set is here than the one that was opened first: open it again",
                    self._root,
                )
            self._opened = opened
        return opened

    def _current_version(self) -> tuple[int, ...]:
        """Identity of the root's `meta.json`, which a pickle compares before it reads."""
        try:
            found = (Path(self._root) / "meta.json").stat()
        except OSError:
            return ()  # opening reports it
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    _item = "example"
    _molecules = staticmethod(molecules_of)

    def _size(self) -> int:
        return self._n

    @property
    def root(self) -> str:
        """The folder, as an absolute path."""
        return self._root

    @property
    def block_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """(number of blocks,) int64: examples in each block, for ``BlockShuffleSampler``.

        Of a subset: how many of its examples, one after another, lie in one block.
        """
        parts = [np.zeros(0, dtype=np.int64)]
        for _, _, block_size, n, _ in self._open().reader.shards():
            sizes = np.full(-(-n // block_size), block_size, dtype=np.int64)
            if n % block_size:
                sizes[-1] = n % block_size
            parts.append(sizes)
        whole = np.concatenate(parts)
        if self._selection is None:
            return whole
        blocks = np.searchsorted(np.cumsum(whole), self._selection.numpy(), side="right")
        begins = np.flatnonzero(np.diff(blocks, prepend=-1))
        return np.diff(begins, append=len(blocks))

    def __getitem__(self, index: int | slice | Indices) -> Any:
        """One example by number, negative ones from the end; a batch by slice, numbers or mask.

        Raises:
            IndexError: out of range, or a mask of another length.
            TypeError: something else than integers or a mask.
            CorruptFileError: the shard or the block is damaged.
            UnsafePickleError: the block holds more than data.
            UnsupportedFormatError: the block holds data of a form that is not read here.
            FileNotFoundError: a file of the shard is not there.
        """
        if isinstance(index, slice):
            return self.batch(range(*index.indices(len(self))))
        if is_batch(index):
            return self.batch(index)
        number = resolve_index(index, self._size(), self._selection, self._item)
        return self._open().example(number)

    def batch(self, indices: Indices) -> Any:
        """Collates examples.

        Args:
            indices: numbers of examples, any order, repeats allowed, negative ones from the end:
                a list, range, array or tensor of integers of any width. Or a mask: as many bools
                as there are examples.

        Returns:
            What ``default_collate`` would, a ``MoleculeBatch`` in place of dicts with positions and
            atomic numbers (its ``index`` are the numbers of the examples). Of no examples, an
            empty list.

        Raises:
            IndexError: an index is out of range, or a mask has another length.
            FieldError: values of molecules that cannot share a batch.
            TypeError: values that ``default_collate`` does not take (None, say); indices that are
                neither integers nor a mask.
        """
        return self._collated(indices)[1]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """A whole batch at once, for DataLoader: a list of one, collated already."""
        return sent_whole(*self._collated(indices))

    def _collated(self, indices: Indices) -> tuple[Tensor | None, Any]:
        """A batch, and the arena that it lies in if it does."""
        opened = self._open()
        if opened.native is None:
            return None, opened.one_by_one(self._numbers(indices))
        in_worker = get_worker_info() is not None
        return opened.whole(
            opened.native.collate(indices, self._selection, in_worker, molecules_of)
        )

    def _numbers(self, indices: Indices) -> list[int]:
        """The numbers in the whole data set."""
        numbers = resolve_indices(indices, self._size(), self._selection, self._item)
        return list(numbers.tolist())

    def _ahead(self, num_threads: int, pinned: bool) -> Ahead:
        native = self._open().native
        if native is None:
            return _ExamplesInTurn(self)
        return super()._ahead(num_threads, pinned)

    def _batcher(self) -> ExampleBatcher:
        native = self._open().native
        assert native is not None, "allow_pickle has no native batches"
        return native

    def _assembled(self, made: HandedOver) -> Any:
        return self._open().whole(made)[1]

    def __repr__(self) -> str:
        return f"ShardDataset({len(self)} examples in {self._root!r})"


class _Opened:
    """What one process has of a data set."""

    def __init__(self, dataset: ShardDataset) -> None:
        with formats.opening(dataset._root, "a folder of Atlas shards", "shards"):
            self.reader = ShardReader(dataset._root, dataset._cache_blocks)
        self.native: ExampleBatcher | None = None
        self.pickles: _Pickles | None = None
        self._jagged = dataset._layout == "jagged"
        self._levels = dataset._levels
        if dataset._allow_pickle:
            kept = _KEPT_PICKLES if dataset._cache_blocks is None else dataset._cache_blocks
            self.pickles = _Pickles(self.reader, kept)
        else:
            self.native = ExampleBatcher(
                self.reader,
                jagged=self._jagged,
                levels=dataset._levels,
                max_threads=dataset._num_threads or 0,
            )

    def example(self, number: int) -> Any:
        if self.pickles is not None:
            return self.pickles.example(number)
        return read_example(self.reader, number)

    def whole(self, made: HandedOver) -> tuple[Tensor | None, Any]:
        """The arena and the batch of what the native core made, or of the examples it read."""
        arena, batch, numbers = made
        return (arena, batch) if numbers is None else (None, self.one_by_one(numbers, batch))

    def one_by_one(self, numbers: Sequence[int], examples: list[Any] | None = None) -> Any:
        """A batch of examples that the native core does not collate."""
        levels = self._levels if self.native is None else self.native.levels()
        if examples is None:
            examples = [self.example(number) for number in numbers]
        return Examples(numbers, levels, jagged=self._jagged).collate(examples)


class _Pickles:
    """Blocks as ``pickle.loads`` makes them: examples are the objects of the kept blocks."""

    def __init__(self, reader: ShardReader, most: int) -> None:
        self._reader, self._most = reader, most
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def example(self, number: int) -> Any:
        shard, block, position = self._reader.locate(number)
        examples = self._kept.pop((shard, block), None)
        if examples is None:
            examples = pickle.loads(self._reader.read_block(shard, block))
        if self._most > 0:
            self._kept[shard, block] = examples
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return examples[position]


class _ExamplesInTurn:
    """Batches of examples that are made when they are taken: what unpickles them is Python."""

    def __init__(self, dataset: ShardDataset) -> None:
        self._dataset = dataset
        self._asked: deque[list[int]] = deque()

    def ask(self, indices: Indices) -> None:
        self._asked.append(self._dataset._numbers(indices))

    def take(self) -> Any:
        return self._dataset._open().one_by_one(self._asked.popleft())

    def __len__(self) -> int:
        return len(self._asked)
