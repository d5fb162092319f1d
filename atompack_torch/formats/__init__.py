"""Registry of file formats: recognition by content, and messages about files of foreign formats.

``FORMATS`` is the only table of magic bytes, suffixes and modules of formats. Opening, inspection,
conversion, compaction and the hub look formats up here; nothing here decodes them.
"""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from atompack_torch.errors import CorruptFileError, FieldError, UnsupportedFormatError
from atompack_torch.formats.recognition import by_suffix, recognize
from atompack_torch.formats.table import COLLECTION, FORMATS, STORE_METADATA, Format
from atompack_torch.options import files_in, is_in_memory, is_url, redact_path
from atompack_torch.remote.files import RemoteFiles

__all__ = ["COLLECTION", "FORMATS", "STORE_METADATA", "Format", "by_suffix", "recognize"]


def detect(path: str | os.PathLike[str], remote: RemoteFiles | None = None) -> Format | None:
    """Returns the format of a path by its content; by its suffix where that does not tell.

    Magic bytes count more than the suffix. The suffix counts more than the beginning of a text,
    unless it stands for a format with magic bytes, which the file then lacks.
    """
    found, named = recognize(path, remote), by_suffix(path)
    if found is None or named is None:
        return found or named
    if found.is_compression:
        return named if named.is_stream else found
    return found if found.magics or found.matches is None or named.magics or named.ends else named


def foreign(
    path: str | os.PathLike[str],
    expected: str,
    names: tuple[str, ...],
    remote: RemoteFiles | None = None,
) -> str | None:
    """Returns a message about a path whose format is not in ``names``; None if it is unknown."""
    found = recognize(path, remote)
    return None if found is None or found.name in names else _mismatch(path, expected, found)


def _mismatch(path: str | os.PathLike[str], expected: str, found: Format) -> str:
    advice = []
    if found.opens:
        advice.append(f"{found.opens} opens it")
    if found.source and found.source != "atp" and not (is_url(path) or is_in_memory(path)):
        advice.append(f"`{conversion(path, found)}` converts it")
    if found.advice:
        advice.append(found.advice)
    text = f"expected {expected}, got {found.title}"
    return f"{text}: {'; '.join(advice)}" if advice else text


def unknown(
    path: str | os.PathLike[str], remote: RemoteFiles | None = None
) -> UnsupportedFormatError:
    """Builds the error for a path that has none of the formats that can be opened."""
    shown = redact_path(path)
    expected = ", ".join(known.title for known in FORMATS if known.entry)
    found = detect(path, remote)
    unread = _unread(path)
    text = f"expected {expected}; got {unread or 'none of them'}{other_files(path)}"
    if not unread and found is not None and not found.entry:  # otherwise only its suffix is known
        text = _mismatch(shown, f"one of {expected}", found)
    return UnsupportedFormatError(f"{shown}: {text}")


def other_files(path: str | os.PathLike[str]) -> str:
    """Returns the way out for a local folder of files that are not opened together; else empty."""
    if is_url(path) or is_in_memory(path) or not Path(path).is_dir():
        return ""
    folder = shlex.quote(str(path).rstrip("/"))
    return f": `atompack-torch convert {folder}/* {folder}.atp` reads files of other formats"


def files_of_folder(
    folder: str, name: str, kind: str, *suffixes: str, is_deep: bool = True
) -> list[str]:
    """Lists the data files of a folder.

    Args:
        folder: the folder.
        name: name of the format of such folders.
        kind: suffixes of the files, for messages.
        *suffixes: the suffixes, in lower case.
        is_deep: also list those in its folders.

    Returns:
        The paths, sorted; at least one.

    Raises:
        FileNotFoundError: there is none; the message says so if the folder has another format.
    """
    files = files_in(folder, *suffixes, is_deep=is_deep)
    if not files:
        title = next(known.title for known in FORMATS if known.name == name)
        with opening(folder, title, name):
            raise FileNotFoundError(f"{folder}: no {kind} file in this folder{other_files(folder)}")
    return files


def _unread(path: str | os.PathLike[str]) -> str:
    """Says why the content of a local file has no format, whatever its suffix; else empty."""
    if is_url(path) or is_in_memory(path) or not Path(path).is_file():
        return ""
    with Path(path).open("rb") as file:
        head = file.read(2)
    if head in (b"\xff\xfe", b"\xfe\xff"):
        return "text in UTF-16: save it as UTF-8"
    return "" if head else "an empty file"


def conversion(path: str | os.PathLike[str], found: Format) -> str:
    """Returns the command that converts a foreign file to ``.atp``."""
    source = Path(path)
    target = source.with_suffix(".atp")
    if target == source:
        target = source.with_name(f"{source.stem}.converted.atp")
    option = "" if detect(path) is found else f" --from {found.source}"
    return f"atompack-torch convert {shlex.quote(str(source))} {shlex.quote(str(target))}{option}"


@contextmanager
def opening(
    path: str | os.PathLike[str],
    expected: str = "an .atp file",
    *names: str,
    remote: RemoteFiles | None = None,
) -> Iterator[None]:
    """Replaces errors from opening a foreign file with one that names its format and a remedy.

    Args:
        path: the path opened in the block.
        expected: what the caller opens, with its article.
        *names: names of the formats that it opens; empty: ``"atp"``.
        remote: access to URLs, which are not looked at without it.

    Raises:
        UnsupportedFormatError: the block failed, and the path holds a different format.
        OSError: likewise, if the block raised an OSError (for instance, a folder instead of a
            file); of the same class.
    """
    is_local = not (is_url(path) or is_in_memory(path))
    if not is_local and remote is None:
        yield
        return
    try:
        yield
    except (CorruptFileError, FieldError, UnsupportedFormatError):
        message = foreign(path, expected, names or ("atp",), remote)
        if message is None:
            raise
        raise UnsupportedFormatError(f"{redact_path(path)}: {message}") from None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        message = foreign(path, expected, names or ("atp",)) if is_local else None
        if message is None:
            raise
        raise type(error)(error.errno or errno.ENOENT, message, os.fspath(path)) from None
