"""Formats of file names and of first and last bytes."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

from atompack_torch.formats.table import FORMATS, Format
from atompack_torch.options import folded, is_hidden, is_url


def format_of_bytes(head: bytes, end: bytes = b"") -> Format | None:
    """Returns the format of a file with these first and last bytes; None if nothing matches."""
    for known in FORMATS:
        if any(head.startswith(magic, offset) for offset, magic in known.magics) and (
            known.matches is None or known.matches(head)
        ):
            return known
        if known.ends and end.endswith(known.ends):
            return known
    plain = (known for known in FORMATS if known.matches and not known.magics)
    return next((known for known in plain if known.matches and known.matches(head)), None)


def name_matches(name: str, pattern: str) -> bool:
    """True if a relative path matches a pattern of ``Format.holds``.

    ``**/`` stands for any folders, and for none. Suffixes match in letters of any
    case, hidden files do not.
    """
    last = pattern.removeprefix("**/")
    folders, _, own = name.rpartition("/")
    if is_hidden(folders) or (folders and last == pattern):
        return False
    if "*" in last:
        return not own.startswith(".") and fnmatchcase(folded(own), last)
    return own == last


def by_suffix(path: str | os.PathLike[str]) -> Format | None:
    """Returns the format that the suffix of a path stands for; None if none has it.

    ``x.extxyz.gz`` counts as ``x.extxyz``: a format that is read from pipes may be compressed.
    """
    name = os.fspath(path)
    place = Path(re.split("[?#]", name)[0] if is_url(path) else name)
    known = _of_suffix(place.suffix)
    if known is None or not known.is_compression:
        return known
    inner = _of_suffix(place.with_suffix("").suffix)
    return inner if inner is not None and inner.is_stream else known


def _of_suffix(suffix: str) -> Format | None:
    return next((known for known in FORMATS if suffix.lower() in known.suffixes), None)
