"""The other end of ``server.py``: scripts in processes that start in milliseconds."""

from __future__ import annotations

import itertools
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

SERVER = Path(__file__).with_name("server.py")
SECONDS = 200.0

_COMMAND = """
import os, sys
from atompack_torch import cli
os.environ.update({environment!r})
try:
    status = cli.main()
except SystemExit as stop:
    status = stop.code
sys.stdout.flush()
os._exit(status)
"""


class Done(NamedTuple):
    """How a script ended: its exit status (negative: a signal), and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Script:
    """A script that runs in a separate process."""

    def __init__(self, server: ScriptServer, pid: int, output: str) -> None:
        self._server = server
        self._output = output
        self.pid = pid

    @property
    def stdout(self) -> str:
        """What it printed so far."""
        return self._printed("out")

    def _printed(self, where: str) -> str:
        file = Path(f"{self._output}.{where}")
        return file.read_text() if file.exists() else ""

    def wait_for(self, text: str) -> None:
        """Returns once it has printed this."""
        end = time.monotonic() + SECONDS
        while text not in self.stdout:
            if time.monotonic() > end:
                raise TimeoutError(f"no {text!r} in {SECONDS} s, but {self.wait()}")
            time.sleep(0.0005)

    def kill(self) -> Done:
        """Ends it by SIGKILL."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> Done:
        """Until it has ended, by itself or after the time limit."""
        try:
            status = self._server.ask("wait", self.pid)
        except TimeoutError:
            os.kill(self.pid, signal.SIGKILL)
            status = self._server.answer()
        return Done(status, self.stdout, self._printed("err"))


class ScriptServer:
    """One long-lived process, which imports the ``preloaded`` modules; its forks run scripts."""

    def __init__(
        self, folder: Path, preloaded: Sequence[str] = ("torch", "atompack_torch")
    ) -> None:
        self._outputs = (str(folder / str(i)) for i in itertools.count())
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER), *preloaded], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, *request: Any) -> Any:
        """One request and its answer."""
        assert self._process.stdin is not None
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """The answer that is due."""
        assert self._process.stdout is not None
        readable = select.poll()  # select() takes no descriptors from 1,024 on
        readable.register(self._process.stdout, select.POLLIN)
        if not readable.poll(SECONDS * 1000):
            raise TimeoutError(f"no answer in {SECONDS} s")
        return pickle.load(self._process.stdout)

    def preload(self, *modules: str) -> None:
        """Imports what many scripts need, once for all later ones."""
        assert self.ask("import", *modules) == [*modules]

    def start(self, script: str, *arguments: str | Path) -> Script:
        """Begins a script."""
        output = next(self._outputs)
        pid = self.ask("start", script, [*map(str, arguments)], output)
        return Script(self, pid, output)

    def run(self, script: str, *arguments: str | Path) -> Done:
        """Runs a script to its end."""
        return self.start(script, *arguments).wait()

    def start_command(self, *arguments: object, **environment: str) -> Script:
        """Begins ``atompack-torch`` with these arguments and further environment variables."""
        return self.start(_COMMAND.format(environment=environment), *map(str, arguments))

    def command(self, *arguments: object, **environment: str) -> Done:
        """Runs it to its end."""
        return self.start_command(*arguments, **environment).wait()
