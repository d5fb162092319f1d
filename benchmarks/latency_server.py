"""A server on loopback that answers as late as a remote one, for benchmarks and tests.

    python benchmarks/latency_server.py FOLDER [--latency-ms 30] [--port 0]

serves until Ctrl-C. `cpp/latency_server.cpp` is built when it is used first.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
BUILD = REPOSITORY / "build" / "benchmarks"
TARGET = "atompack_latency_server"


class Served(NamedTuple):
    """Work of a server."""

    answers: int
    microseconds: float  # of processor time for each


def build() -> Path:
    """Builds the server if its sources have changed.

    Returns:
        The program.

    Raises:
        subprocess.CalledProcessError: if it cannot be built; what was printed is in `output`.
    """
    beside = Path(sys.executable).with_name("cmake")
    cmake = str(beside) if beside.exists() else shutil.which("cmake") or "cmake"
    options = ["-DATOMPACK_BUILD_EXTENSION=OFF", "-DATOMPACK_BUILD_BENCHMARKS=ON"]
    commands = [
        [cmake, "-S", str(REPOSITORY), "-B", str(BUILD), *options],
        [cmake, "--build", str(BUILD), "--target", TARGET],
    ]
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "latency_server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests in several processes may build at the same time
        for command in commands:
            subprocess.run(
                command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
    return BUILD / "benchmarks" / "cpp" / TARGET


class LatencyServer:
    """A running server; a context manager that stops it.

    Args:
        folder: files to serve.
        latency_ms: delay of each answer, in milliseconds.
        port: port of 127.0.0.1; 0 for any that is free.

    Attributes:
        port: port that it listens on.
        url: address of the folder, without a slash at its end.
    """

    def __init__(self, folder: str | os.PathLike[str], latency_ms: int = 30, port: int = 0) -> None:
        options = ["--latency-ms", str(latency_ms), "--port", str(port)]
        self._process = subprocess.Popen(
            [build(), os.fspath(folder), *options], stdout=subprocess.PIPE, text=True
        )
        line = self._read_line()
        if not line:
            raise RuntimeError(f"{TARGET} ended with status {self._process.wait()}")
        self.port = int(line)
        self.url = f"http://127.0.0.1:{self.port}"

    def stop(self) -> Served:
        """Stops the server.

        Returns:
            Number of its answers, and the processor time of each.
        """
        self._process.terminate()
        answers, microseconds = self._read_line().split()
        self._process.wait()
        return Served(int(answers), float(microseconds))

    def __enter__(self) -> LatencyServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.stop()

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder")
    parser.add_argument("--latency-ms", type=int, default=30)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    program = build()
    numbers = ["--latency-ms", str(options.latency_ms), "--port", str(options.port)]
    os.execv(program, [str(program), options.folder, *numbers])


if __name__ == "__main__":
    main()
