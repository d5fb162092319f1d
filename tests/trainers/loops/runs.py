"""Runs of a framework on two ranks, and checks of which molecules came."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from cases import N, write

HERE = Path(__file__).parent
RANKS = 2
SECONDS = 400.0  # for all runs of a framework; on idle cores it is about a quarter

Ranks = list[dict[str, Any]]  # of each rank: the epochs, the error


def start(folder: Path, script: str) -> dict[str, Ranks]:
    """Starts a script on every rank and returns what came of each case in it."""
    write(folder / "data.atp")
    port = _free_port()
    running = []
    for rank in range(RANKS):
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "NODE_RANK": 0, "WORLD_SIZE": RANKS}
        ranks |= {"LOCAL_WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        out = folder / f"found{rank}.json"
        with (folder / f"log{rank}").open("wb") as log:
            running.append(
                subprocess.Popen(
                    [sys.executable, HERE / script, folder / "data.atp", out],
                    env=_environment() | {name: str(value) for name, value in ranks.items()},
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                )
            )
    _wait(running, folder)
    return _found(folder)


def start_alone(folder: Path, script: str) -> dict[str, Ranks]:
    """Starts a script that starts the ranks itself."""
    write(folder / "data.atp")
    with (folder / "log0").open("wb") as log:
        running = subprocess.Popen(
            [sys.executable, HERE / script, folder / "data.atp", folder / "foundRANK.json"],
            env=_environment(),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    _wait([running], folder)
    return _found(folder)


def _environment() -> dict[str, str]:
    fixed = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "GLOO_SOCKET_IFNAME": "lo"}
    fixed |= {"ACCELERATE_USE_CPU": "true", "RAY_USAGE_STATS_ENABLED": "0"}
    return {**os.environ, **fixed}


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _wait(running: list[subprocess.Popen[bytes]], folder: Path) -> None:
    try:
        codes = [process.wait(SECONDS) for process in running]
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
    logs = [log.read_text(errors="replace")[-3000:] for log in sorted(folder.glob("log*"))]
    assert codes == [0] * len(running), "\n".join(logs)


def _found(folder: Path) -> dict[str, Ranks]:
    ranks = [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(RANKS)]
    return {name: [found[name] for found in ranks] for name in ranks[0]}


def epochs(ranks: Ranks) -> list[list[int]]:
    """The molecules of each epoch, those of all ranks."""
    assert [rank["error"] for rank in ranks] == [None] * RANKS
    of_each = [rank["epochs"] for rank in ranks]
    assert of_each[0]
    return [
        [number for batches in parts for batch in batches for number in batch]
        for parts in zip(*of_each, strict=True)
    ]


def assert_complete(ranks: Ranks, *, repeated: int = 0, in_step: bool = True) -> None:
    """Every molecule comes in each epoch, so many of them twice; no two epochs are the same."""
    seen = epochs(ranks)
    for numbers in seen:
        assert set(numbers) == set(range(N))
        assert len(numbers) == N + repeated
    assert len({tuple(numbers) for numbers in seen}) == len(seen)
    if in_step:
        steps = [[len(batches) for batches in rank["epochs"]] for rank in ranks]
        assert steps[0] == steps[1]


def error_of(ranks: Ranks) -> str:
    """The error that all ranks ended with."""
    errors = {rank["error"] for rank in ranks}
    assert len(errors) == 1
    (error,) = errors
    assert error is not None
    return str(error)
