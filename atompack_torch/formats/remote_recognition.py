"""Recognition of files and folders behind URLs, and in memory, by their content."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from atompack_torch.formats.matching import format_of_bytes, name_matches
from atompack_torch.formats.table import END_BYTES, FORMATS, HEAD_BYTES, Format
from atompack_torch.remote.listing import can_list, list_names, relative_names
from atompack_torch.remote.memory import MemoryFiles
from atompack_torch.remote.urls import join_url

if TYPE_CHECKING:
    from atompack_torch.remote.files import RemoteFiles


def recognize(remote: RemoteFiles, name: str) -> Format | None:
    """Finds out the format of a file by its first and last bytes, of a folder by its names.

    Args:
        remote: access to the store, which keeps the answers.
        name: the URL, or the name in memory.

    Returns:
        The format; None if there is nothing, or nothing matches.

    Raises:
        OSError: the store refuses or does not answer.
    """
    if name not in remote.recognized:
        if isinstance(remote, MemoryFiles):
            remote.recognized[name] = _in_memory(remote, name)
        else:
            remote.recognized[name] = _behind(remote, name)
    known: Format | None = remote.recognized[name]
    return known


def _in_memory(files: MemoryFiles, name: str) -> Format | None:
    ends = files.ends(name, HEAD_BYTES, END_BYTES)
    if ends is not None:
        return format_of_bytes(*ends)
    paths = [file[len(name) + 1 :] for file in files.names]
    for known in FORMATS:
        if any(name_matches(path, pattern) for pattern in known.holds for path in paths):
            return known
    return None


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
    for known in FORMATS if names else ():
        for pattern in known.holds:
            files = relative_names(remote, url) if pattern.startswith("**/") else ()
            if any(name_matches(name, pattern) for name in chain(names, files)):
                return known
    return None


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
