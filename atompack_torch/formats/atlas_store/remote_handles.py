"""Handles of stores and array files that are written by way of a local copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from atompack_torch._native import ArrayFileWriter, AtlasReader, AtlasWriter
from atompack_torch.formats.atlas_store.block_cache import BlockCache
from atompack_torch.formats.atlas_store.handles import (
    ArrayFileHandle,
    BlockOptions,
    StoreHandle,
    StoreOptions,
    Version,
)
from atompack_torch.formats.atlas_store.publishing import ArrayFilePublisher, StorePublisher
from atompack_torch.options import MEMORY
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.staging import Options, TemporaryFolder, naming
from atompack_torch.remote.urls import shown_url

_Mode = Literal["x", "a"]


class _Named:
    """A native writer whose errors name the URL instead of the local copy.

    Args:
        native: the writer.
        url: the URL.
        path: the local copy.
    """

    def __init__(self, native: Any, url: str, path: str) -> None:
        self._native = native
        self._url = url
        self._path = path

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._native, name)
        if not callable(function):
            return function

        def call(*args: Any) -> Any:
            with naming(self._url, self._path):
                return function(*args)

        return call

    def __len__(self) -> int:
        return len(self._native)

    def __bool__(self) -> bool:
        return True


class _CopyHandle(StoreHandle):
    """Handle of a store that is written to as a folder of another name than users know.

    Args:
        name: URL or name for users.
        local: the folder.
        options: options of the store, with mode ``"a"`` or ``"x"``.
        cache: of decoded blocks; None: that of the process.
    """

    def __init__(
        self, name: str, local: Path, options: StoreOptions, cache: BlockCache | None
    ) -> None:
        self._local = str(local)
        super().__init__(self._local, cast(_Mode, options.mode), options.limits, cache=cache)
        with naming(name, self._local):
            self.open_writer(replace(options, mode="a", durable=False))
        self.writer = cast(AtlasWriter, _Named(self.writer, name, self._local))
        self.given, self.path = name, shown_url(name)

    def _open_reader(self, version: Version | None) -> AtlasReader:
        names = self.given, self.path
        self.given = self.path = self._local
        try:
            with naming(names[0], self._local):
                return super()._open_reader(version)
        finally:
            self.given, self.path = names

    def at_last_flush(self) -> StoreHandle:
        """Returns another handle, for reading the local copy, which goes when this is closed."""
        other = super().at_last_flush()
        other.given = other.path = self._local
        return other


class RemoteStoreHandle(_CopyHandle):
    """Handle of a store that is written to by way of a local copy.

    Args:
        url: the URL of the store.
        options: options of the store, with mode ``"a"`` or ``"x"``.
        storage_options: options of the object store.
        cache: of decoded blocks; None: that of the process.

    Raises:
        FileExistsError: mode ``"x"`` and the store exists.
        OSError: the store cannot be reached, or refuses.
    """

    def __init__(
        self,
        url: str,
        options: StoreOptions,
        storage_options: Options,
        cache: BlockCache | None = None,
    ) -> None:
        self._publisher = StorePublisher(url, cast(_Mode, options.mode), storage_options)
        try:
            super().__init__(url, self._publisher.copy.path, options, cache)
        except BaseException:
            self._publisher.discard()
            raise

    def publish(self, *, only_rest: bool = False) -> None:
        """Uploads what was flushed, or what an earlier call could not."""
        self._publisher.publish(only_rest=only_rest)

    def close(self) -> None:
        """Closes the files, drops unflushed changes and removes the local copy."""
        super().close()
        self._publisher.discard()


class MemoryStoreHandle(_CopyHandle):
    """Handle of a new store without a name, which is in a temporary folder until it is closed.

    Args:
        options: options of the store.
        cache: of decoded blocks; None: that of the process.
    """

    def __init__(self, options: StoreOptions, cache: BlockCache | None) -> None:
        self._folder = TemporaryFolder()
        super().__init__(MEMORY, self._folder.path, options, cache)

    def to_bytes(self) -> dict[str, bytes]:
        """Returns the files as of the last flush, by their relative paths."""
        files = sorted(file for file in self._folder.path.rglob("*") if file.is_file())
        return {file.relative_to(self._folder.path).as_posix(): file.read_bytes() for file in files}

    def close(self) -> None:
        """Closes the files and removes the folder."""
        super().close()
        self._folder.remove()


class RemoteArrayFileHandle(ArrayFileHandle):
    """Handle of an array file that is written to by way of a local copy.

    Args:
        url: the URL of the base file.
        options: options of the file, with mode ``"a"`` or ``"x"``.
        storage_options: options of the object store.

    Raises:
        FileExistsError: mode ``"x"`` and the file exists.
        OSError: the store cannot be reached, or refuses.
    """

    def __init__(self, url: str, options: BlockOptions, storage_options: Options) -> None:
        self._publisher = ArrayFilePublisher(url, cast(_Mode, options.mode), storage_options)
        local = str(self._publisher.path)
        try:
            with naming(url, local):
                super().__init__(local, replace(options, mode="a", durable=False), RemoteFiles())
        except BaseException:
            self._publisher.discard()
            raise
        self.writer = cast(ArrayFileWriter, _Named(self.writer, url, local))
        self.given, self.path = url, shown_url(url)

    def publish(self, *, only_rest: bool = False) -> None:
        """Uploads what was flushed, or what an earlier call could not."""
        self._publisher.publish(only_rest=only_rest)

    def close(self) -> None:
        """Closes the file, drops unflushed changes and removes the local copy."""
        super().close()
        self._publisher.discard()


class MemoryArrayFileHandle(ArrayFileHandle):
    """Handle of a new array file without a name, which is in a temporary folder until it is closed.

    Args:
        options: options of the file.
    """

    def __init__(self, options: BlockOptions) -> None:
        self._folder = TemporaryFolder()
        self._local = str(self._folder.path / "data.af")
        name = f"{MEMORY}.af"
        super().__init__(self._local, replace(options, mode="x", durable=False), RemoteFiles())
        self.writer = cast(ArrayFileWriter, _Named(self.writer, name, self._local))
        self.given = self.path = name

    def to_bytes(self) -> bytes:
        """Returns the file as of the last flush, if its layers were merged."""
        return Path(self._local).read_bytes()

    def close(self) -> None:
        """Closes the file and removes it."""
        super().close()
        self._folder.remove()
