"""The ``.atp`` files of a data set, and snapshots of their commits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from atompack_torch import formats
from atompack_torch._native import AtpSnapshot
from atompack_torch.options import absolute_path


def snapshot_of(file: str) -> AtpSnapshot:
    """Opens the last commit of a file.

    Args:
        file: path of the file.

    Returns:
        The snapshot.

    Raises:
        CorruptFileError: the header or index violates the format.
        UnsupportedFormatError: the version is not supported, or the file is of another format.
    """
    with formats.opening(file):
        return AtpSnapshot.take(file)


def files_of(path: Any) -> list[str]:
    """Lists the files of a data set as absolute paths, as workers may have another directory."""
    if isinstance(path, (str, os.PathLike)):
        whole = absolute_path(path)
        return _shards_of(Path(whole)) if Path(whole).is_dir() else [whole]
    files = [absolute_path(file) for file in path]
    if not files:
        raise ValueError("path: expected at least one file, got an empty list")
    return files


def _shards_of(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*.atp") if file.is_file()]
    if not files:
        with formats.opening(folder, "a folder of .atp files", "atp-folder"):
            raise FileNotFoundError(f"{folder}: no .atp file in this folder")
    return [str(file) for file in sorted(files, key=lambda file: file.as_posix())]
