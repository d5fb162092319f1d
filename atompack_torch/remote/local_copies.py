"""Local copies of whole objects, for formats that cannot be read range by range."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from atompack_torch.remote.downloads import ObjectVersion, fetch_into, version_of
from atompack_torch.remote.files import DISK_BYTES, RemoteFiles
from atompack_torch.remote.urls import shown_url

if TYPE_CHECKING:
    from atompack_torch.remote.client import RemoteObject

_SUFFIX = ".object"
_SECONDS_BETWEEN = 0.05
_SECONDS_WITHOUT_PROGRESS = 60.0

# Process, descriptor, and device, inode and size of an open copy.
Hint = tuple[int, int, tuple[int, int, int]]


class LocalCopy:
    """An open local copy of one version of an object.

    The descriptor stays open, so that forks of this process can read the copy too, and so that a
    copy without a name is there until the last of them closes it.

    Args:
        file: descriptor of the copy, which is owned from now on.
        version: version of the object.
    """

    def __init__(self, file: int, version: ObjectVersion) -> None:
        self._file = file
        self.version = version

    @property
    def path(self) -> str:
        """Path that opens the copy in this process and its forks."""
        return f"/proc/self/fd/{self._file}"

    @property
    def hint(self) -> Hint:
        """Plain data by which another process on this machine can open the copy."""
        return os.getpid(), self._file, _identity(self._file)

    def __del__(self) -> None:
        with suppress(OSError):  # the interpreter may be ending
            os.close(self._file)


def latest_version(remote: RemoteFiles, url: str) -> ObjectVersion:
    """Returns the present version of an object.

    Args:
        remote: access to remote files.
        url: the URL of the object.

    Returns:
        The version.

    Raises:
        OSError: as for ``download``.
    """
    return version_of(remote.open_object(url))


def local_copy(
    remote: RemoteFiles,
    url: str,
    version: ObjectVersion | None = None,
    hint: Hint | None = None,
) -> LocalCopy:
    """Opens a local copy of an object, and downloads it if there is none.

    With a block cache the copy is kept in its folder, where several processes download it once.
    Without one it has no name, and goes with the last process that has it open.

    Args:
        remote: access to remote files.
        url: the URL of the object.
        version: the version that is wanted; None: the present one.
        hint: of the copy of another process, which is tried first.

    Returns:
        The copy.

    Raises:
        OSError: as for ``download``; ESTALE if another version is wanted than the present one, and
            ENOSPC if the limit of the block cache is less than the object.
    """
    if version is not None:
        file = _open_by_hint(hint)
        if file is None and remote.block_cache is not None:
            file = _Folder(remote, remote.block_cache).open(url, version)
        if file is not None:
            return LocalCopy(file, version)
    source = remote.open_object(url)
    present = version_of(source)
    if version not in (None, present):
        text = "the file was replaced since it was opened; refresh() opens the new one"
        raise OSError(errno.ESTALE, text, shown_url(url))
    if remote.block_cache is None or not (present.etag or present.modified):
        with tempfile.TemporaryFile(buffering=0, prefix="atompack-") as unnamed:
            fetch_into(unnamed.fileno(), source, url)
            return LocalCopy(os.dup(unnamed.fileno()), present)
    return LocalCopy(_Folder(remote, remote.block_cache).fetch(source, url), present)


def _identity(file: int) -> tuple[int, int, int]:
    status = os.fstat(file)
    return status.st_dev, status.st_ino, status.st_size


def _open_by_hint(hint: Hint | None) -> int | None:
    if hint is None:
        return None
    process, number, identity = hint
    file = _open(Path(f"/proc/{process}/fd/{number}"))
    if file is not None and _identity(file) != identity:
        os.close(file)
        return None
    return file


def _open(path: Path, flags: int = os.O_RDONLY) -> int | None:
    """Opens a regular file; None if there is none, or none that this process may open."""
    try:
        file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


class _Folder:
    """Whole objects in the folder of a block cache, each named by its URL and version.

    They are downloaded under a hidden name, whose lock shows that somebody is at work, and renamed.
    The limit of the folder holds for them together, apart from the pages of other objects.
    """

    def __init__(self, remote: RemoteFiles, folder: str) -> None:
        self._folder = Path(folder)
        self._limit = remote.block_cache_bytes or DISK_BYTES

    def _path(self, url: str, version: ObjectVersion) -> Path:
        parts = ("atompack object 1", shown_url(url), str(version.size), *version[:2])
        key = hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()
        return self._folder / f"{key}{_SUFFIX}"

    def open(self, url: str, version: ObjectVersion) -> int | None:
        """Opens a kept object; None if it is not here."""
        path = self._path(url, version)
        file = _open(path)
        if file is not None and os.fstat(file).st_size != version.size:
            os.close(file)
            return None
        if file is not None:
            with suppress(OSError):
                os.utime(path)  # used last
        return file

    def fetch(self, source: RemoteObject, url: str) -> int:
        """Opens an object, and downloads it if neither this nor another process has."""
        version = version_of(source)
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        path = self._path(url, version)
        staged = path.with_name(f".{path.name}.part")
        seen, changed = -1, time.monotonic()
        while True:
            kept = self.open(url, version)
            if kept is not None:
                return kept
            file = self._lock(staged)
            if file is not None:
                return self._finish(file, staged, path, source, url)
            progress = _allocated(staged)
            if progress != seen:
                seen, changed = progress, time.monotonic()
            elif time.monotonic() - changed > _SECONDS_WITHOUT_PROGRESS:
                staged = path.with_name(f".{path.name}.{os.getpid()}.part")  # the other one hangs
            time.sleep(_SECONDS_BETWEEN)

    def _lock(self, staged: Path) -> int | None:
        """Opens the staging file, whose lock shows that somebody is downloading."""
        file = os.open(staged, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            named = staged.stat()
            if (named.st_dev, named.st_ino) == _identity(file)[:2]:
                return file
        except (BlockingIOError, FileNotFoundError):
            pass  # another process has it, or has just renamed it
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return None

    def _finish(self, file: int, staged: Path, path: Path, source: RemoteObject, url: str) -> int:
        try:
            os.truncate(file, 0)  # a killed process may have left something
            os.truncate(file, source.size)  # seen by others that make room
            self._make_room(source.size, url, staged)
            fetch_into(file, source, url)
            # Readers open it anew: the lock belongs to this descriptor.
            made = os.open(staged, os.O_RDONLY | os.O_CLOEXEC)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)
        return made

    def _make_room(self, n_bytes: int, url: str, own: Path) -> None:
        """Removes objects that were used longest ago until there is room for another one."""
        if n_bytes > self._limit:
            text = f"block_cache_bytes: expected at least {n_bytes}, got {self._limit}"
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
    """Disk space of a file that is being written; -1 if there is none."""
    try:
        return path.stat().st_blocks
    except FileNotFoundError:
        return -1
