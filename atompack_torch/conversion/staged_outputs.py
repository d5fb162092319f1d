"""Staging of conversion targets that libraries write: complete and on disk before they appear."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atompack_torch.conversion.xarray_files import staged_target
from atompack_torch.formats import recognize


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


@contextmanager
def staged_folder(path: str, source: str) -> Iterator[Path]:
    """Provides a hidden folder beside a target, which gets its name when the block ends.

    Args:
        path: the target, which is replaced if it is a folder of the same format.
        source: name of the format.

    Yields:
        The folder.

    Raises:
        ValueError: the target exists and is something else.
        OSError: the output cannot be written or renamed.
    """
    place = Path(path)
    if place.exists():
        found = recognize(place) if place.is_dir() else None
        is_same = found is not None and found.source == source
        if not is_same and (place.is_file() or any(place.iterdir())):
            raise ValueError(
                f"mode: expected a folder of format {source} to replace, got another: take {path} "
                "away first"
            )
    with staged_output(path) as made:
        made.mkdir()
        yield made


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
