"""Outputs that appear whole or not at all: written under a hidden name, synced, then renamed.

Files that libraries write cannot hold a lock, so hidden names contain the process that writes them,
and the next process removes those that killed processes left.
"""

from __future__ import annotations

import errno
import functools
import glob
import hashlib
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

_REMOVALS = 20  # as threads of a library that has failed may still write


@contextmanager
def published(target: Path, mode: Literal["w", "x"] = "w") -> Iterator[Path]:
    """Provides a hidden path, whose file or folder is renamed to the target when the block ends.

    It is on disk by then. After an error nothing is left of it.

    Args:
        target: the path that the output gets.
        mode: ``"w"``: a file or folder at the target is replaced; ``"x"``: it is an error.

    Yields:
        The hidden path, at which the block makes a file or folder.

    Raises:
        FileExistsError: mode ``"x"``, and the target exists.
        OSError: the output cannot be written or renamed, or would replace a pipe or a device; names
            the target.
    """
    if mode == "w" and target.exists() and not (target.is_file() or target.is_dir()):
        what = "expected a regular file, got a pipe, a socket or a device"
        raise OSError(errno.EINVAL, what, os.fspath(target))
    hidden = hidden_part(target)
    try:
        with naming_errors(target, hidden):
            yield hidden
            publish(hidden, target, mode)
    finally:
        for path in target.parent.glob(f"{glob.escape(hidden.name)}*"):
            _remove(path)


def publish(hidden: Path, target: Path, mode: Literal["w", "x"] = "w") -> None:
    """Writes a complete file or folder through to the disk, then gives it its name.

    Args:
        hidden: its hidden path, in the same folder as the target.
        target: its name.
        mode: ``"w"``: a file or folder at the target is replaced; ``"x"``: it is an error, unless
            both are folders and the one at the target is empty.

    Raises:
        FileExistsError: mode ``"x"``, and the target exists.
        OSError: it cannot be written or renamed.
    """
    for path in [*hidden.rglob("*"), hidden]:
        _sync(path)
    if mode == "x":
        _rename_exclusively(hidden, target)
    elif target.is_dir() and hidden.is_dir():
        _exchange(target, hidden)
    else:
        hidden.replace(target)
    _sync(target.parent)


def _rename_exclusively(hidden: Path, target: Path) -> None:
    is_taken = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
    if hidden.is_dir():
        try:
            hidden.rename(target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise is_taken from None
            raise
        return
    try:
        os.link(hidden, target)
    except PermissionError:  # a file system without links
        if target.exists():
            raise is_taken from None
        hidden.rename(target)
    else:
        hidden.unlink()


@contextmanager
def naming_errors(path: str | os.PathLike[str], hidden: Path | None = None) -> Iterator[None]:
    """Names a path in system errors that name no file, or one at a hidden path.

    Args:
        path: the path that the user knows.
        hidden: the hidden path, if any.

    Yields:
        Nothing.

    Raises:
        OSError: the error, with its number.
    """
    try:
        yield
    except OSError as error:
        name = error.filename
        is_named = isinstance(name, (str, bytes, os.PathLike)) and not (
            hidden is not None and os.fsdecode(name).startswith(os.fspath(hidden))
        )
        if error.errno is None or is_named:
            raise
        reason = error.strerror or os.strerror(error.errno)
        raise OSError(error.errno, reason, os.fspath(path)) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:  # some file systems do not support it for folders
        if not path.is_dir() or error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _exchange(folder: Path, made: Path) -> None:
    """Gives a folder's name to what was made; the folder ends up with the other name, or none."""
    from atompack_torch._native import exchange_names

    try:
        exchange_names(os.fspath(made), os.fspath(folder))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS):
            raise
        old = made.with_suffix(".old")  # these file systems cannot do it in one step
        folder.rename(old)
        try:
            made.rename(folder)
        except OSError:
            old.rename(folder)
            raise
        shutil.rmtree(old)


def hidden_part(target: Path) -> Path:
    """Returns a new hidden path next to a target, after removing those of dead processes.

    Parts of other machines and containers are left alone, since nothing shows whether their
    processes run.

    Args:
        target: the path that the output gets when it is complete.

    Returns:
        The hidden path, at which nothing exists.
    """
    begin = f".{target.name}.{_system()}-"
    for path in target.parent.glob(f"{glob.escape(begin)}*"):
        pid, _, _ = path.name.removeprefix(begin).partition("-")
        if pid.isdecimal() and not _is_running(int(pid)):
            _remove(path)
    return target.with_name(f"{begin}{os.getpid()}-{secrets.token_hex(4)}.part")


@functools.cache
def _system() -> str:
    """Identifies the space of process ids: machine, boot, container."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        place = Path(path)
        if place.is_symlink():
            parts.append(str(place.readlink()))
        elif place.exists():
            parts.append(place.read_text())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _remove(path: Path) -> None:
    for _ in range(_REMOVALS):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        if not path.exists():
            return
        time.sleep(0.01)
