"""Paths, URLs and buffers, as the functions for any format get them."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats import FORMATS, recognize
from atompack_torch.options import BUFFERS, MEMORY, Buffer, PathLike, is_url
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.memory import MemoryFiles

Paths = PathLike | Sequence[PathLike]
Source = Paths | Buffer | Mapping[str, Buffer]


def listed(path: Paths) -> list[str]:
    """Returns a path, or all paths of a list, as strings.

    Args:
        path: one or several.

    Returns:
        The paths, as they were given.

    Raises:
        ValueError: the list is empty.
        TypeError: one is neither a string nor a path.
    """
    if isinstance(path, (str, os.PathLike)):
        return [os.fspath(path)]
    if isinstance(path, BUFFERS):
        raise TypeError(f"path: expected a path or a list of paths, got {type(path).__name__}")
    paths = [os.fspath(one) for one in path]
    if not paths:
        raise ValueError("path: expected at least one path, got an empty list")
    for one in paths:
        if not isinstance(one, str):
            raise TypeError(f"path: expected a list of paths, got {type(one).__name__} in it")
    return paths


def located(
    source: Source,
    storage_options: Mapping[str, object] | None,
    block_cache: PathLike | None,
    block_cache_bytes: int | None,
) -> tuple[list[str], RemoteFiles]:
    """Returns the paths of a source, and the access to those that are URLs or in memory.

    Args:
        source: paths, or the bytes of a file, or of the files of a store.
        storage_options: see ``access_to``.
        block_cache: likewise.
        block_cache_bytes: likewise.

    Returns:
        The paths, names that begin with ``MEMORY`` for buffers, and the access.

    Raises:
        FileNotFoundError: there is nothing at a URL, or no store in a mapping.
        UnsupportedFormatError: the class of the format does not read bytes.
        OSError, ValueError, TypeError: as for ``listed`` and ``access_to``.
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
    return paths, access_to(paths, storage_options, block_cache, block_cache_bytes)


def _in_memory(name: str, files: MemoryFiles) -> tuple[list[str], MemoryFiles]:
    """Returns a file or folder in memory, unless its class reads files alone."""
    found = recognize(name, files)
    if found is None and name not in files.names:
        raise FileNotFoundError(errno.ENOENT, "no ATLAS store in this folder", name)
    if found is not None and not found.is_read_from_bytes:
        known = ", ".join(known.title for known in FORMATS if known.is_read_from_bytes)
        text = f"expected the bytes of {known}; got {found.title}, which is read from files"
        raise UnsupportedFormatError(f"{name}: {text}")
    return [name], files


def access_to(
    paths: Sequence[str],
    storage_options: Mapping[str, object] | None,
    block_cache: PathLike | None,
    block_cache_bytes: int | None,
) -> RemoteFiles:
    """Checks the options for URLs, and that all that they name exists.

    Args:
        paths: paths and URLs.
        storage_options: see ``RemoteFiles.checked``.
        block_cache: likewise.
        block_cache_bytes: likewise.

    Returns:
        Access to the URLs.

    Raises:
        FileNotFoundError: there is nothing at a URL.
        OSError: a store refuses or does not answer.
        ValueError: an option is unknown or out of range.
        TypeError: an option has the wrong type.
    """
    remote = RemoteFiles.checked(storage_options, block_cache, block_cache_bytes, paths)
    for url in filter(is_url, paths):
        is_known = recognize(url, remote) is not None
        if is_known or (not url.endswith("/") and remote.ends(url, 1, 0) is not None):
            continue
        text = "expected a file or a folder of a known format, found none"
        raise FileNotFoundError(errno.ENOENT, text, remote.shown(url))
    return remote
