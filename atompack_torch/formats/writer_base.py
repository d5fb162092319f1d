"""Context-manager base of all writers: commits on normal exit, discards on an exception."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from atompack_torch.options import shown_path

Self = TypeVar("Self", bound="WriterBase")


class WriterBase:
    """Base of writers that either complete their output or leave none."""

    @property
    def path(self) -> Path | str:
        """Absolute path of the output, or its unchanged URL."""
        raise NotImplementedError

    def close(self) -> None:
        """Completes the output; further calls do nothing."""
        raise NotImplementedError

    def discard(self) -> None:
        """Discards everything that was not committed."""
        raise NotImplementedError

    def _is_unfinished(self) -> bool:
        """True until ``close`` or ``discard`` is called; also works if ``__init__`` failed."""
        raise NotImplementedError

    def __del__(self) -> None:
        if self._is_unfinished():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class PendingChanges(Protocol):
    """Native writer with pending changes."""

    def flush(self) -> None:
        """Makes all changes visible."""

    def compact(self) -> None:
        """Flushes, and rewrites files without replaced or deleted data."""

    def rewrite_redefined(self) -> bool:
        """Rewrites flushed files that the original library could not read; True if there are any.

        They hold data of a deleted array whose name an array of another number of axes has now.
        """


class StorageHandle(Protocol):
    """Native reader or writer of a store or an array file."""

    @property
    def given(self) -> str:
        """Absolute path, or the URL as it was given."""

    @property
    def is_writing(self) -> bool:
        """True while it is open for writing."""

    def changing(self) -> PendingChanges:
        """Returns the native writer; ValueError if it is open for reading, or closed."""

    def forget_flush(self) -> None:
        """Forgets what was read from an older flush."""

    def refresh(self) -> bool:
        """Moves the native reader to the latest flush; True if there was a newer one."""

    def publish(self, *, only_rest: bool = False) -> None:
        """Uploads what was flushed, or what an earlier call could not, if the path is a URL."""

    def close(self) -> None:
        """Closes the files and drops unflushed changes."""


class FlushingWriter(WriterBase):
    """Base of stores and array files, whose changes are pending until a flush."""

    _handle: StorageHandle

    @property
    def path(self) -> Path | str:
        """Absolute path, or the URL as it was given."""
        path = shown_path(self._handle.given)
        assert not isinstance(path, tuple)
        return path

    def refresh(self) -> bool:
        """Moves to the latest flush.

        Returns:
            True if there was a newer one.

        Raises:
            CorruptFileError: metadata or footers contradict the format.
            OSError: the files cannot be opened.
        """
        return self._handle.refresh()

    def flush(self) -> None:
        """Makes all changes visible atomically and durably.

        Raises:
            OSError: a system call failed; the files are unchanged since the last flush, and the
                call can be repeated. ``ESTALE``: a program that takes no lock, such as the
                original library, has written to the store since it was opened, or any other writer
                to the store of a URL; the changes pending here cannot be added.
            FileExistsError: another writer has created the store of a URL meanwhile.
        """
        self._handle.publish(only_rest=True)
        self._handle.changing().flush()
        self._handle.forget_flush()
        self._handle.publish()
        if self._handle.changing().rewrite_redefined():
            self._handle.forget_flush()
            self._handle.publish()

    def compact(self) -> None:
        """Flushes, and rewrites each array file without replaced or deleted data."""
        self.flush()
        self._handle.changing().compact()
        self._handle.forget_flush()
        self._handle.publish()

    def close(self) -> None:
        """Closes the files, after a flush if open for writing; further calls do nothing.

        A store that is open for reading reopens them at the next read.
        """
        if self._is_unfinished():
            self.flush()
        self.discard()

    def discard(self) -> None:
        """Closes the files and drops unflushed changes.

        What this handle created and never flushed is removed.
        """
        self._handle.close()

    def _is_unfinished(self) -> bool:
        handle: StorageHandle | None = getattr(self, "_handle", None)
        return handle is not None and handle.is_writing
