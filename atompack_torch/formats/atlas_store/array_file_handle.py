"""Native reader or writer of an array file."""

from __future__ import annotations

import errno
import os
from typing import Any

from atompack_torch import formats
from atompack_torch._native import ArrayFileReader, ArrayFileWriter
from atompack_torch.errors import is_closed, is_read_only
from atompack_torch.formats.atlas_store.block_cache import BlockCache
from atompack_torch.formats.atlas_store.store_options import BlockOptions, MemoryLimits
from atompack_torch.options import is_in_memory, is_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.urls import shown_url

_Versions = list[tuple[int, int, int, int, int]]  # of the layers


class ArrayFileHandle:
    """Native reader or writer of an array file, open from the start.

    A pickle opens the reader again on first use, and so does a process that was forked from the
    one that opened a remote file.

    Args:
        path: absolute path or URL of the base file.
        options: its options.
        remote: access to remote files.
        cache: of decoded blocks; None: that of the process.
    """

    writer: ArrayFileWriter | None

    def __init__(
        self,
        path: str,
        options: BlockOptions,
        remote: RemoteFiles,
        cache: BlockCache | None = None,
    ) -> None:
        self._set(path, options.mode, options.limits, remote, cache)
        if options.mode == "r":
            self._keep(self._open_reader())
            return
        with formats.opening(path, "an array file", "array-file"):
            self.writer = ArrayFileWriter(
                path,
                options.codec or "zstd",
                options.level,
                options.block_bytes,
                options.durable,
                *options.limits,
                options.n_threads,
            )

    def _set(
        self,
        path: str,
        mode: str,
        limits: MemoryLimits,
        remote: RemoteFiles,
        cache: BlockCache | None,
    ) -> None:
        self._cache = cache
        self.given = path
        self.path = shown_url(path) if is_url(path) else path  # for messages
        self.local_path = path  # of what is written to
        self.limits = limits
        self.writer = None
        self._mode = mode
        self._remote = remote
        self._reader: ArrayFileReader | None = None
        self._versions: _Versions | None = None  # None: closed, or open for writing
        self._process = 0  # that opened the reader

    def _open_reader(self) -> ArrayFileReader:
        place, store = self._remote.location(self.given)
        with formats.opening(self.given, "an array file", "array-file"):
            cache = None if self._cache is None else self._cache.native
            return ArrayFileReader(place, self.limits.max_metadata_bytes, store, cache)

    def _keep(self, reader: ArrayFileReader) -> None:
        self._reader, self._process, self._versions = reader, os.getpid(), reader.versions

    @property
    def reader(self) -> ArrayFileReader | None:
        """Native reader; None if the file is closed, or open for writing."""
        if self._versions is None:
            return None
        is_of_another_process = is_url(self.given) and self._process != os.getpid()
        if self._reader is None or is_of_another_process:
            reader = self._open_reader()
            if reader.versions != self._versions:
                text = "the file was written to since it was opened; refresh() opens its last flush"
                raise OSError(errno.ESTALE, text, self.path)
            self._keep(reader)
        return self._reader

    @property
    def is_writing(self) -> bool:
        """True while the file is open for writing."""
        return self.writer is not None

    def current(self) -> ArrayFileReader | ArrayFileWriter:
        """Returns the open native handle; ValueError if the file is closed."""
        handle = self.writer or self.reader
        if handle is None:
            raise is_closed(self.path, "file")
        return handle

    @property
    def num_layers(self) -> int:
        """Number of files of the last flush; ValueError if the file is closed."""
        self.current()
        if self._versions is not None:
            return len(self._versions)
        return len(ArrayFileReader(self.local_path, self.limits.max_metadata_bytes).versions)

    def changing(self) -> ArrayFileWriter:
        """Returns the native writer; ValueError if the file is open for reading, or closed."""
        if self.writer is None:
            raise is_read_only(self.path, "file") if self._mode == "r" else is_closed(self.path)
        return self.writer

    def forget_flush(self) -> None:
        """Does nothing: the native writer reads what it has flushed itself."""

    def refresh(self) -> bool:
        """Opens the layers that exist now; True if they are others. Writers show them always."""
        if self.writer is not None:
            return False
        if self._versions is None:
            raise is_closed(self.path, "file")
        with self._remote.refreshing():
            reader = self._open_reader()
        is_newer = reader.versions != self._versions
        self._keep(reader)
        return is_newer

    def publish(self, *, only_rest: bool = False) -> None:
        """Does nothing: a flush of local files is visible."""

    def close(self) -> None:
        """Closes the file and drops unflushed changes."""
        writer, self.writer, self._reader, self._versions = self.writer, None, None, None
        if writer is not None:
            writer.abandon()

    def __getstate__(self) -> dict[str, Any]:
        if self._mode != "r":
            raise TypeError("an array file that is open for writing cannot be pickled")
        values: dict[str, Any] = {
            "path": self.given,
            "limits": tuple(self.limits),
            "versions": self._versions,
        }
        if self._cache is not None:
            values["cache"] = self._cache
        is_local = not is_url(self.given) and not is_in_memory(self.given)
        return values if is_local else values | {"remote": self._remote}

    def __setstate__(self, state: dict[str, Any]) -> None:
        remote = state.get("remote") or RemoteFiles()
        self._set(state["path"], "r", MemoryLimits(*state["limits"]), remote, state.get("cache"))
        self._versions = state["versions"]
