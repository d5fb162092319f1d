"""Examples as users run them, in processes that have imported torch already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from processes.client import ScriptServer

RUNNER = """
import os, runpy, sys
import torch
os.environ.update(MPLBACKEND="agg", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
torch.set_num_threads(1)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def example(scripts: ScriptServer) -> Callable[..., str]:
    """Runs an example by the name of its file; returns what it prints."""
    scripts.preload("torch._dynamo", "ase.io", "matplotlib.figure")

    def run(name: str, *arguments: object) -> str:
        done = scripts.run(RUNNER, EXAMPLES / name, *map(str, arguments))
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def alloys(example: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 60 molecules, on which the examples train."""
    path = tmp_path_factory.mktemp("alloys") / "alloys-60.atp"
    example("alloys.py", path, "--molecules", 60)
    return path
