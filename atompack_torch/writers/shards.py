"""Writer of Atlas shards."""

from __future__ import annotations

import os
from typing import Any, Literal

from atompack_torch import _core
from atompack_torch.batch.molecule_batch import Molecule
from atompack_torch.errors import file_exists
from atompack_torch.options import absolute_path, check_level
from atompack_torch.writers.base import WriterBase

_MOST_THREADS = 8  # maximum number of compression threads


class ShardWriter(WriterBase):
    """Writes a data set of shards, example by example.

        with ShardWriter("train", shard_size=10_000, block_size=100) as writer:
            for image, label in images:
                writer.write({"image": image, "label": label})

    An example is None, a bool, int, float, str or bytes, a NumPy array or scalar, a CPU tensor, or
    a list, tuple or dict of such values; a ``Molecule`` is written as a dict of its fields. The
    example is converted by ``write``, so the object may be modified afterwards. The output can be
    read by torch_atlas_ds, with NumPy 1 and 2 alike.

    Nothing appears at ``root`` until the ``with`` block ends (or ``close()`` is called); then the
    complete data set does, durably. If an exception is raised in the block, nothing is left. To
    train the dictionary, strategy 2 keeps the first shard, strategy 3 each shard in memory,
    uncompressed.

    Args:
        root: the folder to create; its parent must exist.
        shard_size: examples per shard; 0 gives an empty shard and then one example per shard.
        block_size: examples per block, the unit that is read and decompressed for any one of them.
        strategy: 0: not compressed; 1: zstd; 2: zstd with one dictionary, trained on the first
            shard; 3: zstd with one dictionary per shard. With fewer than seven blocks to train on,
            no dictionary is made, as with 1.
        level: zstd level, -131072 to 22.
        tensors: ``"tensor"`` stores tensors as such; ``"numpy"`` stores them as arrays: smaller and
            much faster to load with torch_atlas_ds, equivalent for ``ShardDataset``.
        dictionary: its size as a fraction of its training data.
        num_threads: number of compression threads; None: all cores of this process, at most eight.

    Raises:
        FileExistsError: ``root`` exists.
        WriterLockedError: another writer is creating it.
        ValueError: a size, strategy or level is out of range.
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
            TypeError: the example holds something other than plain data; the message names its
                place. Nothing of the example is written, and the writer stays usable.
            UnsupportedFormatError: its block would be too large to read; otherwise as above.
            OSError: writing failed, for instance on a full disk; the data set cannot be finished.
        """
        if isinstance(example, Molecule):
            example = {name: example[name] for name in example.keys()}
        self._native.write(example)

    def __len__(self) -> int:
        """Number of examples written so far."""
        return len(self._native)

    def close(self) -> None:
        """Writes the remaining examples and publishes the data set; further calls do nothing.

        Raises:
            FileExistsError: ``root`` was created by somebody else in the meantime.
            OSError: writing failed; ``root`` does not exist.
        """
        if self._native.is_open:
            self._native.close()

    def discard(self) -> None:
        """Removes everything written so far."""
        self._native.discard()

    def _is_unfinished(self) -> bool:
        native = getattr(self, "_native", None)
        return native is not None and native.is_open


def _check(name: str, number: int, least: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{name}: expected an int, got {type(number).__name__}")
    if number < least:
        raise ValueError(f"{name}: expected at least {least}, got {number}")
