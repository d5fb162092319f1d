"""Context-manager base of all writers: commits on normal exit, discards on an exception."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any, TypeVar

Self = TypeVar("Self", bound="WriterBase")


class WriterBase:
    """A writer that either finishes its work or leaves nothing of it."""

    def close(self) -> None:
        """Finishes; does nothing the second time."""
        raise NotImplementedError

    def discard(self) -> None:
        """Gives up what was not committed yet."""
        raise NotImplementedError

    def _is_unfinished(self) -> bool:
        """Whether neither of the two was called; also asked of what could not be made."""
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
    """A handle; open for writing, its native writer holds what was not flushed yet."""

    _writer: Any

    def flush(self) -> None:
        """The commit."""
        raise NotImplementedError

    def close(self) -> None:
        """Lets go of the files: open for writing, after a flush; the second time nothing happens.

        A store that is open for reading opens them again with the next read.
        """
        if self._writer is not None:
            self.flush()
        self.discard()

    def _is_unfinished(self) -> bool:
        return getattr(self, "_writer", None) is not None
