"""Writer of Atlas shards."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from atompack_torch import _core
from atompack_torch._native import ShardReader
from atompack_torch.batch.molecule_batch import Molecule
from atompack_torch.errors import APPEND_OR_REPLACE, file_exists
from atompack_torch.formats.writer_base import StagedWriter
from atompack_torch.options import (
    WriterOptions,
    absolute_path,
    check_choice,
    checked_integer,
    is_url,
    shown_url,
    threads_or_cores,
)
from atompack_torch.remote.staging import StagedFolder

# Names of the files of a dataset, in its folder and in those of shards.
SHARD_FILES = frozenset(("meta.json", "index.npy", "data.bin", "zstd_dict.bin"))

_PICKLE_PROTOCOL = 4  # read by every Python that torch supports
_MOST_THREADS = 8  # maximum number of compression threads, unless more are asked for


@dataclass(frozen=True, kw_only=True)
class ShardOptions(WriterOptions):
    """Options of a ``ShardWriter``, which explains them."""

    codecs: ClassVar = ("none", "zstd")

    shard_size: int
    block_size: int
    strategy: int | None
    tensors: str
    dictionary: float

    def __post_init__(self) -> None:
        checked_integer("shard_size", self.shard_size, 0)
        checked_integer("block_size", self.block_size, 1)
        check_choice("strategy", self.strategy, (0, 1, 2, 3), optional=True)
        super().__post_init__()
        if (self.codec, self.strategy) in (("zstd", 0), ("none", 1), ("none", 3)):
            expected = "none" if self.strategy == 0 else "zstd"
            raise ValueError(
                f"codec: expected {expected} for strategy {self.strategy}, got {self.codec!r}"
            )
        check_choice("tensors", self.tensors, ("tensor", "numpy"))
        if not 0 <= self.dictionary <= 1:
            raise ValueError(f"dictionary: expected a share from 0 to 1, got {self.dictionary}")


class ShardWriter(StagedWriter):
    """Writes a dataset of shards, example by example.

        with ShardWriter("train", shard_size=10_000, block_size=100) as writer:
            for image, label in images:
                writer.write({"image": image, "label": label})

    An example is None, a bool, int, float, str or bytes, a NumPy array or scalar, a CPU tensor, or
    a list, tuple or dict of such values; a ``Molecule`` is written as a dict of its fields. With
    ``allow_pickle``, examples that hold anything else are written by Python's ``pickle``. The
    example is converted by ``write``, so the object may be modified afterwards. The output can be
    read by torch_atlas_ds, with NumPy 1 and 2 alike.

    Nothing appears at ``root`` until the ``with`` block ends (or ``close()`` is called); then the
    complete dataset does, durably. If an exception is raised in the block, nothing is left. To
    train the dictionary, strategy 2 keeps the first shard, strategy 3 each shard in memory,
    uncompressed.

    With ``mode="a"``, new shards follow the existing ones, which keep their names and files. They
    appear together, in one step, when the writer is closed: a process that is killed leaves the old
    dataset. Datasets that are open continue with the examples that they have, and find the new ones
    by ``refresh()``. Folders are exchanged for this, with hard links to the old files, so the file
    system must support both (ext4, XFS, Btrfs, tmpfs and most local ones do).

    A URL (``s3://``, ``gs://``) names a folder of objects. The dataset is built in the temporary
    folder (see ``TMPDIR``), which needs space for all of it, and uploaded when the writer is
    closed, the metadata last: readers see all of it or nothing. If the upload fails, the objects
    that were stored are deleted, and the error names the local folder, which is kept; ``close`` can
    then be called again. ``mode="w"`` deletes the objects of the old dataset, or those that a
    killed writer has left, just before the upload; until that ends, readers find no dataset.

    Args:
        root: the folder to create, a path or a URL; the parent of a path must exist.
        shard_size: examples per shard; 0 gives an empty shard and then one example per shard.
        block_size: examples per block, the unit that is read and decompressed for any one of them.
        strategy: 0: not compressed; 1: zstd; 2: zstd with one dictionary, trained on the first
            shard, in the root folder; 3: zstd with one dictionary per shard. With fewer than seven
            blocks to train on, no dictionary is made, as with 1. Appended shards use the
            dictionary in the root folder, if any. None: that of the dataset to append to,
            otherwise 2.
        level: zstd level, -131072 to 22.
        tensors: ``"tensor"`` stores tensors as such; ``"numpy"`` stores them as arrays: smaller and
            much faster to load with torch_atlas_ds, equivalent for ``ShardDataset``.
        dictionary: its size as a fraction of its training data.
        num_threads: maximum number of compression threads; None: one per core, at most eight.
        mode: ``"x"``: create a new dataset; ``"w"``: replace an existing one when the writer is
            closed; ``"a"``: append shards to it, or create it (not for URLs).
        codec: ``"zstd"``, or ``"none"``, which is another name of strategy 0; None: as ``strategy``
            says.
        storage_options: options of the store of a URL; see ``AtpDataset``.
        allow_pickle: write examples that are not plain data, too, by ``pickle.dumps``; tensors
            in them stay tensors. They can only be read with ``ShardDataset(allow_pickle=True)`` or
            by torch_atlas_ds, which execute code from the file; so can the other examples of their
            blocks.

    Raises:
        FileExistsError: ``root`` exists and ``mode`` is ``"x"``, or it is not a dataset of shards,
            or there are objects below it.
        FileNotFoundError: a file of the dataset to append to is missing.
        CorruptFileError: the dataset to append to is damaged, or lacks shards.
        OSError: the store cannot be reached, or refuses.
        WriterLockedError: another writer is creating or changing it.
        TypeError, ValueError: an option does not have one of its values.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        shard_size: int,
        block_size: int,
        strategy: Literal[0, 1, 2, 3] | None = None,
        level: int = 3,
        *,
        tensors: Literal["tensor", "numpy"] = "tensor",
        dictionary: float = 0.01,
        num_threads: int | None = None,
        mode: Literal["x", "w", "a"] = "x",
        codec: Literal["none", "zstd"] | None = None,
        storage_options: Mapping[str, object] | None = None,
        allow_pickle: bool = False,
    ) -> None:
        options = ShardOptions(
            mode=mode,
            codec=codec or ("none" if strategy == 0 else "zstd"),
            level=level,
            num_threads=num_threads,
            shard_size=shard_size,
            block_size=block_size,
            strategy=strategy,
            tensors=tensors,
            dictionary=dictionary,
        )
        self._allow_pickle, self._as_arrays = allow_pickle, tensors == "numpy"
        if isinstance(root, str) and is_url(root):
            if mode == "a":
                raise ValueError(f"{shown_url(root)}: mode: expected 'x' or 'w' for a URL, got 'a'")
            replaced = SHARD_FILES if mode == "w" else frozenset[str]()
            staged = StagedFolder(root, "meta.json", storage_options, replaced=replaced)
            self._staged, self._path, self._shown = staged, str(staged.path), root
            mode = "x"
        else:
            self._path = absolute_path(root)
            self._shown = Path(self._path)
            if mode != "x":  # the folder that a link leads to is replaced, not the link
                self._path = os.path.realpath(self._path)
        try:
            self._native = _core.ShardFileWriter(
                self._path,
                shard_size=options.shard_size,
                block_size=options.block_size,
                strategy=_native_strategy(strategy, codec),
                level=options.level,
                dictionary=options.dictionary,
                n_threads=num_threads or min(threads_or_cores(None), _MOST_THREADS),
                mode=mode,
            )
        except FileExistsError:
            if mode != "x":
                raise
            raise file_exists(self._path, APPEND_OR_REPLACE) from None

    def write(self, example: Any) -> None:
        """Adds an example.

        Args:
            example: plain data, as listed above.

        Raises:
            TypeError: the example holds something other than plain data; the message names its
                place. With ``allow_pickle``: it cannot be pickled. Nothing of the example is
                written, and the writer stays usable.
            UnsupportedFormatError: its block would be too large to read; otherwise as above.
            OSError: writing failed, for instance on a full disk; the dataset cannot be finished.
        """
        if isinstance(example, Molecule):
            example = {name: example[name] for name in example.keys()}
        native = self._opened()
        try:
            native.write(example, self._as_arrays)
        except TypeError:
            if not self._allow_pickle:
                raise
            native.write_pickled(_pickled(example))

    def _copy(self, reader: ShardReader, examples: NDArray[np.uint64]) -> None:
        """Adds examples of another dataset unchanged."""
        self._opened().copy(reader, examples)

    def __len__(self) -> int:
        """Number of examples written so far."""
        return len(self._opened())


def _native_strategy(strategy: int | None, codec: str | None) -> int | None:
    """Returns the strategy with what the codec says; None: chosen by the native writer."""
    if strategy is not None and codec != "none":
        return strategy
    return {"none": 0, "zstd": 2, None: None}[codec]


def _pickled(example: Any) -> bytes:
    try:
        return pickle.dumps(example, _PICKLE_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise TypeError(f"example: cannot be pickled: {error}") from error
