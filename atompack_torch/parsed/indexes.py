"""Indexes of files whose molecules are parsed when they are read, and where they are kept.

An index holds the place and the number of atoms of each molecule, and a survey of all fields. It is
made in one pass over the file and kept as ``.NAME.idx`` beside it or, where that is impossible, in
the folder ``indexes`` of the cache folder of the user. It is used as long as size and time of the
file are those that it was made for.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from atompack_torch._native import ParsedIndex, file_version
from atompack_torch.errors import AtompackError
from atompack_torch.progress import Progress

# Device, inode, size, seconds and nanoseconds.
FileVersion = tuple[int, int, int, int, int]

_SILENT_BYTES = 256 << 20  # scans of smaller files take less than a second


class Scanner(Protocol):
    """Interface of the native scanners."""

    def advance(self) -> bool:
        """Scans some megabytes; False at the end."""

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
    places = _places_of(place) if keep else []
    for kept in places:
        index = _read(kept)
        if index is not None and index.stamp == version[2:]:
            return index, version
    index = scan(start(), name, strict=True)
    if index.stamp != version[2:] or file_version(place) != version:
        raise OSError(f"{name}: the file was changed while it was indexed")
    for kept in places:
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


def cache_folder() -> Path:
    """Returns the folder for what is kept of files in folders that cannot be written to."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "atompack_torch"


def hidden_name(place: str) -> str:
    """Returns a name that differs for each path."""
    return hashlib.sha256(os.fsencode(Path(place).resolve())).hexdigest()[:32]


def _places_of(place: str) -> list[Path]:
    path = Path(place)
    return [
        path.with_name(f".{path.name}.idx"),
        cache_folder() / "indexes" / f"{hidden_name(place)}.idx",
    ]


def _read(kept: Path) -> ParsedIndex | None:
    """Reads an index; None if there is none, or it is damaged or of another version."""
    try:
        return ParsedIndex.decode(kept.read_bytes(), os.fspath(kept))
    except (OSError, AtompackError):
        return None


def _write(kept: Path, content: bytes) -> bool:
    """Writes an index whole or not at all; False if it cannot be written."""
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
