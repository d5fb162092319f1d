"""Context-manager base of all writers: commits on normal exit, discards on an exception."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from atompack_torch.errors import WriterLockedError, is_closed
from atompack_torch.options import redact_path
from atompack_torch.remote.staging import StagedFile, StagedFolder

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
            lost = "what was not committed is lost; use it in a `with` block"
            warnings.warn(f"unclosed {self!r}: {lost}", ResourceWarning, source=self, stacklevel=2)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(WriterLockedError):  # in a fork, which has nothing to discard
                self.discard()


class StagedWriter(WriterBase):
    """Base of writers of one file or folder, which for a URL is built locally and then uploaded."""

    _native: Any
    _staged: StagedFile | StagedFolder | None = None
    _shown: Path | str

    def _opened(self) -> Any:
        """Returns the native writer; ValueError if it is closed."""
        if not self._native.is_open:
            raise is_closed(self._shown)
        return self._native

    @property
    def path(self) -> Path | str:
        """Absolute path of the output, or its unchanged URL."""
        return self._shown

    def close(self) -> None:
        """Completes the output, and uploads that of a URL; further calls do nothing.

        Raises:
            FileExistsError: another process created the output in the meantime.
            OSError: writing or uploading failed. ``ESTALE``: the object that was appended to was
                replaced in the meantime. After a failed upload the call can be repeated.
        """
        if self._native.is_open:
            self._native.close()
        if self._staged is not None:
            self._staged.publish()
            self._staged = None

    def discard(self) -> None:
        """Discards what was not committed; of a URL nothing is uploaded.

        An output that this writer created and never committed to is removed. Further calls do
        nothing.
        """
        if self._native.is_open:
            self._native.discard()
        if self._staged is not None:
            self._staged.discard()
            self._staged = None

    def _is_unfinished(self) -> bool:
        native = getattr(self, "_native", None)
        return native is not None and native.is_open

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled: open a writer in the process that writes")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({redact_path(self._shown)!r})"
