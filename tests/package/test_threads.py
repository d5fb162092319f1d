"""at::parallel_for is really parallel, on torch's own and only OpenMP runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes.client import ScriptServer

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


@pytest.mark.parametrize("threads", [1, 2])
def test_parallel_for_uses_the_threads_it_is_given(threads: int, scripts: ScriptServer) -> None:
    """Without OpenMP at compile time the loop would be serial, silently."""
    assert scripts.run(PARALLEL, str(threads)).stdout.split() == [str(threads)]


def test_one_openmp_runtime_is_loaded(scripts: ScriptServer) -> None:
    paths = scripts.run(MAPS).stdout.split()
    assert len({Path(p).resolve() for p in paths}) == 1, paths
    assert "gomp" in Path(paths[0]).name
