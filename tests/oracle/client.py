"""The other end of ``server.py``: atompack-db behind a pipe, with a time limit on every answer."""

from __future__ import annotations

import itertools
import pickle
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

SERVER = Path(__file__).with_name("server.py")
ANSWER_SECONDS = 60.0

Plain = Mapping[str, Any]


class AtompackError(RuntimeError):
    """The original refused a request."""


class AtompackProcess:
    """One long-lived process that writes .atp files with atompack-db."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, action: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((action, arguments), self._process.stdin)
        self._process.stdin.flush()
        # One answer a request: nothing of it can be in our buffer before the pipe is readable.
        if not select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]:
            raise TimeoutError(f"atompack-db did not answer {action!r} in {ANSWER_SECONDS} s")
        ok, answer = pickle.load(self._process.stdout)
        if not ok:
            raise AtompackError(answer)
        return answer

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
        self._ask("write", path=str(path), commits=parts, codec=codec, level=level)
        return path

    def append(self, path: Path, molecules: Sequence[Plain]) -> None:
        """Append molecules to an existing file in one commit."""
        self._ask("append", path=str(path), molecules=list(molecules))

    def write_stacked(
        self, path: Path, positions: Any, numbers: Any, codec: str = "none", **kwargs: Any
    ) -> Path:
        """Create a file by one stacked write of equally sized molecules."""
        self._ask(
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
        answer: list[dict[str, Any]] = self._ask("read", path=str(path))
        return answer

    def flat(self, path: Path, indices: Sequence[int]) -> dict[str, Any]:
        """The original's own flat read."""
        answer: dict[str, Any] = self._ask("flat", path=str(path), indices=list(indices))
        return answer
