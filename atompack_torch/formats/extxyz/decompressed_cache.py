"""Plain copies of compressed text files, kept in the cache folder of the user."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from atompack_torch.formats.extxyz.text_files import is_compressed, plain_pieces
from atompack_torch.formats.indexes import hidden_name, kept_place
from atompack_torch.progress import Progress
from atompack_torch.publishing import published

_SILENT_BYTES = 16 << 20
_END_BYTES = 64 << 10  # of a compressed file, which hold the checksum of all that is packed


def plain_path(path: str, max_bytes: int | None = None) -> str:
    """Returns the path of a text file that is not compressed: the file itself, or its copy.

    A compressed file (gzip, bzip2, xz) is unpacked once, into the folder ``plain`` of the cache
    folder (``XDG_CACHE_HOME``, or ``~/.cache``; the temporary folder where that cannot be written
    to), which keeps the copy until its user removes it. The copy is used as long as the file has
    the same inode, size, times of modification and of change, and the same bytes at its ends.

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
    version = _version(path)
    copy = kept_place("plain", f"{hidden_name(path)}-{version}.txt")
    if copy is None:
        text = "unpacked copy: expected a cache folder that can be written to, got none"
        raise OSError(errno.EACCES, f"{text}: set XDG_CACHE_HOME to another", path)
    if not copy.is_file():
        _remove_older(copy)
        _unpack(path, copy, version, max_bytes)
    return os.fspath(copy)


def _version(path: str) -> str:
    """Returns a digest that differs between versions of a file: what is replaced has other times.

    The ends are for file systems whose times are coarse: the formats keep checksums there.
    """
    with Path(path).open("rb") as file:
        found = os.fstat(file.fileno())
        times = found.st_mtime_ns, found.st_ctime_ns
        digest = hashlib.sha256(repr((found.st_ino, found.st_size, *times)).encode())
        digest.update(file.read(_END_BYTES))
        file.seek(max(0, found.st_size - _END_BYTES))
        digest.update(file.read(_END_BYTES))
    return digest.hexdigest()[:32]


def _unpack(path: str, copy: Path, version: str, max_bytes: int | None) -> None:
    size = Path(path).stat().st_size
    label = f"unpacking {Path(path).name}"
    try:
        with published(copy) as hidden:
            with (
                hidden.open("xb") as file,
                Progress(size, "bytes", label=label, enabled=size >= _SILENT_BYTES) as bar,
            ):
                for piece, n_read in plain_pieces(path, max_bytes):
                    file.write(piece)
                    bar.update(n_read - bar.done)
            if _version(path) != version:
                raise OSError(f"{path}: the file was changed while it was unpacked")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            text = f"unpacked copy in {copy.parent} (set XDG_CACHE_HOME to use another folder)"
            raise OSError(error.errno, f"{text}: {error.strerror}", path) from None
        raise


def _remove_older(copy: Path) -> None:
    """Removes copies of former contents of the same file, and parts that were abandoned."""
    prefix = copy.name.partition("-")[0]
    day_ago = time.time() - 24 * 3600
    for other in [*copy.parent.glob(f"{prefix}-*.txt"), *copy.parent.glob(f".{prefix}-*.part")]:
        with suppress(OSError):
            if other.suffix == ".txt" or other.stat().st_mtime < day_ago:
                other.unlink()
