"""Local copies of whole objects, downloaded with several requests in flight."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import secrets
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from atompack_torch.options import shown_url
from atompack_torch.progress import Progress
from atompack_torch.remote.files import DISK_BYTES, RemoteFiles

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteObject


_PART_BYTES = 4 << 20
_IN_FLIGHT = 8
_SECONDS_UNSEEN = 2.0  # transfers that are shorter show no progress

OnProgress = Callable[[int], object]  # called with the number of bytes done since the last call


class ObjectVersion(NamedTuple):
    """Version of an object.

    Attributes:
        etag: its ETag, with quotes; "" if the server sends none.
        modified: its Last-Modified date; "" if the server sends none.
        size: its size in bytes.
    """

    etag: str
    modified: str
    size: int

    @property
    def is_strong(self) -> bool:
        """True if an object of this version has the same bytes, whenever it is opened."""
        return bool(self.etag) and not self.etag.startswith("W/")


def version_of(source: RemoteObject) -> ObjectVersion:
    """Returns the version of an object that is open."""
    return ObjectVersion(source.etag, source.modified, source.size)


def fetch_into(file: int, source: RemoteObject, url: str, report: OnProgress | None = None) -> None:
    """Writes all bytes of an object that is open to a file, with at most 32 MiB in memory.

    Args:
        file: descriptor of the file, which gets the length of the object.
        source: the object.
        url: its URL, for progress and errors.
        report: called with the number of further bytes that are done; None: see ``transferring``.

    Raises:
        PermissionError: the store refuses it.
        TimeoutError: the store does not respond.
        OSError: the object changed in the meantime (ESTALE), or the file cannot be written.
    """

    def fetch(offset: int) -> int:
        length = min(_PART_BYTES, source.size - offset)
        _write(file, source.read(offset, length), offset)
        return length

    os.truncate(file, source.size)
    offsets = range(len(source.first), source.size, _PART_BYTES)
    waiting: deque[Future[int]] = deque()
    threads = ThreadPoolExecutor(_IN_FLIGHT, "atompack-download")
    label = f"downloading {shown_url(url).rpartition('/')[2]}"
    try:
        with nullcontext(report) if report else transferring(label, source.size) as done:
            if source.first:
                _write(file, source.first, 0)
                done(len(source.first))
            for offset in offsets:
                waiting.append(threads.submit(fetch, offset))
                if len(waiting) >= _IN_FLIGHT:
                    done(waiting.popleft().result())
            while waiting:
                done(waiting.popleft().result())
    finally:
        threads.shutdown(cancel_futures=True)
    if os.fstat(file).st_size != source.size:
        raise OSError(errno.ESTALE, "the local copy was changed meanwhile", shown_url(url))


def _write(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        n = os.pwrite(file, view, offset)
        view, offset = view[n:], offset + n


@contextmanager
def transferring(label: str, total: int, *, enabled: bool = True) -> Iterator[OnProgress]:
    """Shows the progress of a transfer once it has taken seconds, on terminals only.

    Args:
        label: name of the activity.
        total: number of bytes.
        enabled: False shows nothing.

    Yields:
        A function to be called with the number of bytes since the last call, from any thread.
    """
    is_shown = enabled and sys.stderr is not None and sys.stderr.isatty()
    lock, start, done = threading.Lock(), time.monotonic(), 0
    bar: Progress | None = None
    with ExitStack() as stack:

        def report(n_bytes: int) -> None:
            nonlocal bar, done
            with lock:
                done += n_bytes
                if bar is None and is_shown and time.monotonic() - start >= _SECONDS_UNSEEN:
                    bar = stack.enter_context(Progress(-(-total >> 20), "MiB", label=label))
                if bar is not None:
                    bar.update((done >> 20) - bar.done)

        yield report


_SUFFIX = ".object"
_SECONDS_BETWEEN = 0.05
_SECONDS_WITHOUT_PROGRESS = 60.0

# Path of a copy, and its device, inode and size.
Hint = tuple[str, tuple[int, int, int]]


class LocalCopy:
    """A local copy of one version of an object.

    Args:
        path: path of the copy.
        version: version of the object.
        is_temporary: remove the copy with this object, or at the end of this process.
    """

    def __init__(self, path: str, version: ObjectVersion, *, is_temporary: bool = False) -> None:
        self.path = path
        self.version = version
        self._identity = _identity(path)
        if is_temporary:
            weakref.finalize(self, _remove_own, path, os.getpid())

    @property
    def hint(self) -> Hint:
        """Plain data by which another process on this machine can open the copy."""
        return self.path, self._identity


def local_copy(
    remote: RemoteFiles,
    url: str,
    version: ObjectVersion | None = None,
    hint: Hint | None = None,
) -> LocalCopy:
    """Opens a local copy of an object, and downloads it if missing.

    With a block cache the copy is kept in its folder, where several processes download it once.
    Without one, or without a strong ETag, it is a temporary file, which is removed with the object
    that is returned.

    Args:
        remote: access to remote files.
        url: the URL of the object.
        version: the requested version; None: the current one.
        hint: of the copy of another process, which is tried first.

    Returns:
        The copy.

    Raises:
        OSError: as for ``fetch_into``; ESTALE if a version other than the current one is
            requested, and ENOSPC if the limit of the block cache is less than the object.
    """
    folder = None if remote.cache is None else _Folder(remote, remote.cache)
    if version is not None:
        path = _usable(hint) or (folder and folder.find(url, version))
        if path:
            return LocalCopy(path, version)
    source = remote.open_object(url)
    present = version_of(source)
    if version not in (None, present):
        text = "the file was replaced since it was opened; refresh() opens the new one"
        raise OSError(errno.ESTALE, text, shown_url(url))
    if folder is not None and present.is_strong:
        return LocalCopy(folder.fetch(source, url), present)
    return LocalCopy(_temporary(source, url), present, is_temporary=True)


def _temporary(source: RemoteObject, url: str) -> str:
    file, path = tempfile.mkstemp(prefix="atompack-")
    try:
        fetch_into(file, source, url)
    except BaseException:
        Path(path).unlink()
        raise
    finally:
        os.close(file)
    return path


def _remove_own(path: str, process: int) -> None:
    """Removes a temporary copy, unless this is a fork of the process that made it."""
    if os.getpid() == process:
        Path(path).unlink(missing_ok=True)


def _identity(path: str | Path) -> tuple[int, int, int]:
    status = os.stat(path)  # noqa: PTH116  (most callers have a string)
    return status.st_dev, status.st_ino, status.st_size


def _usable(hint: Hint | None) -> str | None:
    """Returns the path of the copy of another process, if it is still the same file."""
    if hint is None:
        return None
    path, identity = hint
    with suppress(OSError):
        if os.access(path, os.R_OK) and _identity(path) == identity:
            return path
    return None


class _Folder:
    """Whole objects in the folder of a block cache, each named by its URL and version.

    They are downloaded under a hidden name, whose lock shows that a process is at work, and
    renamed. The limit of the folder holds for them together, apart from the pages of other objects.
    """

    def __init__(self, remote: RemoteFiles, folder: str) -> None:
        self._folder = Path(folder)
        self._limit = remote.cache_bytes or DISK_BYTES

    def _path(self, url: str, version: ObjectVersion) -> Path:
        parts = ("atompack object 1", shown_url(url), str(version.size), *version[:2])
        key = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()
        return self._folder / f"{key}{_SUFFIX}"

    def find(self, url: str, version: ObjectVersion) -> str | None:
        """Returns the path of a kept object; None if it is not here."""
        path = self._path(url, version)
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_size == version.size:
                os.utime(path)  # used last
                return str(path)
        return None

    def fetch(self, source: RemoteObject, url: str) -> str:
        """Downloads an object if neither this nor another process has; returns its path."""
        version = version_of(source)
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        path = self._path(url, version)
        staged = path.with_name(f".{path.name}.part")
        seen, changed = -1, time.monotonic()
        while True:
            kept = self.find(url, version)
            if kept is not None:
                return kept
            file = self._lock(staged)
            if file is not None:
                return self._finish(file, staged, path, source, url)
            progress = _allocated(staged)
            if progress != seen:
                seen, changed = progress, time.monotonic()
            elif time.monotonic() - changed > _SECONDS_WITHOUT_PROGRESS:
                own = f".{path.name}.{secrets.token_hex(8)}.part"  # the other one hangs
                staged = path.with_name(own)
            time.sleep(_SECONDS_BETWEEN)

    def _lock(self, staged: Path) -> int | None:
        """Opens the staging file, whose lock shows that a process is downloading."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(staged, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named, locked = staged.lstat(), os.fstat(file)
            if not stat.S_ISREG(locked.st_mode):
                raise OSError(errno.EINVAL, "expected a regular file", staged)
            if (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino):
                return file
        except (BlockingIOError, FileNotFoundError):
            pass  # another process has it, or has just renamed it
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return None

    def _finish(self, file: int, staged: Path, path: Path, source: RemoteObject, url: str) -> str:
        try:
            kept = self.find(url, version_of(source))
            if kept is not None:  # another process finished before this one got the lock
                staged.unlink(missing_ok=True)
                return kept
            os.truncate(file, 0)  # a killed process may have left something
            os.truncate(file, source.size)  # other processes that make room see it
            self._make_room(source.size, url, staged)
            fetch_into(file, source, url)
            os.fsync(file)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        return str(path)

    def _make_room(self, n_bytes: int, url: str, own: Path) -> None:
        """Removes objects that were used longest ago until there is room for another."""
        if n_bytes > self._limit:
            text = f"cache_bytes: expected at least {n_bytes}, got {self._limit}"
            raise OSError(errno.ENOSPC, text, shown_url(url))
        total = n_bytes
        for path in self._folder.glob(f".*{_SUFFIX}.*part"):
            if path != own and not self._remove_if_abandoned(path):
                total += _size(path)
        kept = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # another process removes them too
                status = path.stat()
                kept.append((status.st_mtime_ns, status.st_size, path))
        total += sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self._limit:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _remove_if_abandoned(self, staged: Path) -> bool:
        """Removes the staging file of a process that was killed."""
        file = self._lock(staged)
        if file is None:
            return False
        staged.unlink(missing_ok=True)
        os.close(file)
        return True


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _allocated(path: Path) -> int:
    """Disk space of a file that is being written; -1 if missing."""
    try:
        return path.stat().st_blocks
    except FileNotFoundError:
        return -1
