"""Access to files that have no local path: in remote stores and in memory."""

from __future__ import annotations

import errno
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from atompack_torch.errors import CorruptFileError
from atompack_torch.options import (
    BUFFERS,
    MEMORY,
    Buffer,
    absolute_path,
    check_choice,
    checked_integer,
    has_suffix,
    is_hidden,
    is_in_memory,
    is_url,
    shown_url,
)
from atompack_torch.remote.listing import list_files, list_names, parse_json, relative_names
from atompack_torch.remote.urls import (
    FSSPEC,
    StorageOptions,
    hub_endpoint,
    is_http,
    is_root,
    join_url,
    native_url,
    parent_url,
    parse_hub_url,
    scheme_of,
    sibling_url,
)

if TYPE_CHECKING:
    from atompack_torch._native import FileStore
    from atompack_torch.remote.client import PagedStore, RemoteObject, RemoteStore
    from atompack_torch.remote.file_systems import FileSystems

T = TypeVar("T")

MEMORY_BYTES = 256 << 20
DISK_BYTES = 16 << 30
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass
class RemoteFiles:
    """Access to remote files, opened on first use in each process and for each scheme.

    Attributes:
        options: the options of the stores, which may hold secrets; pickled, but never shown.
        cache: folder on local disk where blocks are kept; None: only in memory.
        cache_bytes: limit of the folder, or of the memory without one; None: 16 GiB and
            256 MiB.
        fsspec_options: options for fsspec, which may hold secrets too.
        commits: revisions of the Hugging Face hub → the commits that they named when they were
            first used.
    """

    options: StorageOptions = field(default_factory=StorageOptions)
    cache: str | None = None
    cache_bytes: int | None = None
    fsspec_options: dict[str, Any] = field(default_factory=dict, repr=False)
    commits: dict[str, str] = field(default_factory=dict)
    _opened: dict[str, tuple[Any, PagedStore]] = field(default_factory=dict, repr=False)
    _urls: dict[str, str] = field(default_factory=dict, repr=False)  # by name in native readers
    recognized: dict[str, Any] = field(default_factory=dict, repr=False)  # formats, by URL
    _process: int | None = field(default=None, repr=False)

    @classmethod
    def checked(
        cls,
        storage_options: RemoteFiles | Mapping[str, object] | None,
        path: object = None,
    ) -> RemoteFiles:
        """Checks the options of a user.

        Args:
            storage_options: see ``StorageOptions``, with ``cache``, a folder, and ``cache_bytes``,
                a limit; or an access that was checked before, which is returned. For URLs of
                fsspec: any options.
            path: the path or paths for which the options are meant.

        Returns:
            The access; nothing is opened yet.

        Raises:
            ValueError: an option is unknown or out of range.
            TypeError: an option has the wrong type.
        """
        if isinstance(storage_options, RemoteFiles):
            return storage_options
        if not isinstance(storage_options, Mapping | None):
            kind = type(storage_options).__name__
            raise TypeError(f"storage_options: expected a mapping, got {kind}")
        given = dict(storage_options or {})
        cache: Any = given.pop("cache", None)
        limit = given.pop("cache_bytes", None)
        if limit is not None:
            limit = checked_integer("cache_bytes", limit, 1)
        folder = None if cache is None else absolute_path(cache)
        schemes = {scheme_of(url) for url in _urls_in(path)}
        if FSSPEC not in schemes:
            return cls(StorageOptions.parse(given), folder, limit)
        options = StorageOptions.parse(given if schemes != {FSSPEC} else None)
        return cls(options, folder, limit, given)

    def store(self, url: str) -> FileStore:
        """Returns the store that reads the file of a URL, with its pages kept in memory.

        Args:
            url: the URL of a file or folder.

        Returns:
            The store, the same one for all URLs of a scheme in this process.

        Raises:
            ImportError: the package was built without libcurl, or fsspec is not installed.
            PermissionError: the store needs credentials and there are none.
            OSError: the folder of the block cache cannot be made.
        """
        return self._open(url)[1]

    def objects(self, url: str) -> RemoteStore:
        """Returns the client that sends requests to the store of a URL; not for fsspec."""
        client: RemoteStore = self._open(url)[0]
        return client

    def file_systems(self) -> FileSystems:
        """Returns the file systems of fsspec."""
        systems: FileSystems = self._open("fsspec+any://")[0]
        return systems

    def _open(self, url: str) -> tuple[Any, PagedStore]:
        from atompack_torch.remote.client import PagedStore, open_client
        from atompack_torch.remote.file_systems import FileSystems

        if self._process not in (None, os.getpid()):  # whose threads do not exist here
            self._opened = {}
        self._process = os.getpid()
        scheme = scheme_of(url)
        if scheme not in self._opened:
            client: Any
            if scheme == FSSPEC:
                client = FileSystems(self.fsspec_options)
                objects = client.store()
            else:
                client = objects = open_client(url, self.options)
            on_disk = self.cache is not None
            limit = self.cache_bytes
            paged = PagedStore(
                objects,
                memory_bytes=MEMORY_BYTES if on_disk or limit is None else limit,
                cache_folder=self.cache,
                cache_bytes=DISK_BYTES if limit is None else limit,
                list_folder=_weak(self._names_in),
                find_address=_weak(self._address_of),
            )
            self._opened[scheme] = client, paged
        return self._opened[scheme]

    def holds(self, path: object) -> bool:
        """True for the names of its files and folders, which are not local paths."""
        return is_url(path)

    def absolute(self, path: object) -> str:
        """Returns a name that it holds unchanged, and the absolute path of a local file."""
        return path if isinstance(path, str) and self.holds(path) else absolute_path(path)

    def location(self, path: str) -> tuple[str, FileStore | None]:
        """Returns the location of a file or folder for native readers.

        Args:
            path: a path or URL.

        Returns:
            A path and None, or the URL by which its store knows the file, and the store. That URL
            has no secrets; names of files in a folder may be appended to it.

        Raises:
            ImportError, PermissionError, OSError: as for ``store``.
        """
        if not is_url(path):
            return path, None
        if scheme_of(path) not in ("s3", "gs"):
            return self._name(path), self.store(path)
        return path.rstrip("/"), self.store(path)

    def _name(self, url: str) -> str:
        """Finds a name without secrets for a URL, and keeps the URL for ``_address_of``."""
        shown = shown_url(url)
        if scheme_of(url) == "hf":  # the revision before the path, to which names are appended
            where = parse_hub_url(url)
            shown = where.with_path(where.path)
        shown = name = shown.rstrip("/")
        n = 1
        while self._urls.setdefault(name, url) != url:  # other files, by their queries
            n += 1
            name = f"{shown}#{n}"
        return name

    def _address_of(self, name: str) -> tuple[str, str]:
        """Returns what is requested for a name, and the name of the file in the block cache."""
        url = self._url_of(name)
        scheme = scheme_of(url)
        if scheme == FSSPEC:
            return url, shown_url(url)
        if scheme == "hf":
            where = parse_hub_url(url)
            pinned = where._replace(revision=self.commit_of(url))
            address = native_url(pinned.with_path(where.path), self.options, os.environ)
            return address, f"hf://{where.kind}/{where.repo}/{where.path}"
        address = native_url(url, self.options, os.environ)
        return address, address

    def _url_of(self, name: str) -> str:
        if name in self._urls:
            return self._urls[name]
        folder = name
        while "/" in folder:  # the nearest folder that is known
            folder = folder.rpartition("/")[0]
            if folder in self._urls:
                return join_url(self._urls[folder], name[len(folder) + 1 :])
        folder, _, last = name.rpartition("/")
        for known, url in self._urls.items():
            its_folder = known.rpartition("/")[0]
            if its_folder.rstrip("/") == name.rstrip("/"):
                return parent_url(url)
            if its_folder == folder:
                return sibling_url(url, last)
        return name

    def commit_of(self, url: str) -> str:
        """Returns the commit of a URL of the hub, always the one that was found first.

        Args:
            url: a URL that begins with ``hf://``.

        Returns:
            The commit, 40 digits.

        Raises:
            OSError: the hub refuses or does not respond; FileNotFoundError: no such repository or
                revision.
            CorruptFileError: the response names no commit.
        """
        where = parse_hub_url(url)
        if _COMMIT.fullmatch(where.revision):
            return where.revision
        key = f"{where.kind}/{where.repo}@{where.revision}"
        if key not in self.commits:
            endpoint = hub_endpoint(self.options, os.environ)
            revision = quote(where.revision, safe="")
            address = f"{endpoint}/api/{where.kind}/{where.repo}/revision/{revision}"
            response = self.objects(url).request("GET", address)
            response.check(url)
            commit = parse_json(response.body, url, dict).get("sha")
            if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
                raise CorruptFileError(f"{url}: the server's response: expected a commit")
            self.commits[key] = commit
        return self.commits[key]

    @contextmanager
    def refreshing(self) -> Iterator[None]:
        """Resolves revisions of the hub again in this block; keeps the old ones if it fails."""
        before, self.commits = self.commits, {}
        try:
            yield
        except BaseException:
            self.commits = before
            raise

    def open_object(self, url: str) -> RemoteObject:
        """Opens the present version of an object, to be read range by range.

        Args:
            url: the URL of a file.

        Returns:
            The object.

        Raises:
            FileNotFoundError: there is none.
            ImportError, PermissionError, OSError: as for ``store``.
        """
        address = self._address_of(self.location(url)[0])[0]
        store = self.file_systems().store() if scheme_of(url) == FSSPEC else self.objects(url)
        return store.open(address)

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
        found = (name for name in relative_names(self, url) if has_suffix(name, suffix))
        names = sorted(name for name in found if not is_hidden(name))
        files = [join_url(url, name) for name in names]
        if not files:
            text = f"no {suffix} file in this folder" if suffix else "no such folder"
            raise FileNotFoundError(errno.ENOENT, text, shown_url(url))
        return files

    def bytes_in(self, url: str) -> int | None:
        """Returns the size of all files in a folder; None if it cannot be listed."""
        return None if is_http(url) else sum(entry.size for entry in list_files(self, url))

    def _names_in(self, name: str) -> list[str]:
        """Names of the entries of a folder, for native readers."""
        names = list_names(self, self._url_of(name))
        if not names:
            raise FileNotFoundError(errno.ENOENT, "no such folder", name)
        return names

    def ends(self, url: str, n_first: int, n_last: int) -> tuple[bytes, bytes] | None:
        """Reads the first and last bytes of a file; None if there is no such file."""
        if is_root(url):
            return None
        name, store = self.location(url)
        assert store is not None
        try:
            return store.ends(name, n_first, n_last)
        except FileNotFoundError:
            return None

    def has_file(self, url: str) -> bool:
        """True if there is a file at a URL."""
        name, store = self.location(url)
        assert store is not None
        return store.has_file(name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}, "recognized": {}, "_process": None}


