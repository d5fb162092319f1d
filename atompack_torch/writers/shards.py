"""Writing data sets of Atlas shards."""

from __future__ import annotations

import os
from typing import Any, Literal

from atompack_torch import _core
from atompack_torch.batch.molecule import Molecule
from atompack_torch.errors import file_exists
from atompack_torch.options import absolute_path, check_level
from atompack_torch.writers.base import WriterBase

_MOST_THREADS = 8  # that compress


class ShardWriter(WriterBase):
    """Makes a data set of shards, example by example.

        with ShardWriter("train", shard_size=10_000, block_size=100) as writer:
            for image, label in images:
                writer.write({"image": image, "label": label})

    An example is None, a bool, int, float, str or bytes, a NumPy array or scalar, a CPU tensor, or
    a list, tuple or dict of such values; a ``Molecule`` is written as a dict of its fields. It is
    converted when it is written: what becomes of the object afterwards does not matter. What is
    written is what torch_atlas_ds reads, with NumPy 1 and 2 alike.

    Nothing is at ``root`` before the ``with`` block ends (or ``close()`` is called); then all of it
    is, durably. If the block is left by an exception, nothing is left. With strategy 2 the first
    shard, with strategy 3 each shard is kept in memory, uncompressed, for its dictionary.

    Args:
        root: the folder to make; the one that it lies in is there.
        shard_size: examples in a shard; of 0 come an empty shard and then one example a shard.
        block_size: examples in a block: what is read and decompressed for any one of them.
        strategy: 0: not compressed; 1: zstd; 2: zstd with one dictionary, trained on the first
            shard; 3: with one for each shard. With fewer than seven blocks to train on there is
            none: then 1 is what happens.
        level: of zstd, -131072 to 22.
        tensors: ``"tensor"`` stores tensors as such; ``"numpy"`` stores them as arrays: smaller and
            much quicker to load for torch_atlas_ds, the same to ``ShardDataset``.
        dictionary: its size as a share of what it is trained for.
        num_threads: that compress; None: all cores of this process, at most eight.

    Raises:
        FileExistsError: something is at ``root``.
        WriterLockedError: another writer is making it.
        ValueError: a size, strategy or level out of its range.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        shard_size: int,
        block_size: int,
        strategy: Literal[0, 1, 2, 3] = 2,
        level: int = 3,
        *,
        tensors: Literal["tensor", "numpy"] = "tensor",
        dictionary: float = 0.01,
        num_threads: int | None = None,
    ) -> None:
        _check("shard_size", shard_size, 0)
        _check("block_size", block_size, 1)
        if strategy not in (0, 1, 2, 3):
            raise ValueError(f"strategy: expected 0, 1, 2 or 3, got {strategy!r}")
        check_level("zstd", level)
        if tensors not in ("tensor", "numpy"):
            raise ValueError(f"tensors: expected tensor or numpy, got {tensors!r}")
        if not 0 <= dictionary <= 1:
            raise ValueError(f"dictionary: expected a share from 0 to 1, got {dictionary}")
        if num_threads is not None:
            _check("num_threads", num_threads, 1)
        folder = absolute_path(root)
        try:
            self._native = _core.ShardFileWriter(
                folder,
                shard_size=shard_size,
                block_size=block_size,
                strategy=strategy,
                level=level,
                dictionary=dictionary,
                n_threads=num_threads or min(len(os.sched_getaffinity(0)), _MOST_THREADS),
                tensors_as_arrays=tensors == "numpy",
            )
        except FileExistsError:
            raise file_exists(folder, "shards have no append: choose another folder") from None

    def write(self, example: Any) -> None:
        """Adds an example.

        Raises:
            TypeError: it holds what is no plain data; names the place. Nothing of the example is
                written then, and the writer stays usable.
            UnsupportedFormatError: its block becomes too large to be read; likewise.
            OSError: the disk is full, say; the data set cannot be finished any more.
        """
        if isinstance(example, Molecule):
            example = {name: example[name] for name in example.keys()}
        self._native.write(example)

    def __len__(self) -> int:
        """Examples written so far."""
        return len(self._native)

    def close(self) -> None:
        """Writes what is left and gives the data set its name; does nothing the second time.

        Raises:
            FileExistsError: something came to be at ``root`` meanwhile.
            OSError: something could not be written; nothing is at ``root``.
        """
        if self._native.is_open:
            self._native.close()

    def discard(self) -> None:
        """Leaves nothing of the data set."""
        self._native.discard()

    def _is_unfinished(self) -> bool:
        native = getattr(self, "_native", None)
        return native is not None and native.is_open


def _check(name: str, number: int, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name}: expected an int, got {type(number).__name__}")
    if number < least:
        raise ValueError(f"{name}: expected at least {least}, got {number}")
