"""The ``.atp`` files of a data set, and the commit of each that is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from atompack_torch import formats
from atompack_torch._native import AtpSnapshot
from atompack_torch.options import absolute_path


def snapshot_of(file: str) -> AtpSnapshot:
    """The last commit of a file.

    Raises:
        CorruptFileError: header or index contradict the format.
        UnsupportedFormatError: a version that is not read here, or a file of another format.
    """
    with formats.opening(file):
        return AtpSnapshot.take(file)


def files_of(path: Any) -> list[str]:
    """The files of a data set, as absolute paths: a worker may have another current folder."""
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
