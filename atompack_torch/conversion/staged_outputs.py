"""Staging of conversion targets that libraries write: complete and on disk before they appear."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atompack_torch.conversion.xarray_files import staged_target


@contextmanager
def staged_output(path: str) -> Iterator[Path]:
    """Provides a hidden path beside a target, which gets its name when the block ends.

    Args:
        path: the target, a file or folder that is replaced if it exists.

    Yields:
        The hidden path, at which the block makes a file or folder.

    Raises:
        OSError: the output cannot be written or renamed.
    """
    with staged_target(Path(path), "w") as made:
        yield made
        for file in sorted(made.rglob("*")) if made.is_dir() else [made]:
            if file.is_file():
                _sync(file)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
