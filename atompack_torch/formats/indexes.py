"""Indexes of files whose molecules are parsed when they are read, and where they are kept.

An index holds the place and the number of atoms of each molecule, and a survey of all fields. It is
made in one pass over the file and kept as ``.NAME.idx`` next to it or, where that is impossible, in
the folder ``indexes`` of the cache folder of the user. It is used as long as size and time of the
file are those that it was made for.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from atompack_torch._native import ParsedIndex, file_version
from atompack_torch.errors import AtompackError
from atompack_torch.formats.user_cache import INDEXES, digest_of, kept_place
from atompack_torch.progress import Progress

# Device, inode, size, seconds and nanoseconds.
FileVersion = tuple[int, int, int, int, int]

_SILENT_BYTES = 256 << 20  # scans of smaller files take less than a second


class Scanner(Protocol):
    """Interface of the native scanners."""

    def advance(self) -> bool:
        """Scans a few megabytes; False at the end."""

    def finish(self, name: str, strict: bool) -> ParsedIndex:
        """Returns the index; raises the error that ended the scan if ``strict``."""

    @property
    def bytes_read(self) -> int:
        """Number of bytes scanned so far."""

    @property
    def file_bytes(self) -> int:
        """Total number of bytes to scan."""


def open_index(
    place: str, name: str, start: Callable[[], Scanner], *, keep: bool
) -> tuple[ParsedIndex, FileVersion]:
    """Returns the index of a file: the one that was kept, or a new one.

    Args:
        place: path of the file.
        name: name of the file for messages; its plain copy may be at another place.
        start: starts a scan.
        keep: keep a new index, and use one that was kept.

    Returns:
        The index, and the version of the file that it belongs to.

    Raises:
        CorruptFileError: the file is damaged.
        OSError: the file cannot be read.
    """
    version = file_version(place)
    for kept in _places_of(place) if keep else ():
        index = _read(kept, version)
        if index is not None:
            return index, version
    index = scan(start(), name, strict=True)
    if index.stamp != version[2:] or file_version(place) != version:
        raise OSError(f"{name}: the file was changed while it was indexed")
    for kept in _places_of(place) if keep else ():
        if _write(kept, index.encode()):
            break
    return index, version


def scan(scanner: Scanner, name: str, *, strict: bool) -> ParsedIndex:
    """Runs a scan, with a progress bar for large files.

    Args:
        scanner: the scan, from its beginning.
        name: name of the file, for messages.
        strict: raise the error of damaged files; otherwise the index ends there.

    Returns:
        The index.

    Raises:
        CorruptFileError: the file is damaged, and ``strict``.
    """
    total = scanner.file_bytes
    is_long = total >= _SILENT_BYTES
    with Progress(total, "bytes", label=f"indexing {Path(name).name}", enabled=is_long) as bar:
        while scanner.advance():
            bar.update(scanner.bytes_read - bar.done)
        bar.update(scanner.bytes_read - bar.done)
    return scanner.finish(name, strict)


def _places_of(place: str) -> Iterator[Path]:
    path = Path(place)
    yield path.with_name(f".{path.name}.idx")
    kept = kept_place(INDEXES, f"{digest_of(os.fsencode(path.resolve()))}.idx")
    if kept is not None:
        yield kept


def _read(kept: Path, version: FileVersion) -> ParsedIndex | None:
    """Reads the index of this version of a file; None if missing, or it is damaged.

    The folder may come from strangers: pipes, devices and links are not opened, and no more is
    read than an index of such a file can have.
    """
    n_bytes = version[2]
    try:
        if not stat.S_ISREG(kept.lstat().st_mode):
            return None
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(kept, flags), "rb") as file:  # noqa: PTH123  # by its descriptor
            found = os.fstat(file.fileno())
            is_sound = stat.S_ISREG(found.st_mode) and found.st_size <= 65536 + 16 * n_bytes
            head = file.read(ParsedIndex.head_bytes) if is_sound else b""
            if not ParsedIndex.is_of(head, version[2:]):
                return None
            rest = file.read(found.st_size - len(head))
        return ParsedIndex.decode(head + rest, os.fspath(kept))
    except (OSError, AtompackError):
        return None


def _write(kept: Path, content: bytes) -> bool:
    """Writes an index whole or not at all; False if it cannot be written.

    It is not synced, as thousands of files may be indexed in turn: its checksum would show what a
    loss of power did to it.
    """
    hidden = kept.with_name(f"{kept.name}.{secrets.token_hex(8)}.part")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        hidden.write_bytes(content)
        hidden.replace(kept)
    except OSError:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)
        return False
    return True
