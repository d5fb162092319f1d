"""Programs as users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

QUIET = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "MPLBACKEND": "agg"}


def output_of(
    command: Sequence[str | Path],
    folder: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    seconds: float = 300,
) -> str:
    """What a program prints; an AssertionError with the end of it if the program fails.

    Args:
        command: its name and arguments.
        folder: its working folder.
        env: its environment; None: ours, on one thread and without a screen.
        seconds: limit on its time.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | QUIET if env is None else env,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def run(code: str, *arguments: str | Path, interrupt: bool = False) -> tuple[int, str, str]:
    """Runs Python code, and interrupts it once it has printed a line; its status and output."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if interrupt:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=200)
    finally:
        process.kill()
    return process.returncode, out, err
