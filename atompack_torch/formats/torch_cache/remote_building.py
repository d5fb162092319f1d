"""Building of feature caches for object stores: locally, then uploaded."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from atompack_torch.formats.torch_cache.dataset import TorchCache
from atompack_torch.remote.staging import Options, StagedFile, TemporaryFolder


def build_at_url(
    build: Callable[[Path], object], url: str, storage_options: Options, *, progress: bool
) -> TorchCache:
    """Builds a cache in the temporary folder and uploads it.

    The folder of an interrupted build has a name that depends on the URL alone, so that the next
    build for the URL finds its files.

    Args:
        build: makes the file.
        url: the URL of the object, which must not exist.
        storage_options: options of the store.
        progress: show the progress of long transfers on terminals.

    Returns:
        The cache, open, as a local file that goes with the process.
    """
    staged = StagedFile(url, "x", storage_options, instead="choose another name", progress=progress)
    try:
        folder = _folder_of(url)
        build(folder / staged.path.name)
        (folder / staged.path.name).replace(staged.path)
        folder.rmdir()
        local = TemporaryFolder()
        copy = local.path / staged.path.name
        os.link(staged.path, copy)
    except BaseException:
        staged.discard()
        raise
    staged.publish()
    cache = TorchCache(copy)
    cache._folder = local
    return cache


def _folder_of(url: str) -> Path:
    """Makes the folder for builds of a URL, which belongs to this user alone."""
    name = f"atompack-cache-{os.getuid()}-{hashlib.sha256(url.encode()).hexdigest()[:24]}"
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        raise PermissionError(f"{folder}: expected a folder of this user alone")
    return folder
