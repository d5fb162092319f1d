"""Paths, URLs and buffers, as the functions for any format get them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats import FORMATS, recognize
from atompack_torch.options import (
    BUFFERS,
    MEMORY,
    Buffer,
    PathLike,
    bytes_at,
    is_listing,
    is_url,
    redact_path,
)
from atompack_torch.remote.files import MemoryFiles, RemoteFiles
from atompack_torch.remote.objects import RemoteObjects

if TYPE_CHECKING:
    from atompack_torch._native import FileStore

STDIN = "-"  # the path of standard input and output


class Place:
    """A path or URL, as the functions of an ``Entry`` get it.

    Args:
        path: the path or URL.
        remote: access to URLs.
    """

    def __init__(self, path: str, remote: RemoteFiles) -> None:
        self.path = path
        self.remote = remote

    @property
    def shown(self) -> str:
        """The path, or the URL without secrets."""
        return redact_path(self.path)

    @property
    def options(self) -> dict[str, Any]:
        """Options for the class that opens it."""
        return {"storage_options": self.remote} if self.remote.holds(self.path) else {}

    @property
    def location(self) -> tuple[str, FileStore | None]:
        """Absolute path or URL, and store, for native readers."""
        return self.remote.location(self.remote.absolute(self.path))

    def bytes(self) -> int | None:
        """Returns the size of a file, or of all files in a folder; None if it cannot be listed."""
        if not self.remote.holds(self.path):
            return bytes_at(Path(self.path))
        return self.remote.bytes_in(self.path)

    def stored_bytes(self) -> int:
        """Returns the size of a file, of an array file with its layers, or of a folder."""
        has_layers = self.path.endswith(".af")
        if not is_url(self.path):
            path = Path(self.path)
            layers = path.parent.glob(f"{path.stem}.*.af") if has_layers else ()
            return sum(map(bytes_at, [path, *layers]))
        objects = RemoteObjects(self.path, self.remote)
        folder, _, name = self.path.rpartition("/")
        found = (
            objects.list(folder, name.removesuffix("af")) if has_layers else objects.find(self.path)
        )
        return sum(state.size for state in found.values())


def bytes_text(n_bytes: int | None) -> str:
    """Formats a size; None: it is not known."""
    return "size not known" if n_bytes is None else f"{n_bytes:,} bytes"


Paths = PathLike | Sequence[PathLike]
Openable = Paths | Buffer | Mapping[str, Buffer]


def listed(path: Paths) -> list[str]:
    """Returns a path, or all paths of a list, as strings.

    Args:
        path: one or several.

    Returns:
        The paths, as they were given.

    Raises:
        ValueError: the list or the path is empty.
        TypeError: one is neither a string nor a path.
    """
    if isinstance(path, (str, os.PathLike)):
        if path == "":  # which would be the current folder
            raise ValueError("path: expected a path, got an empty string")
        return [os.fspath(path)]
    if isinstance(path, BUFFERS) or not is_listing(path):
        raise TypeError(f"path: expected a path or a list of paths, got {type(path).__name__}")
    paths = [*path]
    if not paths:
        raise ValueError("path: expected at least one path, got an empty list")
    for one in paths:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"path: expected a list of paths, got {type(one).__name__} in it")
    return [os.fspath(one) for one in paths]


def is_pipe(path: str | os.PathLike[str]) -> bool:
    """True if a path is standard input or a FIFO; does not open it.

    Args:
        path: the path.

    Returns:
        True for standard input and FIFOs.

    Raises:
        FileNotFoundError: there is no such file.
        UnsupportedFormatError: a socket or a device.
    """
    if os.fspath(path) == STDIN:
        return True
    found = Path(path).stat()
    mode = found.st_mode
    if stat.S_ISFIFO(mode):
        return True
    if found.st_size == 0 and found.st_dev == Path("/proc").stat().st_dev:
        # stat reports a regular file, but reading /proc/kmsg blocks forever.
        raise UnsupportedFormatError(f"{os.fspath(path)}: expected a file, got one of /proc")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        kind = "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise UnsupportedFormatError(f"{os.fspath(path)}: expected a file, got {kind}")
    return False


def located(
    source: Openable,
    storage_options: Mapping[str, object] | None = None,
) -> list[Place]:
    """Checks that all URLs of a source exist, and the options for them.

    Args:
        source: paths, or the bytes of a file, or of the files of a store.
        storage_options: see ``RemoteFiles.checked``.

    Returns:
        The paths, all with the same access; names that begin with ``MEMORY`` for buffers.

    Raises:
        FileNotFoundError: there is nothing at a URL, or no store in a mapping.
        UnsupportedFormatError: the class of the format does not read bytes.
        OSError: a store refuses or does not respond.
        ValueError: an option is unknown or out of range, or the list is empty.
        TypeError: an option or a path has the wrong type.
    """
    if isinstance(source, Mapping):
        return _in_memory(MEMORY, MemoryFiles.in_folder(source))
    if isinstance(source, BUFFERS):
        memory = MemoryFiles({MEMORY: source})
        found = recognize(MEMORY, memory)
        if found is not None and found.name == "array-file":
            return _in_memory(f"{MEMORY}.af", MemoryFiles({f"{MEMORY}.af": source}))
        return _in_memory(MEMORY, memory)
    paths = listed(source)
    remote = RemoteFiles.checked(storage_options, paths)
    for url in filter(is_url, paths):
        is_known = recognize(url, remote) is not None
        if is_known or (not url.endswith("/") and remote.ends(url, 1, 0) is not None):
            continue
        text = "expected a file or a folder of a known format, found none"
        raise FileNotFoundError(errno.ENOENT, text, redact_path(url))
    return [Place(path, remote) for path in paths]


def _in_memory(name: str, files: MemoryFiles) -> list[Place]:
    """Returns a file or folder in memory, unless its class reads files alone."""
    found = recognize(name, files)
    if found is None and name not in files.names:
        raise FileNotFoundError(errno.ENOENT, "no ATLAS store in this folder", name)
    if found is not None and not found.is_read_from_bytes:
        known = ", ".join(known.title for known in FORMATS if known.is_read_from_bytes)
        text = f"expected the bytes of {known}; got {found.title}, which is read from files"
        raise UnsupportedFormatError(f"{name}: {text}")
    return [Place(name, files)]
