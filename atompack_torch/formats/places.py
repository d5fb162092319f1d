"""Paths and URLs of inspected data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.formats import recognize
from atompack_torch.options import bytes_at
from atompack_torch.remote.files import RemoteFiles

if TYPE_CHECKING:
    from atompack_torch._native import FileStore


class Place:
    """A path or URL, as the functions of an ``Entry`` get it.

    Args:
        path: the path or URL.
        remote: access to URLs.
    """

    def __init__(self, path: str, remote: RemoteFiles | None) -> None:
        self.path = path
        self.remote = remote or RemoteFiles()

    @property
    def shown(self) -> str:
        """The path, or the URL without secrets."""
        return self.remote.shown(self.path)

    @property
    def options(self) -> dict[str, Any]:
        """Options for the class that opens it."""
        return {"storage_options": self.remote} if self.remote.holds(self.path) else {}

    @property
    def location(self) -> tuple[str, FileStore | None]:
        """Absolute path or URL, and store, for native readers."""
        return self.remote.location(self.remote.absolute(self.path))

    @property
    def is_folder(self) -> bool:
        """True for folders of known formats."""
        if not self.remote.holds(self.path):
            return Path(self.path).is_dir()
        found = recognize(self.path, self.remote)
        return found is not None and bool(found.holds)

    def bytes(self) -> int | None:
        """Returns the size of a file, or of all files in a folder; None if it cannot be listed."""
        if not self.remote.holds(self.path):
            return bytes_at(Path(self.path))
        return self.remote.bytes_in(self.path)


def bytes_text(n_bytes: int | None) -> str:
    """Formats a size; None: it is not known."""
    return "size not known" if n_bytes is None else f"{n_bytes:,} bytes"
