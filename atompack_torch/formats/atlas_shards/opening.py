"""Opening of Atlas shards, and decoding of their blocks."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from atompack_torch import formats
from atompack_torch._core import ExampleBatcher, read_example, resolve_indices
from atompack_torch._native import ShardReader
from atompack_torch.batch.indices import Indices
from atompack_torch.errors import CorruptFileError
from atompack_torch.formats.atlas_shards.examples import Examples
from atompack_torch.remote.files import RemoteFiles

KEPT_BLOCKS = 16  # by default


class PickledBlocks:
    """Blocks decoded by ``pickle.loads``, of which the most recent are kept."""

    def __init__(self, reader: ShardReader, most: int) -> None:
        self._reader, self._most = reader, most
        self._kept: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def example(self, number: int) -> Any:
        """Returns one example, from the block kept last where it has it."""
        shard, block, position = self._reader.locate(number)
        examples = self._kept.pop((shard, block), None)
        if examples is None:
            examples = pickle.loads(self._reader.read_block(shard, block))
        if self._most > 0:
            self._kept[shard, block] = examples
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return examples[position]


class PickledQueue:
    """Batches of examples that Python unpickles, made when they are taken.

    Args:
        n: number of examples in the data set.
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

# Shards of a local data set when it was opened: their number, and a digest of their metadata.
Generation = tuple[int, str]

# Identity of the files: of meta.json, or the fingerprint of a remote data set.
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
    """Opens anew while a writer exchanges the folder, of which one could see parts of two."""
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


class OpenShards:
    """Open files of a data set, and its batches.

    Args:
        root: absolute path or URL of the folder.
        remote: access to remote files.
        cache_blocks: number of decoded blocks to keep; None: as many as fit in 256 MiB.
        allow_pickle: unpickle blocks in Python.
        jagged: join arrays that differ in their first dimension.
        levels: True for keys of atoms, False for keys of molecules.
        num_threads: maximum number of threads for a batch; None: as many as torch uses.
        missing_shards: treatment of lost shards.
        n_shards: number of shards to use, the first ones; None: all.
    """

    def __init__(
        self,
        root: str,
        remote: RemoteFiles,
        *,
        cache_blocks: int | None,
        allow_pickle: bool,
        jagged: bool,
        levels: Mapping[str, bool],
        num_threads: int | None,
        missing_shards: MissingShards,
        n_shards: int | None,
    ) -> None:
        place, store = remote.location(root)
        self.version: Version
        with formats.opening(root, "a folder of Atlas shards", "shards"):
            if store is None:
                self.reader, self.version = _open_one_generation(
                    root, lambda: ShardReader(place, cache_blocks, None, missing_shards, n_shards)
                )
            else:
                self.reader = ShardReader(
                    place.rstrip("/"), cache_blocks, store, missing_shards, n_shards
                )
                self.version = self.reader.fingerprint
        self._needs_process = None if store is None else os.getpid()
        self.native: ExampleBatcher | None = None
        self.pickles: PickledBlocks | None = None
        self._jagged = jagged
        self._levels = levels
        if allow_pickle:
            kept = KEPT_BLOCKS if cache_blocks is None else cache_blocks
            self.pickles = PickledBlocks(self.reader, kept)
        else:
            self.native = ExampleBatcher(
                self.reader, jagged=jagged, levels=levels, max_threads=num_threads or 0
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
        if self.pickles is not None:
            return self.pickles.example(number)
        return read_example(self.reader, number)

    def whole(self, made: HandedOver) -> tuple[Tensor | None, Any]:
        """Returns arena and batch from the native core's result: a batch, or decoded examples."""
        arena, batch, numbers = made
        return (arena, batch) if numbers is None else (None, self.collate_in_python(numbers, batch))

    def collate_in_python(self, numbers: Sequence[int], examples: list[Any] | None = None) -> Any:
        """Collates examples that the native core does not support."""
        levels = self._levels if self.native is None else self.native.levels()
        if examples is None:
            examples = [self.example(number) for number in numbers]
        return Examples(numbers, levels, jagged=self._jagged).collate(examples)
