"""File systems of fsspec, and the Hugging Face Hub, as stores."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import date, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from atompack_torch.options import shown_url

if TYPE_CHECKING:
    from atompack_torch.remote.client import PythonRequest, PythonStore, RequestQueue


T = TypeVar("T")


class UnsupportedSchemeError(ValueError):
    """A scheme that fsspec does not know."""


_AT_ONCE = 256  # requests for one call
# Of what file systems say about a file: what does not change with its bytes.
_NOT_OF_VERSION = {"name", "type", "mode", "uid", "gid", "nlink", "islink", "time", "atime"}
# Keys whose values differ for different bytes; an inode counts along with its last change.
_STRONG = re.compile(
    r"etag|md5|crc|sha\d*$|checksum|hash|generation|version|revision|^(rev|ino|hex|blob_id)$", re.I
)
_PLAIN = (str, bytes, int, float, datetime, date, tuple)


class _FileError(OSError):
    """An error whose text is ours; those of libraries may hold secrets."""


class _DaemonThread:
    """Runs tasks in order; unlike an executor, it does not keep Python from ending."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        weakref.finalize(self, self._tasks.put, None)
        threading.Thread(
            target=_run_all, args=(self._tasks,), name="atompack_torch fsspec", daemon=True
        ).start()

    def submit(self, function: Callable[..., T], *args: Any) -> Future[T]:
        done: Future[T] = Future()

        def task() -> None:
            try:
                done.set_result(function(*args))
            except BaseException as error:  # the caller waits
                done.set_exception(error)

        self._tasks.put(task)
        return done


