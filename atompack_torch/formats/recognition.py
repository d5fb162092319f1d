"""Recognition of formats by content and by suffix: of local files, of URLs and in memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from atompack_torch.errors import UnsupportedFormatError
from atompack_torch.formats.table import END_BYTES, FORMATS, HEAD_BYTES, Format
from atompack_torch.options import folded, is_hidden, is_url, names_below, redact_path
from atompack_torch.remote.files import MemoryFiles, RemoteFiles
from atompack_torch.remote.listing import can_list, list_names, relative_names
from atompack_torch.remote.urls import join_url


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


def recognize(path: str | os.PathLike[str], remote: RemoteFiles | None = None) -> Format | None:
    """Returns the format of a path, recognized by content; None if nothing matches.

    Only regular files and folders are opened; URLs and files in memory need ``remote``.

    Args:
        path: the path, URL or name in memory.
        remote: access to URLs and to files in memory.

    Returns:
        The format, or None.

    Raises:
        UnsupportedFormatError: a folder has files of several formats.
    """
    if remote is not None and remote.holds(path):
        name = os.fspath(path)
        if name not in remote.recognized:
            if isinstance(remote, MemoryFiles):
                remote.recognized[name] = _in_memory(remote, name)
            else:
                remote.recognized[name] = _behind(remote, name)
        known: Format | None = remote.recognized[name]
        return known
    place = Path(path)
    if place.is_dir():
        is_below = _among(lambda is_deep: names_below(place, is_deep=is_deep))
        return _of_folder(
            lambda pattern: is_below(pattern) if "*" in pattern else (place / pattern).exists(),
            place,
        )
    if not place.is_file():
        return None
    with place.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(max(0, place.stat().st_size - END_BYTES))
        end = file.read(END_BYTES)
    return format_of_bytes(head, end)


def _among(list_names: Callable[[bool], Iterable[str]]) -> Callable[[str], bool]:
    """Returns a function that is True for patterns that a file of a folder matches.

    Args:
        list_names: lists the folder, with all below it if its argument is True; called when its
            result is needed.
    """
    matching = cache(lambda is_deep: _matching(list_names(is_deep)))
    return lambda pattern: (
        pattern in matching(False) or (pattern.startswith("**/") and pattern in matching(True))
    )


def _matching(names: Iterable[str]) -> set[str]:
    """Returns the patterns of all formats that match one of these relative paths."""
    patterns, found = {pattern for known in FORMATS for pattern in known.holds}, set[str]()
    for name in names:
        found |= {pattern for pattern in patterns - found if name_matches(name, pattern)}
    return found


def _of_folder(holds: Callable[[str], bool], path: str | os.PathLike[str]) -> Format | None:
    """Returns the format of a folder.

    The first format that matches by a fixed name, such as ``meta.json``, is that of the folder.
    Of the formats that match by files of any name there may be only one.
    """
    found = (known for known in FORMATS if any(map(holds, known.holds)))
    first = next(found, None)
    if first is None or not _has_any_names(first):
        return first
    several = [first, *filter(_has_any_names, found)]
    if len(several) > 1:
        titles = " and ".join(known.title for known in several)
        text = f"{path}: expected one format, got {titles}: pass the files of one of them"
        raise UnsupportedFormatError(text)
    return first


def _has_any_names(known: Format) -> bool:
    return any("*" in pattern for pattern in known.holds)


def _in_memory(files: MemoryFiles, name: str) -> Format | None:
    ends = files.ends(name, HEAD_BYTES, END_BYTES)
    if ends is not None:
        return format_of_bytes(*ends)
    matching = _matching(file[len(name) + 1 :] for file in files.names)
    return _of_folder(matching.__contains__, name)


def _behind(remote: RemoteFiles, url: str) -> Format | None:
    refusal: PermissionError | None = None
    found = ends = None
    if not url.endswith("/"):
        try:
            ends = remote.ends(url, HEAD_BYTES, END_BYTES)
        except PermissionError as error:  # servers refuse folders so
            refusal = error
        found = None if ends is None else format_of_bytes(*ends)
        is_page = found is not None and found.name in ("html", "text")  # or describe them
        if ends is not None and not (is_page and not can_list(url)):
            return found
    folder = _of_listed(remote, url) if can_list(url) else _of_probed(remote, url)
    if folder is None and refusal is not None:
        raise refusal
    return folder or found


def _of_listed(remote: RemoteFiles, url: str) -> Format | None:
    names = list_names(remote, url)
    if not names:
        return None
    holds = _among(lambda is_deep: relative_names(remote, url) if is_deep else names)
    return _of_folder(holds, redact_path(url))


def _of_probed(remote: RemoteFiles, url: str) -> Format | None:
    """Recognizes a folder that cannot be listed, by files with fixed names."""
    for known in FORMATS:
        names = [name for name in known.holds if "*" not in name] if known.entry else []
        if any(_has_file(remote, join_url(url, name)) for name in names):
            return known
    return None


def _has_file(remote: RemoteFiles, url: str) -> bool:
    """True if there is a file, and not a page that says that there is none."""
    try:
        ends = remote.ends(url, HEAD_BYTES, 0)
    except PermissionError:
        return False
    found = None if ends is None else format_of_bytes(ends[0])
    return ends is not None and (found is None or found.name != "html")
