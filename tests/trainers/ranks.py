"""Runs a script on two ranks, as torchrun would start it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

SECONDS = 500.0  # for a whole run; on idle cores it is about a quarter


def run_ranks(
    folder: Path, script: Path, *arguments: str | Path, n_ranks: int = 2, seconds: float = SECONDS
) -> list[Any]:
    """Starts a script on every rank; returns the JSON that each wrote to its last argument.

    Args:
        folder: for the output of the ranks; their working folder.
        script: started by this Python with ``arguments`` and the path of its result.
        *arguments: of the script.
        n_ranks: number of processes, 1 for one without any rank.
        seconds: limit on the time of all.
    """
    port = _free_port()
    running = []
    for rank in range(n_ranks):
        result = folder / f"result{rank}.json"
        result.unlink(missing_ok=True)
        with (folder / f"log{rank}").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [sys.executable, script, *arguments, result],
                    env=environment() | _of_rank(rank, n_ranks, port),
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                )
            )
    _wait(running, folder, seconds)
    return [json.loads((folder / f"result{rank}.json").read_text()) for rank in range(n_ranks)]


def environment() -> dict[str, str]:
    """Variables for processes that share few cores and have no network but loopback."""
    fixed = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "GLOO_SOCKET_IFNAME": "lo"}
    search = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, **fixed, "PYTHONPATH": search.rstrip(os.pathsep)}


def _of_rank(rank: int, n_ranks: int, port: int) -> dict[str, str]:
    if n_ranks == 1:
        return {}
    given = {"RANK": rank, "LOCAL_RANK": rank, "NODE_RANK": 0, "WORLD_SIZE": n_ranks}
    given |= {"LOCAL_WORLD_SIZE": n_ranks, "MASTER_PORT": port}
    return {name: str(value) for name, value in given.items()} | {"MASTER_ADDR": "127.0.0.1"}


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _wait(running: Sequence[subprocess.Popen[bytes]], folder: Path, seconds: float) -> None:
    try:
        codes = [process.wait(seconds) for process in running]
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
    logs = [log.read_text(errors="replace")[-3000:] for log in sorted(folder.glob("log*"))]
    assert codes == [0] * len(running), "\n".join(logs)
