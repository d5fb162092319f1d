"""at::parallel_for is really parallel, on torch's own and only OpenMP runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PARALLEL = """
import sys, torch
from atompack_torch import _core
torch.set_num_threads(int(sys.argv[1]))
torch.ones(1 << 20).add(1)     # torch's own pool is awake
print(len(set(_core.parallel_thread_ids())))
"""

MAPS = """
import re, torch
import atompack_torch
torch.ones(1 << 20).add(1)
maps = open("/proc/self/maps").read()
for path in sorted(set(re.findall(r"\\S*/\\S*(?:gomp|iomp|libomp)\\S*", maps))):
    print(path)
"""


def run(script: str, *arguments: str) -> list[str]:
    """The lines that a script prints in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.parametrize("threads", [1, 2])
def test_parallel_for_uses_the_threads_it_is_given(threads: int) -> None:
    """Without OpenMP at compile time the loop would be serial, silently."""
    assert run(PARALLEL, str(threads)) == [str(threads)]


def test_one_openmp_runtime_is_loaded() -> None:
    paths = run(MAPS)
    assert len({Path(p).resolve() for p in paths}) == 1, paths
    assert "gomp" in Path(paths[0]).name
