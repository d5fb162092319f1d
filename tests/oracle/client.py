"""The other end of ``server.py``: atompack-db behind a pipe."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from oracle.pipe import OracleProcess
from reference.names import BUILTINS

SERVER = Path(__file__).with_name("server.py")

Plain = Mapping[str, Any]
AS_PROPERTIES = [key for key, builtin in BUILTINS.items() if builtin.is_property]


def _given(plain: Plain) -> dict[str, Any]:
    """A molecule whose labels are properties where atompack-db has no such label."""
    more = {key: plain[key] for key in AS_PROPERTIES if plain.get(key) is not None}
    return {**plain, "properties": {**plain.get("properties", {}), **more}}


def _read(plain: dict[str, Any]) -> dict[str, Any]:
    """A molecule that atompack-db has read, with those labels."""
    properties = plain["properties"]
    for key in AS_PROPERTIES:
        value = properties.get(key)
        if np.shape(value) == BUILTINS[key].shape and value.dtype.kind == "f":
            plain[key] = properties.pop(key)
    return plain


class AtompackProcess(OracleProcess):
    """One long-lived process that writes .atp files with atompack-db."""

    def __init__(self) -> None:
        super().__init__(SERVER)

    def write(
        self,
        path: Path,
        molecules: Sequence[Plain],
        codec: str = "none",
        *,
        level: int = 3,
        commits: Sequence[int] = (),
    ) -> Path:
        """Create a file; ``commits`` are the numbers of molecules at which to flush in between."""
        bounds = [0, *commits, len(molecules)]
        parts = [[*map(_given, molecules[a:b])] for a, b in itertools.pairwise(bounds)]
        self.ask("write", path=str(path), commits=parts, codec=codec, level=level)
        return path

    def append(self, path: Path, molecules: Sequence[Plain]) -> None:
        """Append molecules to an existing file in one commit."""
        self.ask("append", path=str(path), molecules=[*map(_given, molecules)])

    def read(self, path: Path) -> list[dict[str, Any]]:
        """All molecules of a file, as the original reads them one by one."""
        return [_read(plain) for plain in self.ask("read", path=str(path))]
