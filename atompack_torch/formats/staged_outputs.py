"""Staging of conversion targets that are folders: complete and on disk before they appear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atompack_torch.formats import recognize
from atompack_torch.formats.hidden_parts import published


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
    with published(place) as made:
        made.mkdir()
        yield made
