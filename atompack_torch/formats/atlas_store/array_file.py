"""Single array files: many named arrays in one `.af` with its layers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from atompack_torch._native import read_array_statistics
from atompack_torch.errors import file_exists
from atompack_torch.formats.atlas_store.array_schema import (
    ArraySchema,
    ArrayStatistics,
    Attribute,
    Values,
    attribute,
    definition,
    put,
)
from atompack_torch.formats.atlas_store.block_cache import BlockCache, checked_cache
from atompack_torch.formats.atlas_store.handles import (
    ArrayFileHandle,
    BlockOptions,
    FlushingWriter,
    LocalCopy,
    MemoryCopy,
    MemoryLimits,
)
from atompack_torch.formats.atlas_store.publishing import RemoteArrayFile
from atompack_torch.options import (
    BUFFERS,
    MAX_METADATA_BYTES,
    MEMORY,
    Buffer,
    check_choice,
    is_url,
    utf8,
)
from atompack_torch.remote.files import MemoryFiles, RemoteFiles


class ArrayFile(FlushingWriter):
    """Named arrays in one file, together with the layers written over it.

        with ArrayFile("data.af", "x") as file:
            file.define("jan", "float32", (50, 168), chunk_shape=(50, 24), fill_value=float("nan"))
            file.write("jan", values)

    A handle opened for reading sees the layers that exist at that time, until ``refresh``; it can
    be pickled and used in forked processes. In a handle opened for
    writing, changes are pending until ``flush``; ``names``, ``schema`` and ``read`` already show
    them. Leaving the ``with`` block flushes, unless an exception is raised in it.

    A file at a URL (``s3://``, ``gs://``) is written to by way of a copy of all its layers in the
    temporary folder (see ``TMPDIR``); ``flush`` uploads a layer with what has changed.

    Args:
        path: path or URL of the base file, ending in ``.af``; or its bytes: ``bytes``,
            ``bytearray`` or a ``memoryview`` of any buffer, which is read without a copy and must
            not be changed (mode ``"r"``). Errors name it ``<memory>.af``; a pickle carries all of
            it. None: a new file without a name (mode ``"x"`` or ``"a"``), in a temporary folder
            until it is closed; ``to_bytes`` returns it.
        mode: ``"r"``: read; ``"x"``: create a new file; ``"a"``: open an existing file, or create
            it.
        codec: codec of new blocks: ``"none"``, ``"lz4"``, ``"zstd"``; None: zstd.
        level: zstd level, -131072 to 22; for lz4, which has one level here, the default.
        block_bytes: chunks are compressed together in blocks of about this size; None: see
            ``AtlasStore``.
        durable: ``flush`` waits for the disk; see ``AtlasStore``.
        max_metadata_bytes: limit on the total size of the footers of all layers.
        max_unstored_bytes: memory that elements without stored bytes (fill values, empty strings)
            may take in one ``read``; None: 256 MiB, or 64 times the size of the files if that is
            more. Read a larger sparse array in parts (``start``, ``shape``).
        num_threads: maximum number of compression threads; None: chosen automatically.
        cache_bytes: memory for decoded blocks of a file opened for reading; see ``AtlasStore``.
        storage_options: options of the remote store; see ``AtpDataset``.

    Raises:
        OSError: the file cannot be opened. For a URL: FileNotFoundError, PermissionError,
            TimeoutError, or ESTALE if a file has changed since it was opened.
        FileExistsError: the file already exists (mode ``"x"``).
        WriterLockedError: another writer has it open.
        CorruptFileError: a layer contradicts the format.
        UnsupportedFormatError: the version is not supported.
        TypeError, ValueError: an option does not have one of its values.
    """

    _handle: ArrayFileHandle

    def __init__(
        self,
        path: str | os.PathLike[str] | Buffer | None,
        mode: Literal["r", "a", "x"] = "r",
        codec: Literal["zstd", "lz4", "none"] | None = "zstd",
        *,
        level: int = 3,
        block_bytes: int | None = None,
        durable: bool = True,
        max_metadata_bytes: int = MAX_METADATA_BYTES,
        max_unstored_bytes: int | None = None,
        num_threads: int | None = None,
        cache_bytes: int | BlockCache | None = None,
        storage_options: Mapping[str, object] | None = None,
    ) -> None:
        remote = RemoteFiles.checked(storage_options, path)
        cache = checked_cache(cache_bytes)
        if cache is not None and mode != "r":
            raise ValueError(f"cache_bytes: expected mode='r', got {mode!r}, which keeps no blocks")
        options = BlockOptions(
            mode=mode,
            codec=codec,
            level=level,
            num_threads=num_threads,
            block_bytes=block_bytes,
            durable=durable,
            limits=MemoryLimits(max_metadata_bytes, max_unstored_bytes),
        )
        copy: LocalCopy | None = None
        if path is None:
            check_choice("mode", mode, ["x", "a"])
            place, copy = f"{MEMORY}.af", MemoryCopy("data.af")
        elif isinstance(path, BUFFERS):
            place = f"{MEMORY}.af"
            remote = MemoryFiles({place: path}, mode)
        elif isinstance(path, str) and is_url(path) and mode != "r":
            place, copy = path, RemoteArrayFile(path, mode, storage_options)
        else:
            place = remote.absolute(path)
            if mode == "x" and Path(place).exists():
                raise file_exists(place, "mode='a' appends to it")
        self._handle = ArrayFileHandle(place, mode, options.limits, remote, cache, copy)
        self._handle.open(options)

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in the order in which they first appeared."""
        return self._handle.current().names()

    def attrs(self, name: str) -> dict[str, Attribute]:
        """Returns the attributes of an array.

        Args:
            name: name of the array.

        Returns:
            Key to bool, int, float, str, ``bytes`` or a list, pending changes included. A key has
            the value of the newest layer that has it.

        Raises:
            FieldError: there is no such array.
            CorruptFileError: the file is damaged.
        """
        return self._handle.current().attributes(utf8("array", name))

    def set_attr(self, name: str, key: str, value: Any) -> None:
        """Sets an attribute of an array, which flushes and ``compact`` keep.

        Args:
            name: name of the array.
            key: name of the attribute.
            value: bool, int (64 bits), float or str.

        Raises:
            FieldError: there is no such array, an integer of more than 64 bits, or a timestamp,
                for which array files have no type.
            TypeError: the value is of a different type.
        """
        place = utf8("array", name), utf8("attribute", key)
        self._handle.changing().set_attribute(*place, attribute(value))

    @property
    def num_layers(self) -> int:
        """Number of files: the base, and a layer for each flush since the last ``compact``."""
        return self._handle.num_layers

    def schema(self, name: str) -> ArraySchema:
        """Returns the storage layout of an array.

        Args:
            name: name of the array.

        Returns:
            The layout, pending changes included.

        Raises:
            FieldError: there is no such array.
        """
        return ArraySchema.of(self._handle.current().definition(utf8("array", name)))

    def read(
        self,
        name: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Values:
        """Reads an array, or a slice of it.

        Args:
            name: name of the array.
            start: the first element along each axis; None: 0.
            shape: number of elements along each axis, clamped to the array; None: to the end.

        Returns:
            A tensor of the stored dtype, timestamps as int64 nanoseconds; strings and binary values
            as ``str`` or ``bytes`` in lists nested once per axis.

        Raises:
            FieldError: no such array, a different number of axes, or more unstored elements than
                ``max_unstored_bytes`` allows.
            CorruptFileError: the file is damaged.
        """
        schema = self.schema(name)
        box = schema.box(start, shape)
        writer = self._handle.writer
        if writer is not None:
            values = writer.read(name, box)
        else:
            limit = self._handle.limits.max_unstored_bytes
            values = self._handle.reader().read(name, box, limit)
        return schema.loaded(values, box[1])

    def stats(self) -> dict[str, ArrayStatistics]:
        """Returns the statistics of each array as of the last flush; no data is read.

        Returns:
            Name to statistics; arrays whose statistics are absent or damaged are omitted.

        Raises:
            FieldError: the file was written to since it was opened for reading.
        """
        handle = self._handle
        is_writing = handle.writer is not None
        stored = read_array_statistics(handle.local) if is_writing else handle.reader().statistics()
        return {name: ArrayStatistics(*stored[name]) for name in self.names if name in stored}

    def define(
        self,
        name: str,
        dtype: Any,
        shape: Sequence[int],
        dimension_names: Sequence[str] | None = None,
        chunk_shape: Sequence[int] | None = None,
        fill_value: Any = None,
    ) -> None:
        """Adds an array; its elements are the fill value until they are written.

        Args:
            name: name of the array.
            dtype: a dtype, NumPy's name of one, ``"timestamp_ns"``, ``"string"``, ``"binary"``.
            shape: extents, () for a scalar.
            dimension_names: one per axis; None: ``dim0``, ``dim1`` and so on.
            chunk_shape: extents of the chunks the array is stored in; None: the whole array.
            fill_value: value of missing elements; None: 0. It is never used for strings.

        Raises:
            FieldError: the file has the array already, or a value here cannot be stored.
            ValueError: arrays cannot have this dtype.
        """
        array = definition(name, dtype, shape, dimension_names, chunk_shape, fill_value)
        self._handle.changing().define(array)

    def write(self, name: str, values: Any, start: Sequence[int] | None = None) -> None:
        """Writes a box of elements; chunks that it covers only partly are read and merged.

        Args:
            name: name of the array.
            values: tensor, array or (lists of) numbers, strings or bytes, in the array's rank.
            start: first element of the box along each axis; None: 0.

        Raises:
            FieldError: there is no such array, the dtype cannot represent the values, or the box
                extends beyond the array.
        """
        put(self._handle.changing(), (name,), values, start)

    def delete(self, name: str) -> None:
        """Removes an array; the next ``compact`` reclaims its space.

        Args:
            name: name of the array.

        Raises:
            FieldError: there is no such array.
        """
        self._handle.changing().remove(utf8("array", name))

    def to_bytes(self) -> bytes:
        """Flushes a file that was opened with None, merges its layers, and returns it.

        Returns:
            The file; ``ArrayFile(data)`` reads it.

        Raises:
            ValueError: the file has a path, or is closed.
        """
        if not isinstance(self._handle.copy, MemoryCopy):
            raise ValueError(f"to_bytes: expected a file without a path, got {self._handle.path}")
        self.compact()
        return self._handle.copy.path.read_bytes()

    def __repr__(self) -> str:
        return f"ArrayFile({self._handle.path!r})"
