"""The other end of ``atlas_server.py``: atlas-python behind a pipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oracle.pipe import OracleProcess

SERVER = Path(__file__).with_name("atlas_server.py")

Operation = Sequence[Any]


class AtlasProcess(OracleProcess):
    """One long-lived process that writes and reads stores with atlas-python."""

    def __init__(self) -> None:
        super().__init__(SERVER)

    def create(self, path: Path, operations: Sequence[Operation] = (), **options: Any) -> Path:
        """A new store; options as ``Atlas.create`` has them."""
        self.ask("create", path=str(path), options=options)
        self.apply(path, operations)
        return path

    def apply(self, path: Path, operations: Sequence[Operation]) -> None:
        """Operations in order, flushed at the end: each is its name and its arguments."""
        self.ask("apply", path=str(path), operations=list(operations))

    def read(self, path: Path) -> dict[str, Any]:
        """Everything there is, by dataset in stored order."""
        answer: dict[str, Any] = self.ask("read", path=str(path))
        return answer

    def add_xarray(
        self, path: Path, datasets: Mapping[str, Any], chunks: Any = None, fill_value: Any = None
    ) -> None:
        """Datasets of xarray, in one flush."""
        self.ask(
            "add_xarray",
            path=str(path),
            datasets=dict(datasets),
            chunks=chunks,
            fill_value=fill_value,
        )

    def open_xarray(self, path: Path, name: str) -> Any:
        """A dataset of xarray, loaded."""
        return self.ask("open_xarray", path=str(path), name=name)
