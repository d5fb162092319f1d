"""The other end of ``server.py``: atompack-db behind a pipe."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle.pipe import OracleProcess

SERVER = Path(__file__).with_name("server.py")

Plain = Mapping[str, Any]


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
        parts = [list(molecules[a:b]) for a, b in itertools.pairwise(bounds)]
        self.ask("write", path=str(path), commits=parts, codec=codec, level=level)
        return path

    def append(self, path: Path, molecules: Sequence[Plain]) -> None:
        """Append molecules to an existing file in one commit."""
        self.ask("append", path=str(path), molecules=list(molecules))

    def write_stacked(
        self, path: Path, positions: Any, numbers: Any, codec: str = "none", **kwargs: Any
    ) -> Path:
        """Create a file by one stacked write of equally sized molecules."""
        self.ask(
            "write_stacked",
            path=str(path),
            codec=codec,
            positions=positions,
            numbers=numbers,
            kwargs=kwargs,
        )
        return path

    def read(self, path: Path) -> list[dict[str, Any]]:
        """All molecules of a file, as the original gives them out one by one."""
        answer: list[dict[str, Any]] = self.ask("read", path=str(path))
        return answer

    def flat(self, path: Path, indices: Sequence[int]) -> dict[str, Any]:
        """The original's own flat read."""
        answer: dict[str, Any] = self.ask("flat", path=str(path), indices=list(indices))
        return answer
