"""Both ends of a pipe to a library that needs a separate process, with a time limit on answers.

Requests and answers are pickles on stdin and stdout of the server.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ANSWER_SECONDS = 200.0


class OracleError(RuntimeError):
    """The original refused a request, or its process died of it."""


class OracleProcess:
    """One long-lived process, started again when a request ended it."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(self._server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, action: str, **arguments: Any) -> Any:
        """What this action of the server returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((action, arguments), self._process.stdin)
        self._process.stdin.flush()
        # One answer a request: nothing of it can be in our buffer before the pipe is readable.
        readable = select.poll()  # select() takes no descriptors from 1,024 on
        readable.register(self._process.stdout, select.POLLIN)
        if not readable.poll(ANSWER_SECONDS * 1000):
            raise TimeoutError(f"no answer to {action!r} in {ANSWER_SECONDS} s")
        try:
            ok, answer = pickle.load(self._process.stdout)
        except EOFError:
            self._end()
            self._process = self._start()
            raise OracleError(f"{action!r} ended the process") from None
        if not ok:
            raise OracleError(answer)
        return answer


def serve(actions: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests until stdin ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the library prints is not an answer
    while True:
        try:
            action, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            answer = (True, actions[action](**arguments))
        except BaseException as error:  # the client raises it again; a panic is no Exception
            answer = (False, f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()
