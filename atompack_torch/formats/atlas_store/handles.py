"""Native readers and writers of ATLAS stores and array files, and their options."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, cast

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
    redact_path,
    shown_path,
)
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.staging import TemporaryFolder, naming

Reader = TypeVar("Reader")
Writer = TypeVar("Writer")

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

    @property
    def native(self) -> tuple[int, int | None, int, int, int | None]:
        """Options of native writers of both kinds, after codec and form."""
        return self.level, self.block_bytes, self.n_threads, *self.limits


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


class LocalCopy(Protocol):
    """Local files that are written to instead of those that users name.

    Attributes:
        path: the folder of a store, or the base of an array file.
    """

    path: Path

    def publish(self, *, only_rest: bool) -> None:
        """Uploads what was flushed; ``only_rest``: only what an earlier call could not."""

    def discard(self) -> None:
        """Removes the files."""


class MemoryCopy:
    """Files of a new store or array file without a name, in a temporary folder until it is closed.

    Args:
        name: name of the array file; empty for a store.
    """

    def __init__(self, name: str = "") -> None:
        self._folder = TemporaryFolder()
        self.path = self._folder.path / name

    def publish(self, *, only_rest: bool) -> None:
        """Does nothing."""

    def discard(self) -> None:
        """Removes the files."""
        self._folder.remove()

    def files(self) -> dict[str, bytes]:
        """Returns the files as of the last flush, by their relative paths."""
        folder = self._folder.path
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


class _Named:
    """A native writer whose errors name what users know instead of the local copy.

    Args:
        native: the writer.
        handle: its handle.
    """

    def __init__(self, native: Any, handle: Handle[Any, Any]) -> None:
        self._native = native
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._native, name)
        if not callable(function):
            return function

        def call(*args: Any) -> Any:
            with self._handle.naming():
                return function(*args)

        return call

    def __len__(self) -> int:
        return len(self._native)


class Handle(Generic[Reader, Writer]):
    """Native reader and writer of a store or an array file.

    The reader is opened when it is first needed, and again in a process that was forked from the
    one that opened a remote file. A pickle holds what opens it at the same flush.

    Args:
        path: absolute path or URL; or, of what has none, its name in messages.
        mode: mode in which it was opened.
        limits: limits on memory.
        remote: access to remote files; None: without options.
        cache: of decoded blocks; None: that of the process.
        copy: the local copy that is written to; None: what is at the path.
    """

    kind: ClassVar[str]  # for messages
    article: ClassVar[str]
    format: ClassVar[str]  # as the table of formats names it
    writer: Writer | None = None
    version: Any = None  # identity of the flush that the reader shows; None: not known yet

    def __init__(
        self,
        path: str,
        mode: str,
        limits: MemoryLimits,
        remote: RemoteFiles | None = None,
        cache: BlockCache | None = None,
        copy: LocalCopy | None = None,
    ) -> None:
        self.given = path
        self.path = redact_path(path)  # for messages
        self.local = path if copy is None else str(copy.path)
        self.mode = mode
        self.limits = limits
        self.copy = copy
        self.n_changes = 0  # of what names and numbers may depend on
        self._remote = remote or RemoteFiles()
        self._cache = cache
        self._reader: Reader | None = None
        self._process = 0  # that opened the reader

    def __getstate__(self) -> tuple[object, ...]:
        if self.mode != "r":
            raise TypeError(f"a {self.kind} that is open for writing cannot be pickled")
        is_local = not is_url(self.given) and not is_in_memory(self.given)
        remote = None if is_local else self._remote
        return self.given, tuple(self.limits), remote, self._cache, self.version

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        path, limits, remote, cache, version = state
        Handle.__init__(self, path, "r", MemoryLimits(*limits), remote, cache)
        self.version = version

    def naming(self) -> AbstractContextManager[None]:
        """Lets errors name what users know instead of the local copy."""
        return nullcontext() if self.copy is None else naming(self.given, self.local)

    def _open_writer(self, native: Any, options: BlockOptions, *arguments: object) -> None:
        """Opens the native writer; without it, the local copy is not kept.

        Args:
            native: its class.
            options: the options.
            arguments: arguments that follow the path, the last one a tuple of options.
        """
        is_durable = options.durable and self.copy is None
        try:
            with self.naming(), formats.opening(self.local, self.article, self.format):
                self.writer = native(self.local, *arguments, is_durable)
        except BaseException:
            if self.copy is not None:
                self.copy.discard()
            raise
        if self.copy is not None:
            self.writer = cast(Writer, _Named(self.writer, self))

    @abstractmethod
    def _open_reader(self, version: Any) -> Reader:
        """Opens the native reader of a flush; None: of the latest one."""

    @staticmethod
    @abstractmethod
    def _version_of(reader: Reader) -> Any:
        """Returns the identity of the flush that a native reader shows."""

    @property
    def _is_remote(self) -> bool:
        """True if readers need threads, which a fork has not."""
        return self.copy is None and is_url(self.given)

    def _keep(self, reader: Reader) -> None:
        self._reader, self._process, self.version = reader, os.getpid(), self._version_of(reader)

    def reader(self) -> Reader:
        """Returns the native reader of the flush that this handle shows."""
        # No lock, which a fork could inherit in the locked state; opening twice is harmless.
        reader = self._reader
        if reader is None or (self._is_remote and self._process != os.getpid()):
            reader = self._open_reader(self.version)
            self._keep(reader)
        return reader

    @property
    def is_open(self) -> bool:
        """True if a native reader or writer is open."""
        return self.writer is not None or self._reader is not None

    def current(self) -> Reader | Writer:
        """Returns the native handle that shows pending changes too, if there can be any."""
        return self.reader() if self.writer is None else self.writer

    def changing(self) -> Writer:
        """Returns the native writer, for a change; ValueError if open for reading, or closed."""
        if self.writer is None:
            is_reader = self.mode == "r"
            raise is_read_only(self.path, self.kind) if is_reader else is_closed(self.path)
        self.n_changes += 1
        return self.writer

    def refresh(self) -> bool:
        """Moves the reader to the latest flush; True if there was a newer one."""
        with self._remote.refreshing():
            reader = self._open_reader(None)
        is_newer: bool = self._version_of(reader) != self.version
        if is_newer or is_url(self.given):  # its files may have been replaced by equal ones
            self._keep(reader)
            self.n_changes += 1
        return is_newer

    def forget_flush(self) -> None:
        """Lets the next read open the latest flush."""
        self._reader = self.version = None

    def publish(self, *, only_rest: bool = False) -> None:
        """Uploads what was flushed to a local copy, or only what an earlier call could not."""
        if self.copy is not None:
            self.copy.publish(only_rest=only_rest)

    def close(self) -> None:
        """Closes the files, drops unflushed changes and removes a local copy."""
        writer: Any = self.writer
        self.writer = self._reader = None
        if writer is not None:
            self.n_changes += 1
            writer.abandon()
        if self.copy is not None:
            self.copy.discard()


_FileVersion = tuple[int, int, int, int, int]
# What identifies a flush: the metadata file, and the record of changes that are not visible yet.
Version = tuple[_FileVersion | None, _FileVersion | None]


class StoreHandle(Handle[AtlasReader, AtlasWriter]):
    """Native reader and writer of a store."""

    kind, article, format = "store", "an ATLAS store", "atlas-store"
    version: Version | None

    def open_writer(self, options: StoreOptions) -> None:
        """Opens the store for writing.

        Args:
            options: options of the store, with mode ``"a"`` or ``"x"``.

        Raises:
            FileExistsError: mode ``"x"`` and the store exists.
            WriterLockedError: another writer has it open.
        """
        try:
            is_new = options.mode == "x" and self.copy is None
            native = (options.codec, options.metadata, *options.native)
            self._open_writer(AtlasWriter, options, is_new, native)
        except FileExistsError:
            raise file_exists(self.path, "mode='a' appends to it") from None

    @property
    def held_reader(self) -> AtlasReader | None:
        """Native reader if it is open, of a local store that is open for reading; else None."""
        return None if self._is_remote or self.writer is not None else self._reader

    @staticmethod
    def _version_of(reader: AtlasReader) -> Version:
        return reader.version

    def _open_reader(self, version: Version | None) -> AtlasReader:
        place, store = (
            self._remote.location(self.given) if self.copy is None else (self.local, None)
        )
        limit = self.limits.max_metadata_bytes
        cache = None if self._cache is None else self._cache.native
        if store is not None:
            native = AtlasReader((place.rstrip("/"), store), version, limit, cache)
            if native.version[0] is None:
                raise FileNotFoundError(errno.ENOENT, "no ATLAS store in this folder", self.path)
            return native
        with self.naming(), formats.opening(place, f"{self.article} (a folder)", self.format):
            native = AtlasReader(place, version, limit, cache)
            if native.version[0] is None:
                check_store(place)
        return native

    def at_last_flush(self) -> StoreHandle:
        """Returns another handle, for reading, at the last flush that this one shows.

        That of a local copy goes when this handle is closed.
        """
        reader = self.reader()
        other = StoreHandle(self.local, "r", self.limits, self._remote, self._cache)
        other._reader, other._process, other.version = reader, self._process, reader.version
        return other


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


_Versions = list[_FileVersion]  # of the layers


class ArrayFileHandle(Handle[ArrayFileReader, ArrayFileWriter]):
    """Native reader or writer of an array file, open from the start."""

    kind, article, format = "file", "an array file", "array-file"
    version: _Versions | None  # None: closed, or open for writing

    def open(self, options: BlockOptions) -> None:
        """Opens the file for reading or writing.

        Args:
            options: its options.
        """
        if self.mode == "r":
            self._keep(self._open_reader(None))
            return
        native = (options.codec or "zstd", *options.native)
        self._open_writer(ArrayFileWriter, options, native)

    @staticmethod
    def _version_of(reader: ArrayFileReader) -> _Versions:
        return reader.versions

    def _open_reader(self, version: _Versions | None) -> ArrayFileReader:
        location = self._remote.location(self.given)
        cache = None if self._cache is None else self._cache.native
        with formats.opening(self.given, self.article, self.format):
            reader = ArrayFileReader(location, self.limits.max_metadata_bytes, cache)
        if version is not None and reader.versions != version:
            text = "the file was written to since it was opened; refresh() opens its last flush"
            raise OSError(errno.ESTALE, text, self.path)
        return reader

    def reader(self) -> ArrayFileReader:
        """Returns the native reader; ValueError if the file is closed."""
        if self.version is None:
            raise is_closed(self.path, "file")
        return super().reader()

    @property
    def num_layers(self) -> int:
        """Number of files of the last flush; ValueError if the file is closed."""
        if self.writer is None:
            return len(self.reader().versions)
        return len(ArrayFileReader(self.local, self.limits.max_metadata_bytes).versions)

    def refresh(self) -> bool:
        """Opens the layers that exist now; True if they are others. Writers show them always."""
        if self.writer is not None:
            return False
        if self.version is None:
            raise is_closed(self.path, "file")
        return super().refresh()

    def close(self) -> None:
        """Closes the file for good, and drops unflushed changes."""
        super().close()
        self.version = None


class FlushingWriter(WriterBase):
    """Base of stores and array files, whose changes are pending until a flush."""

    _handle: Handle[Any, Any]

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
        handle: Handle[Any, Any] | None = getattr(self, "_handle", None)
        return handle is not None and handle.writer is not None