class MemoryFiles(RemoteFiles):
    """Access to files in memory; nothing is copied. A pickle carries their bytes.

    Args:
        files: names of files → their bytes, which must not be changed from now on.
        mode: mode in which they are opened, for the check.

    Raises:
        ValueError: the mode is not ``"r"``.
        BufferError: the bytes of a buffer are not contiguous.
    """

    _files: dict[str, Buffer]

    def __init__(self, files: Mapping[str, Buffer], mode: str = "r") -> None:
        super().__init__()
        check_choice("mode", mode, ["r"])
        self.__setstate__({"_files": dict(files)})

    @classmethod
    def in_folder(cls, files: Mapping[str, Buffer], mode: str = "r") -> MemoryFiles:
        """Returns access to the files of a folder that is named ``MEMORY``.

        Args:
            files: paths relative to the folder, with slashes → bytes.
            mode: mode in which they are opened.

        Returns:
            The access.

        Raises:
            TypeError: a path is not a string, or a file is not a buffer.
            ValueError: a path is not relative and normal, or the mode is not ``"r"``.
            BufferError: the bytes of a buffer are not contiguous.
        """
        for name, data in files.items():
            if not isinstance(name, str):
                raise TypeError(f"path: expected relative paths as str, got {name!r}")
            if not {"", ".", ".."}.isdisjoint(name.split("/")) or "\0" in name:
                raise ValueError(f"path: expected relative paths such as 'a/data.af', got {name!r}")
            if not isinstance(data, BUFFERS):
                kind = type(data).__name__
                raise TypeError(f"path: expected bytes or a buffer for {name!r}, got {kind}")
        return cls({f"{MEMORY}/{name}": data for name, data in files.items()}, mode)

    @property
    def names(self) -> list[str]:
        """Names of the files."""
        return list(self._files)

    def holds(self, path: object) -> bool:
        """True for the names of its files and folders, which are not local paths."""
        return is_in_memory(path)

    def ends(self, url: str, n_first: int, n_last: int) -> tuple[bytes, bytes] | None:
        """Returns the first and last bytes of a file; None if there is no such file."""
        return self._memory.ends(url, n_first, n_last) if url in self._files else None

    def bytes_in(self, url: str) -> int:
        """Returns the size of a file, or of all files of a folder."""
        return sum(memoryview(data).nbytes for data in self._files.values())

    def location(self, path: str) -> tuple[str, FileStore | None]:
        """Returns the location of a file or folder for native readers.

        Args:
            path: its name.

        Returns:
            The name, and the store of all files.
        """
        return path, self._memory

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "_files": {k: bytes(v) for k, v in self._files.items()}}
        del state["_memory"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from atompack_torch._native import MemoryStore

        self.__dict__.update(state)
        self._memory = MemoryStore({name: memoryview(data) for name, data in self._files.items()})


def _weak(method: Callable[[str], T]) -> Callable[[str], T]:
    """Returns a function that does not keep the object of a method alive.

    A native store that kept its ``RemoteFiles`` alive would never end: nobody could see the circle.
    """
    found = weakref.WeakMethod(method)

    def call(name: str) -> T:
        alive = found()
        if alive is None:
            raise OSError(errno.EBADF, "the dataset of this file was closed", name)
        return alive(name)

    return call


def _urls_in(path: object) -> list[str]:
    listed = path if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    return [one for one in listed if isinstance(one, str) and is_url(one)]
