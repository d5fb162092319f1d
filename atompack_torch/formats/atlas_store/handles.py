"""Native readers and writers of ATLAS stores and array files, and their options."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from atompack_torch import formats
from atompack_torch._native import ArrayFileReader, ArrayFileWriter, AtlasReader, AtlasWriter
from atompack_torch.errors import file_exists, is_closed, is_read_only
from atompack_torch.formats.atlas_store.block_cache import BlockCache
from atompack_torch.formats.writer_base import WriterBase
from atompack_torch.options import (
    DEFAULT_LEVEL,
    WriterOptions,
    check_choice,
    checked_integer,
    is_in_memory,
    is_url,
    shown_path,
)
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.urls import shown_url

FORMS = ("json", "json.zst", "json.lz4", "msgpack", "msgpack.zst", "msgpack.lz4")


class MemoryLimits(NamedTuple):
    """Limits on the memory that a damaged or sparse file may ask for.

    Attributes:
        max_metadata_bytes: limit on the size of metadata.
        max_unstored_bytes: limit on elements without stored bytes; None: depends on the files.
    """

    max_metadata_bytes: int
    max_unstored_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class BlockOptions(WriterOptions):
    """Options of stores and array files; see ``AtlasStore``.

    Attributes:
        block_bytes: chunks are compressed together in blocks of about this size; None: depends on
            the number of chunks of an array.
        durable: a flush waits for the disk.
        limits: limits on memory.
    """

    modes: ClassVar = ("r", "a", "x")

    block_bytes: int | None
    durable: bool
    limits: MemoryLimits

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codec == "lz4" and self.level != DEFAULT_LEVEL:  # the fast mode, the only one
            raise ValueError(
                f"level: expected {DEFAULT_LEVEL}, the default, for codec lz4, which has one level "
                f"in this format, got {self.level}"
            )
        if self.block_bytes is not None:
            checked_integer("block_bytes", self.block_bytes, 1)
        checked_integer("max_metadata_bytes", self.limits.max_metadata_bytes, 0)
        if self.limits.max_unstored_bytes is not None:
            checked_integer("max_unstored_bytes", self.limits.max_unstored_bytes, 0)


@dataclass(frozen=True, kw_only=True)
class StoreOptions(BlockOptions):
    """Options of stores.

    Attributes:
        metadata: format of a new store's metadata file: one of ``FORMS``.
    """

    metadata: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("metadata", self.metadata, FORMS)


Mode = Literal["r", "a", "x"]
_FileVersion = tuple[int, int, int, int, int]
# What identifies a flush: the metadata file, and the record of changes that are not visible yet.
Version = tuple[_FileVersion | None, _FileVersion | None]

_PICKLED = ("_path", "_mode", "_limits", "_version")


class StoreHandle:
    """Native reader and writer of a store; the reader is opened when it is first needed.

    Args:
        path: absolute path or URL of the folder.
        mode: mode in which the store was opened.
        limits: limits on memory.
        version: the flush that the reader shows; None: the latest one.
        remote: access to remote files; None: without options.
        cache: of decoded blocks; None: that of the process.
    """

    def __init__(
        self,
        path: str,
        mode: Mode,
        limits: MemoryLimits,
        version: Version | None = None,
        remote: RemoteFiles | None = None,
        cache: BlockCache | None = None,
    ) -> None:
        self._cache = cache
        self.given = path
        self.path = shown_url(path) if is_url(path) else path  # for messages
        self.remote = remote or RemoteFiles()
        self._is_remote = is_url(path)
        self.mode = mode
        self.limits = limits
        self.version = version
        self.writer: AtlasWriter | None = None
        self.n_changes = 0  # of what names and numbers may depend on
        self._reader: AtlasReader | None = None
        self._process = 0  # that opened the reader

    def open_writer(self, options: StoreOptions) -> None:
        """Opens the store for writing.

        Args:
            options: options of the store, with mode ``"a"`` or ``"x"``.

        Raises:
            FileExistsError: mode ``"x"`` and the store exists.
            WriterLockedError: another writer has it open.
        """
        try:
            with formats.opening(self.path, "an ATLAS store", "atlas-store"):
                self.writer = AtlasWriter(
                    self.path,
                    options.mode == "x",
                    options.codec,
                    FORMS.index(options.metadata),
                    options.level,
                    options.block_bytes,
                    options.durable,
                    *options.limits,
                    options.n_threads,
                )
        except FileExistsError:
            raise file_exists(self.path, "mode='a' appends to it") from None

    def reader(self) -> AtlasReader:
        """Returns the native reader of the last flush that this handle shows."""
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        native = None if self._is_of_another_process() else self._reader
        if native is None:
            native = self._open_reader(self.version)
            self._reader, self._process = native, os.getpid()
            self.version = native.version
        return native

    @property
    def held_reader(self) -> AtlasReader | None:
        """Native reader if it is open, of a local store that is open for reading; else None."""
        return None if self._is_remote or self.writer is not None else self._reader

    def _is_of_another_process(self) -> bool:
        """True if the reader needs threads that another process has: that of a remote store."""
        return self._is_remote and self._process not in (0, os.getpid())

    def _open_reader(self, version: Version | None) -> AtlasReader:
        place, store = self.remote.location(self.given)
        limit = self.limits.max_metadata_bytes
        cache = None if self._cache is None else self._cache.native
        if store is not None:
            native = AtlasReader(place.rstrip("/"), version, limit, store, cache)
            if native.version[0] is None:
                raise FileNotFoundError(errno.ENOENT, "no ATLAS store in this folder", self.path)
            return native
        with formats.opening(self.path, "an ATLAS store (a folder)", "atlas-store"):
            native = AtlasReader(place, version, limit, None, cache)
            if not native.is_collection:
                check_store(self.path)
        return native

    @property
    def is_writing(self) -> bool:
        """True while the store is open for writing."""
        return self.writer is not None

    @property
    def is_open(self) -> bool:
        """True if a native reader or writer is open."""
        return self.writer is not None or self._reader is not None

    def current(self) -> AtlasReader | AtlasWriter:
        """Returns the native handle that shows pending changes too, if there can be any."""
        return self.reader() if self.writer is None else self.writer

    def changing(self) -> AtlasWriter:
        """Returns the native writer, for a change; ValueError if open for reading, or closed."""
        if self.writer is None:
            raise is_read_only(self.path, "store") if self.mode == "r" else is_closed(self.path)
        self.n_changes += 1
        return self.writer

    def at_last_flush(self) -> StoreHandle:
        """Returns another handle, for reading, at the last flush that this one shows."""
        native = self.reader()
        version = native.version
        other = StoreHandle(self.given, "r", self.limits, version, self.remote, self._cache)
        other._reader, other._process = native, self._process
        return other

    def refresh(self) -> bool:
        """Moves the reader to the latest flush; True if there was a newer one."""
        with self.remote.refreshing():
            native = self._open_reader(None)
        is_newer = native.version != self.version
        if is_newer or is_url(self.given):  # its files may have been replaced by equal ones
            self._reader, self._process = native, os.getpid()
            self.version = native.version
            self.n_changes += 1
        return is_newer

    def forget_flush(self) -> None:
        """Lets the next read open the latest flush."""
        self._reader = self.version = None

    def publish(self, *, only_rest: bool = False) -> None:
        """Does nothing: a flush of local files is visible immediately."""

    def close(self) -> None:
        """Closes the files and drops unflushed changes."""
        writer, self.writer, self._reader = self.writer, None, None
        if writer is not None:
            self.n_changes += 1
            writer.abandon()

    def state(self) -> dict[str, object]:
        """Returns what a pickle holds; TypeError if the store is open for writing."""
        if self.mode != "r":
            raise TypeError("a store that is open for writing cannot be pickled")
        values = (self.given, self.mode, tuple(self.limits), self.version)
        state: dict[str, object] = dict(zip(_PICKLED, values, strict=True))
        if self._cache is not None:
            state["_cache"] = self._cache
        is_local = not is_url(self.given) and not is_in_memory(self.given)
        return state if is_local else {**state, "_remote": self.remote}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> StoreHandle:
        """Returns a handle by what a pickle holds."""
        path, mode, limits, version = (state[name] for name in _PICKLED)
        remote, cache = state.get("_remote"), state.get("_cache")
        return cls(path, mode, MemoryLimits(*limits), version, remote, cache)


def check_store(folder: str) -> None:
    """Checks that a folder has the metadata of an ATLAS store.

    Args:
        folder: the folder.

    Raises:
        FileNotFoundError: none of the metadata files exists.
    """
    if not any((Path(folder) / name).is_file() for name in formats.STORE_METADATA):
        sought = ", ".join((*formats.STORE_METADATA, formats.COLLECTION))
        text = f"no ATLAS store in this folder: expected one of {sought}; mode='x' makes a store"
        raise FileNotFoundError(errno.ENOENT, text, folder)


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
        """Does nothing: a flush of local files is visible immediately."""

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


class FlushingWriter(WriterBase):
    """Base of stores and array files, whose changes are pending until a flush."""

    _handle: StoreHandle | ArrayFileHandle

    @property
    def path(self) -> Path | str:
        """Absolute path, or the URL as it was given."""
        path = shown_path(self._handle.given)
        assert not isinstance(path, tuple)
        return path

    def refresh(self) -> bool:
        """Moves to the latest flush.

        Returns:
            True if there was a newer one.

        Raises:
            CorruptFileError: metadata or footers contradict the format.
            OSError: the files cannot be opened.
        """
        return self._handle.refresh()

    def flush(self) -> None:
        """Makes all changes visible atomically and durably.

        Raises:
            OSError: a system call failed; the files are unchanged since the last flush, and the
                call can be repeated. ``ESTALE``: a program that takes no lock, such as the
                original library, has written to the store since it was opened, or any other writer
                to the store of a URL; the changes pending here cannot be added.
            FileExistsError: another writer has created the store of a URL in the meantime.
        """
        self._handle.publish(only_rest=True)
        self._handle.changing().flush()
        self._handle.forget_flush()
        self._handle.publish()
        if self._handle.changing().rewrite_redefined():
            self._handle.forget_flush()
            self._handle.publish()

    def compact(self) -> None:
        """Flushes, and rewrites each array file without replaced or deleted data."""
        self.flush()
        self._handle.changing().compact()
        self._handle.forget_flush()
        self._handle.publish()

    def close(self) -> None:
        """Closes the files, after a flush if open for writing; further calls do nothing.

        A store that is open for reading reopens them at the next read.
        """
        if self._is_unfinished():
            self.flush()
        self.discard()

    def discard(self) -> None:
        """Closes the files and drops unflushed changes.

        What this handle created and never flushed is removed.
        """
        self._handle.close()

    def _is_unfinished(self) -> bool:
        handle: StoreHandle | ArrayFileHandle | None = getattr(self, "_handle", None)
        return handle is not None and handle.is_writing
