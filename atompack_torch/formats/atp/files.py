"""The ``.atp`` files of a dataset, and snapshots of their commits."""

from __future__ import annotations

import errno
import os
import re
import warnings
from pathlib import Path
from typing import Any

from atompack_torch import formats
from atompack_torch._native import AtpSnapshot
from atompack_torch.options import absolute_path, has_suffix, is_url
from atompack_torch.remote.files import MemoryFiles, RemoteFiles
from atompack_torch.remote.urls import is_root, path_of

# Folder, number of the part and number of parts.
_PART = re.compile(r"(.*)/part-(\d{5,})-of-(\d{5,})\.atp", re.DOTALL)


def snapshot_of(file: str, remote: RemoteFiles | None = None) -> AtpSnapshot:
    """Opens the last commit of a file.

    Args:
        file: path or URL of the file.
        remote: access to remote files.

    Returns:
        The snapshot.

    Raises:
        CorruptFileError: the header or index violates the format.
        UnsupportedFormatError: the version is not supported, or the file is of a different format.
    """
    access = remote or RemoteFiles()  # keeps it alive until the file is read
    with formats.opening(file, remote=remote):
        return AtpSnapshot.take(access.location(file))


def files_of(path: Any, remote: RemoteFiles | None = None) -> list[str]:
    """Lists the files of a dataset as URLs and absolute paths, for workers in other folders."""
    if isinstance(remote, MemoryFiles):
        return remote.names
    if isinstance(path, (str, os.PathLike)):
        if remote is not None and isinstance(path, str) and is_url(path):
            return _files_behind(path, remote)
        whole = absolute_path(path)
        if not Path(whole).is_dir():
            return [whole]
        return formats.files_of_folder(whole, "atp-folder", ".atp", ".atp")
    files = [file if remote is not None and is_url(file) else absolute_path(file) for file in path]
    if not files:
        raise ValueError("path: expected at least one file, got an empty list")
    return files


def warn_of_missing_parts(path: Any, files: list[str]) -> None:
    """Warns if a folder holds parts of a conversion, and others of its parts are missing.

    Args:
        path: path or paths of a dataset.
        files: the files found there.
    """
    if not isinstance(path, (str, os.PathLike)) or [os.fspath(path)] == files:
        return
    found: dict[tuple[str, str], set[str]] = {}
    for file in files:
        name = _PART.fullmatch(file)
        if name is not None:
            found.setdefault((name[1], name[3]), set()).add(name[2])
    for (folder, count), numbers in found.items():
        missing = int(count) - len(numbers)
        if missing > 0:
            warnings.warn(
                f"{folder}: {missing:,} of {int(count):,} parts are missing: the conversion has "
                "not ended",
                stacklevel=4,
            )


def _files_behind(url: str, remote: RemoteFiles) -> list[str]:
    """Takes a URL with another suffix for that of a folder, unless there is a file alone."""
    if has_suffix(path_of(url), ".atp"):
        return [url]
    try:
        return remote.files_in(url, ".atp")
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError) or error.errno == errno.EOPNOTSUPP
        if not is_missing or url.endswith("/") or is_root(url) or not remote.has_file(url):
            raise
        return [url]
