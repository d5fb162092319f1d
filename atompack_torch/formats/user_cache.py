"""Cache folder of the user: indexes, plain copies of compressed files, converted copies of others.

A copy is keyed by the path and the version of what it was made of. It appears whole or not at all,
and one process makes it while the others that want it wait.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from atompack_torch.options import names_below
from atompack_torch.publishing import published

INDEXES, PLAIN, CONVERTED = KINDS = ("indexes", "plain", "converted")
_END_BYTES = 64 << 10  # of a file, where formats keep checksums and indexes
_DAY = 24 * 3600


class Usage(NamedTuple):
    """Use of one folder of the cache.

    Attributes:
        files: number of files.
        bytes: their size.
    """

    files: int
    bytes: int


def kept_place(folder: str, name: str) -> Path | None:
    """Returns where a file is kept for the user, or can be made.

    Args:
        folder: folder in the cache folder of the user or, where that cannot be written to, in one
            of the temporary folder.
        name: name of the file.

    Returns:
        Its path; None if neither folder can be written to.
    """
    for base in (_cache_folder, _temporary_folder):
        with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
            place = base() / folder / name
            if place.is_file():
                return place
            place.parent.mkdir(0o700, parents=True, exist_ok=True)
            if os.access(place.parent, os.W_OK | os.X_OK):
                return place
    return None


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "atompack_torch"


def _temporary_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"atompack_torch-{os.getuid()}"
    folder.mkdir(0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OSError(errno.EPERM, "expected a folder of this user alone", folder)
    return folder


def digest_of(content: bytes) -> str:
    """Returns a name that differs for each content."""
    return hashlib.sha256(content).hexdigest()[:32]


def kept_copy(
    paths: Sequence[str], kind: str, suffix: str, make: Callable[[Path], None], settings: str = ""
) -> Path:
    """Returns the copy of files in another form, which is made if it is not there.

    It is used as long as the files have the same inodes, sizes, times of modification and of
    change, and the same bytes at their ends; of folders all files count, without their ends. Copies
    of former versions are removed.

    Args:
        paths: local files and folders.
        kind: folder of the cache.
        suffix: of the name of the copy.
        make: makes the copy at a path.
        settings: what else the copy depends on.

    Returns:
        The copy.

    Raises:
        OSError: a file cannot be read or is changed in the meantime, or there is no room for the
            copy.
    """
    version = _version(paths)
    begin = digest_of(b"\0".join(os.fsencode(Path(path).resolve()) for path in paths))
    own = f"-{digest_of(settings.encode())}" if settings else ""
    copy = kept_place(kind, f"{begin}-{version}{own}{suffix}")
    if copy is None:
        text = f"{kind} copy: expected a cache folder that can be written to, got none"
        raise OSError(errno.EACCES, f"{text}: XDG_CACHE_HOME names another", paths[0])
    if not copy.is_file():
        with _locked(copy):
            if not copy.is_file():
                _remove_older(copy, begin, version)
                _make(copy, paths, version, make)
    return copy


def _make(copy: Path, paths: Sequence[str], version: str, make: Callable[[Path], None]) -> None:
    try:
        with published(copy) as hidden:
            make(hidden)
            if _version(paths) != version:
                raise OSError(f"{paths[0]}: the file was changed while it was copied")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            text = f"{copy.parent.name} copy in {copy.parent} (XDG_CACHE_HOME names another)"
            raise OSError(error.errno, f"{text}: {error.strerror}", paths[0]) from None
        raise


def _version(paths: Sequence[str]) -> str:
    """Returns a digest that differs between versions of files: what is replaced has other times.

    The ends are for file systems whose times are coarse.
    """
    digest = hashlib.sha256()
    for path in paths:
        names = sorted(names_below(path)) if Path(path).is_dir() else []
        for name in names:
            digest.update(repr((name, *_identity((Path(path) / name).stat()))).encode())
        if names:
            continue
        with Path(path).open("rb") as file:
            found = os.fstat(file.fileno())
            digest.update(repr(_identity(found)).encode())
            digest.update(file.read(_END_BYTES))
            file.seek(max(0, found.st_size - _END_BYTES))
            digest.update(file.read(_END_BYTES))
    return digest.hexdigest()[:32]


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def _locked(copy: Path) -> Iterator[None]:
    """Waits until no other process makes a copy; the lock of a killed one is released."""
    lock = copy.with_name(f".{copy.name}.lock")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(lock, flags, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(file)


def _remove_older(copy: Path, begin: str, version: str) -> None:
    """Removes copies of former versions of the same files, and what killed processes left."""
    for other in copy.parent.glob(f"{begin}-*"):
        if not other.name.startswith(f"{begin}-{version}"):
            other.unlink(missing_ok=True)
    _remove_abandoned(copy.parent, f".{begin}-*")


def _remove_abandoned(folder: Path, pattern: str) -> None:
    for other in folder.glob(pattern):
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - _DAY:
                other.unlink()


def usage() -> dict[str, Usage]:
    """Counts what is in the cache, by the names of its folders."""
    sizes = {kind: [found.st_size for _, found in _files(kind)] for kind in KINDS}
    return {kind: Usage(len(own), sum(own)) for kind, own in sizes.items()}


def prune(max_bytes: int) -> Usage:
    """Removes the files of the cache that were used longest ago.

    Use is what the file system notes as such: reading, about once a day on most, or not at all.

    Datasets that are open in running processes may lose their files.

    Args:
        max_bytes: keep this many bytes at most.

    Returns:
        What was removed.
    """
    files = [each for kind in KINDS for each in _files(kind)]
    files.sort(key=lambda each: max(each[1].st_atime_ns, each[1].st_mtime_ns))
    total, removed = sum(found.st_size for _, found in files), []
    for path, found in files:
        if total <= max_bytes:
            break
        path.unlink(missing_ok=True)
        total -= found.st_size
        removed.append(found.st_size)
    for folder in cache_folders():
        for kind in KINDS:
            _remove_abandoned(folder / kind, ".*")
    return Usage(len(removed), sum(removed))


def _files(kind: str) -> list[tuple[Path, os.stat_result]]:
    """Lists the complete files of a folder of the cache."""
    found = []
    for folder in cache_folders():
        for path in (folder / kind).glob("[!.]*"):
            with suppress(FileNotFoundError):  # another process has removed it
                found.append((path, path.lstat()))
    return [(path, own) for path, own in found if stat.S_ISREG(own.st_mode)]


def cache_folders() -> list[Path]:
    """Returns the cache folder of the user, and the one for where that cannot be written to."""
    found = []
    for base in (_cache_folder, _temporary_folder):
        with suppress(OSError, RuntimeError):
            found.append(base())
    return found
