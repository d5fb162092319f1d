"""Single array files: many named arrays in one `.af` with its layers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from atompack_torch import formats
from atompack_torch._native import ArrayFileReader, ArrayFileWriter, read_array_statistics
from atompack_torch.errors import file_exists
from atompack_torch.options import (
    MAX_METADATA_BYTES,
    absolute_path,
    check_choice,
    check_level,
    check_limits,
    utf8,
)
from atompack_torch.stores.array_schema import ArraySchema, put
from atompack_torch.stores.array_statistics import ArrayStatistics
from atompack_torch.stores.stored_values import definition
from atompack_torch.writers.base import FlushingWriter


class ArrayFile(FlushingWriter):
    """Named arrays in one file, together with the layers written over it.

        with ArrayFile("data.af", "x") as file:
            file.define("jan", "float32", (50, 168), chunk_shape=(50, 24), fill_value=float("nan"))
            file.write("jan", values)

    A handle opened for reading sees the layers that exist at that time. In a handle opened for
    writing, changes are pending until ``flush``; ``names``, ``schema`` and ``read`` already show
    them. Leaving the ``with`` block flushes, unless an exception is raised in it.

    Args:
        path: path of the base file, ending in ``.af``.
        mode: ``"r"``: read; ``"x"``: create a new file; ``"a"``: open an existing file, or create
            it.
        codec: codec of blocks written from now on: ``"zstd"``, ``"lz4"`` or ``"none"``.
        level: zstd level, -131072 to 22; for lz4 only its fast mode is available.
        block_bytes: chunks are compressed together in blocks of about this size.
        durable: ``flush`` waits for the disk; see ``AtlasStore``.
        max_metadata_bytes: limit on the total size of the footers of all layers.
        max_unstored_bytes: memory that elements without stored bytes (fill values, empty strings)
            may take in one ``read``; None: 256 MiB, or 64 times the size of the files if that is
            more. Read a larger sparse array in parts (``start``, ``shape``).

    Raises:
        OSError: the file cannot be opened, or already exists (mode ``"x"``).
        WriterLockedError: another writer has it open.
        CorruptFileError: a layer contradicts the format.
        UnsupportedFormatError: the version is not supported.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Literal["r", "a", "x"] = "r",
        codec: Literal["zstd", "lz4", "none"] = "zstd",
        *,
        level: int = 3,
        block_bytes: int = 8 << 20,
        durable: bool = True,
        max_metadata_bytes: int = MAX_METADATA_BYTES,
        max_unstored_bytes: int | None = None,
    ) -> None:
        check_choice("mode", mode, ("r", "a", "x"))
        check_choice("codec", codec, ("zstd", "lz4", "none"))
        check_level(codec, level)
        check_limits(max_metadata_bytes, max_unstored_bytes)
        self._max_unstored_bytes = max_unstored_bytes
        self._path = absolute_path(path)
        self._writer: ArrayFileWriter | None = None
        self._reader: ArrayFileReader | None = None
        if mode == "r":
            with formats.opening(self._path, "an array file", "array-file"):
                self._reader = ArrayFileReader(self._path, max_metadata_bytes)
            return
        if mode == "x" and Path(self._path).exists():
            raise file_exists(self._path, "mode='a' goes on with it")
        limits = (max_metadata_bytes, max_unstored_bytes)
        with formats.opening(self._path, "an array file", "array-file"):
            self._writer = ArrayFileWriter(self._path, codec, level, block_bytes, durable, *limits)

    def _handle(self) -> ArrayFileReader | ArrayFileWriter:
        handle = self._writer or self._reader
        if handle is None:
            raise ValueError(f"{self._path}: this file is closed")
        return handle

    def _changing(self) -> ArrayFileWriter:
        if self._writer is None:
            raise ValueError(f'{self._path}: expected a file opened with mode "a" or "x"')
        return self._writer

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in the order in which they first appeared."""
        return self._handle().names()

    def schema(self, name: str) -> ArraySchema:
        """Storage layout of an array.

        Raises:
            FieldError: no such array.
        """
        return ArraySchema.of(self._handle().definition(utf8("array", name)))

    def read(
        self,
        name: str,
        start: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> Any:
        """Reads an array, or a slice of it; see ``AtlasStore.read``.

        Raises:
            FieldError: no such array, a different number of axes, or more unstored elements than
                ``max_unstored_bytes`` allows.
            CorruptFileError: the file is damaged.
        """
        schema = self.schema(name)
        first, counts = schema.box(start, shape)
        if self._reader is not None:
            values = self._reader.read(name, first, counts, self._max_unstored_bytes)
        else:
            values = self._changing().read(name, first, counts)
        return schema.loaded(values, counts)

    def stats(self) -> dict[str, ArrayStatistics]:
        """Statistics of each array as of the last flush; empty where they are absent or damaged.

        Raises:
            FieldError: the file was opened for reading and has been written to since.
        """
        reader = self._reader
        stored = read_array_statistics(self._path) if reader is None else reader.statistics()
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
        """Adds an array; see ``AtlasStore.define_array``."""
        array = definition(dtype, shape, dimension_names, chunk_shape, fill_value)
        self._changing().define(utf8("array", name), *array)

    def write(self, name: str, values: Any, start: Sequence[int] | None = None) -> None:
        """Writes a box of elements; see ``AtlasStore.write``."""
        put(self._changing(), values, start, name)

    def delete(self, name: str) -> None:
        """Removes an array; the next ``compact`` reclaims its space."""
        self._changing().remove(utf8("array", name))

    def flush(self) -> None:
        """Makes all changes visible atomically and durably."""
        self._changing().flush()

    def compact(self) -> None:
        """Flushes, and merges all layers into one."""
        self._changing().compact()

    def discard(self) -> None:
        """Closes the file and drops unflushed changes.

        A file that this handle created and never flushed is removed.
        """
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.abandon()

    def __repr__(self) -> str:
        return f"ArrayFile({self._path!r})"
