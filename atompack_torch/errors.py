"""Exceptions of this package; the native core raises them too.

Every class takes exactly one string, so that a DataLoader worker can pass it to its parent.
System errors are ``OSError``, a molecule index out of range is ``IndexError``.
"""

import errno

APPEND_OR_REPLACE = "mode='a' appends to it, mode='w' replaces it"


def file_exists(path: object, instead: str) -> FileExistsError:
    """Builds the error for a path that already exists.

    Args:
        path: the existing path.
        instead: what the caller can do instead.

    Returns:
        The error, to be raised.
    """
    return FileExistsError(errno.EEXIST, f"exists already: {instead}", str(path))


def is_closed(path: object, handle: str = "writer") -> ValueError:
    """Builds the error for the use of a handle after ``close`` or ``discard``."""
    return ValueError(f"{path}: the {handle} is closed")


def is_read_only(path: object, handle: str) -> ValueError:
    """Builds the error for a change through a handle that was opened for reading."""
    return ValueError(f'{path}: expected a {handle} opened with mode "a" or "x", got "r"')


def counted(n: int, noun: str) -> str:
    """Formats a number of things, given the noun for one."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def molecules(n: int) -> str:
    """Formats a number of molecules."""
    return counted(n, "molecule")


def printable(text: str) -> str:
    """Escapes control characters: names in files may hold escape sequences of terminals."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class AtompackError(Exception):
    """Base of all errors about data.

    Args:
        message: names the file, and molecule, field and offset where they are known.
    """

    def __init__(self, message: str, /) -> None:
        super().__init__(printable(message))


class CorruptFileError(AtompackError, ValueError):
    """Bytes violate the file format: a checksum, a bound, a tag, a count."""


class UnsupportedFormatError(AtompackError, NotImplementedError):
    """Valid data of a version, codec, type or option that is not supported (yet)."""


class FieldError(AtompackError, ValueError):
    """A field is absent, or its type or shape differs where it must not."""


class UnknownFieldError(FieldError, KeyError):
    """A batch or molecule has no field of this name."""

    __str__ = Exception.__str__  # not KeyError's, which would quote the message


class WriterLockedError(AtompackError):
    """Another writer has the file open."""


class UnsafePickleError(AtompackError, ValueError):
    """A pickle holds more than plain data."""