def _run_all(tasks: SimpleQueue[Callable[[], None] | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
        del task  # before the next one is waited for


class FileSystems:
    """File systems of fsspec with the options of a user.

    Args:
        options: passed on to fsspec as they are.

    Raises:
        ImportError: fsspec is not installed.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            import fsspec  # noqa: F401
        except ImportError:
            raise ImportError("URLs of this kind need fsspec: pip install fsspec") from None
        self._options = dict(options)
        self._archives: dict[str, tuple[str, Any]] = {}  # URL → version of the links behind it, fs
        self._thread = _DaemonThread()

    def find(self, url: str) -> Iterator[tuple[str, int]]:
        """Lists all files below a folder.

        Args:
            url: the URL of the folder.

        Returns:
            Names, relative to the folder, and sizes, sorted; none if there is no such folder.

        Raises:
            OSError: the file system refuses or fails.
        """
        return iter(self._call(url, self._find, url))

    def store(self) -> PythonStore:
        """Makes a store that reads files by a thread of its own."""
        from atompack_torch.remote.client import PythonStore, RequestQueue

        queue = RequestQueue()
        threading.Thread(
            target=self._answer, args=(queue,), name="atompack_torch fsspec requests", daemon=True
        ).start()
        return PythonStore(self._open, queue)

    def _call(self, url: str, function: Callable[..., T], *args: Any) -> T:
        """Runs a function on the thread of fsspec, with errors that name the URL."""
        try:
            return self._thread.submit(function, *args).result()
        except UnsupportedSchemeError:
            raise
        except ImportError as error:  # of a package for this scheme
            raise ImportError(f"{shown_url(url)}: {error}") from None
        except Exception as error:
            raise OSError(*_code_and_reason(error), shown_url(url)) from None

    def _open(self, url: str, n_first: int) -> tuple[int, str, bytes]:
        return self._call(url, self._open_here, url, n_first)

    def _open_here(self, url: str, n_first: int) -> tuple[int, str, bytes]:
        system, path = self._system(url)
        size, version = self._version(url, system, path)
        first = system.cat_file(path, start=0, end=min(n_first, size)) if size else b""
        if self._version(url, system, path) != (size, version):
            raise _FileError(errno.ESTALE, "the file changed while it was opened")
        return size, version, first

    def _answer(self, queue: RequestQueue) -> None:
        """Answers the requests of a store until it is closed."""
        while requests := queue.take(_AT_ONCE):
            try:
                self._thread.submit(self._read, requests).result()
            except BaseException as error:  # a caller waits for each of them
                for request in requests:
                    _fail(request, error)
            del requests  # before the next ones are waited for

    def _read(self, requests: Sequence[PythonRequest]) -> None:
        by_url: dict[str, list[PythonRequest]] = defaultdict(list)
        for request in requests:
            by_url[request.url].append(request)
        for url, of_file in by_url.items():
            try:
                self._read_file(url, of_file)
            except Exception as error:
                for request in of_file:
                    _fail(request, error)

    def _read_file(self, url: str, requests: Sequence[PythonRequest]) -> None:
        system, path = self._system(url)
        starts = [request.offset for request in requests]
        ends = [request.offset + request.length for request in requests]
        parts = system.cat_ranges([path] * len(starts), starts, ends, on_error="return")
        # After reading: bytes that were replaced since then are those of the version before.
        version = self._version(url, system, path)[1]
        for request, part in zip(requests, parts, strict=True):
            if request.version != version:
                request.fail(errno.ESTALE, "the file has changed since it was opened")
            elif isinstance(part, Exception):
                _fail(request, part)
            else:
                request.finish(bytes(part))

    def _find(self, url: str) -> list[tuple[str, int]]:
        system, path = self._system(url)
        system.invalidate_cache()
        try:
            found = system.find(path, detail=True)
        except FileNotFoundError:
            return []
        start = f"{path.rstrip('/')}/" if path.strip("/") else path
        names = []
        for name, info in found.items():
            if name.startswith(start) and info.get("type") == "file":
                names.append((name[len(start) :].lstrip("/"), int(info.get("size") or 0)))
        return sorted(names)

    def _system(self, url: str) -> tuple[Any, str]:
        """Returns the file system of a URL, and the path in it.

        Archives in other files are opened again when these have changed.
        """
        from fsspec.core import url_to_fs

        _check_schemes(url)
        first, _, behind = url.partition("::")
        if "://" not in first or not behind:
            system, path = url_to_fs(url, **self._options)
            return system, path
        version = self._version_behind(url)
        head = first.partition("://")[0]
        known = self._archives.get(f"{head}::{behind}")
        if known is not None and known[0] == version:
            system = known[1]
            return system, system._strip_protocol(first)
        system, path = url_to_fs(url, **self._options, skip_instance_cache=True)
        self._archives[f"{head}::{behind}"] = version, system
        return system, path

    def _version(self, url: str, system: Any, path: str) -> tuple[int, str]:
        """Returns the size of a file, and a text that changes with its bytes; empty if unknown."""
        system.invalidate_cache(system._parent(path))
        info = system.info(path)
        size = info.get("size")
        if info.get("type") == "directory":
            raise _FileError(errno.ENOENT, "expected a file, got a folder")
        if not isinstance(size, int):
            raise _FileError(errno.EOPNOTSUPP, "the file system does not know the size of the file")
        return size, _digest(_facts(info), self._version_behind(url))

    def _version_behind(self, url: str) -> str:
        """Returns the version of the file that holds an archive; empty if missing."""
        from fsspec.core import url_to_fs

        first, _, behind = url.partition("::")
        if "://" not in first or not behind:
            return ""
        protocols = [link.partition("://")[0] for link in behind.split("::")]
        options = {name: self._options[name] for name in protocols if name in self._options}
        system, path = url_to_fs(behind, **options)
        return self._version(behind, system, path)[1]


def _check_schemes(url: str) -> None:
    from fsspec import get_filesystem_class

    for link in url.split("::"):
        scheme = link.partition("://")[0]
        try:
            get_filesystem_class(scheme)
        except ValueError:
            raise UnsupportedSchemeError(
                f"{shown_url(url)}: expected a scheme that fsspec knows, got {scheme!r}"
            ) from None


def _facts(info: Mapping[str, Any]) -> list[str]:
    facts = {name: v for name, v in info.items() if name.lower() not in _NOT_OF_VERSION}
    if not any(isinstance(v, _PLAIN) for name, v in facts.items() if name != "size"):
        return []
    return [f"{name}={facts[name]!r}" for name in sorted(facts) if isinstance(facts[name], _PLAIN)]


def _digest(facts: list[str], behind: str) -> str:
    """Returns an ETag of facts; empty if missing.

    Facts that may be the same for other bytes, such as times, make a weak one, so that nothing is
    kept on disk.
    """
    if not facts and not behind:
        return ""
    digest = hashlib.sha256(repr([facts, behind]).encode(errors="surrogatepass")).hexdigest()
    is_strong = behind.startswith('"') or any(_STRONG.search(f.partition("=")[0]) for f in facts)
    return f'"{digest}"' if is_strong else f'W/"{digest}"'


_CODES = (
    (FileNotFoundError, errno.ENOENT),
    (PermissionError, errno.EACCES),
    (TimeoutError, errno.ETIMEDOUT),
    (IsADirectoryError, errno.EISDIR),
    (NotADirectoryError, errno.ENOENT),
)


def _code_and_reason(error: BaseException) -> tuple[int, str]:
    if isinstance(error, _FileError):
        return error.errno or errno.EIO, error.strerror or ""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
    if code is None and isinstance(error, OSError):
        code = error.errno
    if code is None:
        return errno.EIO, f"fsspec failed: {type(error).__name__}"
    return code, os.strerror(code)


def _fail(request: PythonRequest, error: BaseException) -> None:
    request.fail(*_code_and_reason(error))
