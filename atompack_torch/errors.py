"""The errors of this package; the native core raises them too.

Every class takes exactly one string, so that a DataLoader worker can hand it to its parent.
Errors of the system are ``OSError``, a molecule number out of range is ``IndexError``.
"""

import errno


def file_exists(path: object, instead: str) -> FileExistsError:
    """The error for a path that is taken.

    Args:
        path: what is taken.
        instead: what the caller can do.
    """
    return FileExistsError(errno.EEXIST, f"exists already: {instead}", str(path))


class AtompackError(Exception):
    """Base of all errors that are about data."""

    def __init__(self, message: str, /) -> None:
        super().__init__(message)


class CorruptFileError(AtompackError, ValueError):
    """Bytes contradict the file format: a checksum, a bound, a tag, a count."""


class UnsupportedFormatError(AtompackError, NotImplementedError):
    """Valid, but of a version, codec, type or option that is not there (yet)."""


class FieldError(AtompackError, ValueError):
    """A field is absent, or its type or shape differs where it must not."""


class UnknownFieldError(FieldError, KeyError):
    """A batch or molecule has no field of this name."""

    __str__ = Exception.__str__  # not KeyError's, which would put the text in quotes


class WriterLockedError(AtompackError):
    """Another writer has the file open."""


class UnsafePickleError(AtompackError, ValueError):
    """A pickle holds more than plain data."""
