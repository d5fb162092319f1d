"""Remote files of data sets: options, stores opened in each process, and folders of files."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atompack_torch.options import absolute_path, checked_integer, is_url
from atompack_torch.remote.urls import StorageOptions, native_url, scheme_of, shown_url

if TYPE_CHECKING:
    from atompack_torch._native import FileStore
    from atompack_torch.remote.client import PagedStore, RemoteStore
    from atompack_torch.remote.listing import ObjectEntry

MEMORY_BYTES = 256 << 20
DISK_BYTES = 16 << 30
_LISTED = ("s3", "gs")


@dataclass
class RemoteFiles:
    """Access to remote files, opened on first use in each process and for each scheme.

    Attributes:
        options: the options of the stores, which may hold secrets; pickled, but never shown.
        block_cache: folder on local disk where blocks are kept; None: only in memory.
        block_cache_bytes: limit of the folder, or of the memory without one; None: 16 GiB and
            256 MiB.
    """

    options: StorageOptions = field(default_factory=StorageOptions)
    block_cache: str | None = None
    block_cache_bytes: int | None = None
    _opened: dict[str, tuple[RemoteStore, PagedStore]] = field(default_factory=dict, repr=False)
    _process: int | None = field(default=None, repr=False)

    @classmethod
    def checked(
        cls,
        storage_options: StorageOptions | Mapping[str, object] | None,
        block_cache: str | os.PathLike[str] | None,
        block_cache_bytes: int | None,
    ) -> RemoteFiles:
        """Checks the options of a user.

        Args:
            storage_options: see ``StorageOptions``.
            block_cache: a folder or None.
            block_cache_bytes: a limit or None.

        Returns:
            The access; nothing is opened yet.

        Raises:
            ValueError: an option is unknown or out of range.
            TypeError: an option has the wrong type.
        """
        if block_cache_bytes is not None:
            block_cache_bytes = checked_integer("block_cache_bytes", block_cache_bytes, 1)
        folder = None if block_cache is None else absolute_path(block_cache)
        return cls(StorageOptions.parse(storage_options), folder, block_cache_bytes)

    def has_forked(self) -> bool:
        """True if the stores were opened by another process, whose threads do not exist here."""
        return self._process not in (None, os.getpid())

    def store(self, url: str) -> FileStore:
        """Returns the store that reads the file of a URL, with its pages kept in memory.

        Args:
            url: the URL of a file or folder.

        Returns:
            The store, the same one for all URLs of a scheme in this process.

        Raises:
            ImportError: the package was built without libcurl.
            PermissionError: the store needs credentials and there are none.
            OSError: the folder of the block cache cannot be made.
        """
        return self._open(url)[1]

    def _open(self, url: str) -> tuple[RemoteStore, PagedStore]:
        from atompack_torch.remote.client import PagedStore, open_store

        if self.has_forked():
            self._opened = {}
        self._process = os.getpid()
        scheme = scheme_of(url)
        if scheme not in self._opened:
            objects = open_store(url, self.options)[0]
            on_disk = self.block_cache is not None
            limit = self.block_cache_bytes
            paged = PagedStore(
                objects,
                memory_bytes=MEMORY_BYTES if on_disk or limit is None else limit,
                cache_folder=self.block_cache,
                cache_bytes=DISK_BYTES if limit is None else limit,
                list_folder=self._names_in,
            )
            self._opened[scheme] = objects, paged
        return self._opened[scheme]

    def location(self, path: str) -> tuple[str, FileStore | None]:
        """Returns the place of a file or folder for native readers.

        Args:
            path: a path or URL.

        Returns:
            A path and None, or the URL by which its store knows the file, and the store.

        Raises:
            ImportError, PermissionError, OSError: as for ``store``.
        """
        if not is_url(path):
            return path, None
        return native_url(path, self.options, os.environ), self.store(path)

    def stats(self) -> dict[str, dict[str, int | str]]:
        """Returns what the stores of this process have read: scheme → counts."""
        return {scheme: paged.stats() for scheme, (_, paged) in self._opened.items()}

    def files_in(self, url: str, suffix: str) -> list[str]:
        """Lists the files below a folder.

        Args:
            url: the URL of the folder.
            suffix: the end of their names.

        Returns:
            Their URLs, sorted.

        Raises:
            FileNotFoundError: there is none.
            OSError: the folder cannot be listed.
        """
        found = self.entries_in(url.rstrip("/"))
        files = sorted(entry.url for entry in found if entry.url.endswith(suffix))
        if not files:
            text = f"no {suffix} file in this folder"
            raise FileNotFoundError(errno.ENOENT, text, shown_url(url))
        return files

    def entries_in(self, folder: str, start: str = "") -> list[ObjectEntry]:
        """Lists the objects below a folder; see ``files_in``.

        Args:
            folder: the URL of the folder, without the last slash.
            start: the beginning of their names.

        Returns:
            The entries, in the order of their keys; empty if there is nothing.

        Raises:
            OSError: the folder cannot be listed.
        """
        from atompack_torch.remote.listing import list_objects

        if scheme_of(folder) not in _LISTED:
            text = "folders of this kind cannot be listed: name the files in a list"
            raise OSError(errno.EOPNOTSUPP, text, shown_url(folder))
        return list(list_objects(self._open(folder)[0], f"{folder}/{start}"))

    def objects(self, url: str) -> RemoteStore:
        """Returns the client for the store of a URL; see ``store``."""
        return self._open(url)[0]

    def _names_in(self, url: str) -> list[str]:
        """Names of the entries of a folder, for native readers."""
        folder = f"{url.rstrip('/')}/"
        below = (file[len(folder) :] for file in self.files_in(url, ""))
        return sorted({name.partition("/")[0] for name in below})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}, "_process": None}
