"""Plain copies of compressed text files, kept in the cache folder of the user."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from atompack_torch.parsed.indexes import cache_folder, hidden_name
from atompack_torch.parsed.text_files import is_compressed, plain_pieces
from atompack_torch.progress import Progress

_SILENT_BYTES = 16 << 20


def plain_path(path: str) -> str:
    """Returns the path of a text file that is not compressed: the file itself, or its copy.

    A compressed file (gzip, bzip2, xz) is unpacked once, into the folder ``plain`` of the cache
    folder (``XDG_CACHE_HOME``, or ``~/.cache``), which keeps the copy until its user removes it.
    The copy is used as long as the file has the same size and time.

    Args:
        path: the file.

    Returns:
        The path of the plain text.

    Raises:
        CorruptFileError: compressed data is damaged or cut.
        UnsupportedFormatError: the content is not text.
        OSError: the file cannot be read, or there is no room for the copy.
    """
    if not is_compressed(path):
        return path
    found = Path(path).stat()
    name = f"{hidden_name(path)}-{found.st_size}-{found.st_mtime_ns}.txt"
    copy = cache_folder() / "plain" / name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        _remove_older(copy)
        _unpack(path, copy)
    return os.fspath(copy)


def _unpack(path: str, copy: Path) -> None:
    hidden = copy.with_name(f".{copy.name}.{secrets.token_hex(8)}.part")
    size = Path(path).stat().st_size
    label = f"unpacking {Path(path).name}"
    try:
        with (
            hidden.open("xb") as file,
            Progress(size, "bytes", label=label, enabled=size >= _SILENT_BYTES) as bar,
        ):
            for piece, n_read in plain_pieces(path):
                file.write(piece)
                bar.update(n_read - bar.done)
        hidden.replace(copy)
    except BaseException:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)
        raise


def _remove_older(copy: Path) -> None:
    """Removes copies of former contents of the same file, and parts that were abandoned."""
    prefix = copy.name.partition("-")[0]
    day_ago = time.time() - 24 * 3600
    for other in [*copy.parent.glob(f"{prefix}-*.txt"), *copy.parent.glob(f".{prefix}-*.part")]:
        with suppress(OSError):
            if other.suffix == ".txt" or other.stat().st_mtime < day_ago:
                other.unlink()
