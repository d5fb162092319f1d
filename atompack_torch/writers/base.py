"""Context-manager base of all writers: commits on normal exit, discards on an exception."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, TypeVar

Self = TypeVar("Self", bound="WriterBase")


class WriterBase:
    """Base of writers that either complete their output or leave none."""

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


class FlushingWriter(WriterBase):
    """Base of store handles; when open for writing, the native writer holds unflushed changes."""

    _writer: Any

    def flush(self) -> None:
        """Commits pending changes."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes the files, after a flush if open for writing; further calls do nothing.

        A store that is open for reading reopens them at the next read.
        """
        if self._writer is not None:
            self.flush()
        self.discard()

    def _is_unfinished(self) -> bool:
        return getattr(self, "_writer", None) is not None
