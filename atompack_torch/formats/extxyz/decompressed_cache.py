"""Plain copies of compressed text files, kept in the cache folder of the user."""

from __future__ import annotations

import os
from pathlib import Path

from atompack_torch.formats.extxyz.text_files import is_compressed, plain_pieces
from atompack_torch.formats.user_cache import PLAIN, kept_copy
from atompack_torch.progress import Progress

_SILENT_BYTES = 16 << 20


def plain_path(path: str, max_bytes: int | None = None) -> str:
    """Returns the path of a text file that is not compressed: the file itself, or its copy.

    A compressed file (gzip, bzip2, xz) is unpacked once, into the folder ``plain`` of the cache
    folder of the user; see ``kept_copy``.

    Args:
        path: the file.
        max_bytes: limit on the plain text, see ``plain_pieces``.

    Returns:
        The path of the plain text.

    Raises:
        CorruptFileError: compressed data is damaged or cut, or has more text; no copy is kept.
        UnsupportedFormatError: the content is not text.
        OSError: the file cannot be read or is changed in the meantime, or there is no room for the
            copy.
    """
    if not is_compressed(path):
        return path

    def unpack(hidden: Path) -> None:
        size = Path(path).stat().st_size
        label = f"unpacking {Path(path).name}"
        with (
            hidden.open("xb") as file,
            Progress(size, "bytes", label=label, enabled=size >= _SILENT_BYTES) as bar,
        ):
            for piece, n_read in plain_pieces(path, max_bytes):
                file.write(piece)
                bar.update(n_read - bar.done)

    return os.fspath(kept_copy([path], PLAIN, ".txt", unpack))
