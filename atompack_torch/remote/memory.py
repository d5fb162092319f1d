"""Files in memory of the process, which native readers find like remote ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atompack_torch.options import BUFFERS, MEMORY, Buffer, check_choice, is_in_memory
from atompack_torch.remote.files import RemoteFiles

if TYPE_CHECKING:
    from atompack_torch._native import FileStore


class MemoryFiles(RemoteFiles):
    """Access to files in memory; nothing is copied. A pickle carries their bytes.

    Args:
        files: names of files → their bytes, which must not be changed from now on.
        mode: mode in which they are opened, for the check.

    Raises:
        ValueError: the mode is not ``"r"``.
        BufferError: the bytes of a buffer are not contiguous.
    """

    _files: dict[str, Buffer]

    def __init__(self, files: Mapping[str, Buffer], mode: str = "r") -> None:
        super().__init__()
        check_choice("mode", mode, ["r"])
        self.__setstate__({"_files": dict(files)})

    @classmethod
    def in_folder(cls, files: Mapping[str, Buffer], mode: str = "r") -> MemoryFiles:
        """Returns access to the files of a folder that is named ``MEMORY``.

        Args:
            files: paths relative to the folder, with slashes → bytes.
            mode: mode in which they are opened.

        Returns:
            The access.

        Raises:
            TypeError: a path is not a string, or a file is not a buffer.
            ValueError: a path is not relative and normal, or the mode is not ``"r"``.
            BufferError: the bytes of a buffer are not contiguous.
        """
        for name, data in files.items():
            if not isinstance(name, str):
                raise TypeError(f"path: expected relative paths as str, got {name!r}")
            if not {"", ".", ".."}.isdisjoint(name.split("/")) or "\0" in name:
                raise ValueError(f"path: expected relative paths such as 'a/data.af', got {name!r}")
            if not isinstance(data, BUFFERS):
                kind = type(data).__name__
                raise TypeError(f"path: expected bytes or a buffer for {name!r}, got {kind}")
        return cls({f"{MEMORY}/{name}": data for name, data in files.items()}, mode)

    @property
    def names(self) -> list[str]:
        """Names of the files."""
        return list(self._files)

    def holds(self, path: object) -> bool:
        """True for the names of its files and folders, which are not local paths."""
        return is_in_memory(path)

    def ends(self, url: str, n_first: int, n_last: int) -> tuple[bytes, bytes] | None:
        """Returns the first and last bytes of a file; None if there is no such file."""
        return self._memory.ends(url, n_first, n_last) if url in self._files else None

    def bytes_in(self, url: str) -> int:
        """Returns the size of a file, or of all files of a folder."""
        return sum(memoryview(data).nbytes for data in self._files.values())

    def location(self, path: str) -> tuple[str, FileStore | None]:
        """Returns the location of a file or folder for native readers.

        Args:
            path: its name.

        Returns:
            The name, and the store of all files.
        """
        return path, self._memory

    def __getstate__(self) -> dict[str, Any]:
        state = {**super().__getstate__(), "_files": {k: bytes(v) for k, v in self._files.items()}}
        del state["_memory"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from atompack_torch._native import MemoryStore

        self.__dict__.update(state)
        self._memory = MemoryStore({name: memoryview(data) for name, data in self._files.items()})
