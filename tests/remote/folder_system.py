"""A file system of fsspec over a folder, which workers can register too, with faults on request."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import register_implementation


class FolderFileSystem(DirFileSystem):
    """Files below ``root``; a file ``FAULT`` there holds the name of the error to raise."""

    protocol = "folder"

    def __init__(self, root: str = "", secret: str = "", delay: float = 0.0, **others: Any) -> None:
        super().__init__(path=root, fs=LocalFileSystem(), **others)
        self.root, self.secret, self.delay = root, secret, delay

    def _fault(self) -> None:
        time.sleep(self.delay)
        fault = Path(self.root) / "FAULT"
        if not fault.exists():
            return
        kind = fault.read_text()
        if kind == "short":
            return
        raise {"value": ValueError, "denied": PermissionError, "late": TimeoutError}[kind](
            f"the secret is {self.secret}"
        )

    def info(self, path: str, **others: Any) -> Any:
        return super().info(path, **others)

    def cat_file(self, path: str, start: Any = None, end: Any = None, **others: Any) -> Any:
        self._fault()
        found = super().cat_file(path, start, end, **others)
        is_short = (Path(self.root) / "FAULT").exists()
        return found[:-1] if is_short else found

    def cat_ranges(self, paths: Any, starts: Any, ends: Any, **others: Any) -> Any:
        return [self._one(*each) for each in zip(paths, starts, ends, strict=True)]

    def _one(self, path: str, start: int, end: int) -> Any:
        try:
            return self.cat_file(path, start, end)
        except Exception as error:
            return error


register_implementation("folder", FolderFileSystem, clobber=True)
