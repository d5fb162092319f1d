"""What several sources of ``convert`` are tested with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

SYMBOLS = {1: "H", 8: "O", 26: "Fe"}

_PEAK = """
import sys
from pathlib import Path
from atompack_torch.conversion import convert
convert(sys.argv[1], sys.argv[2], mode="w", progress=False)
status = Path("/proc/self/status").read_text()
print(status.split("VmHWM:")[1].split()[0])
"""


def structures(sizes: list[int], seed: int = 0) -> list[dict[str, Any]]:
    """Random structures as dicts of arrays."""
    rng = np.random.default_rng(seed)
    return [
        {
            "numbers": rng.choice([1, 8, 26], n),
            "positions": rng.normal(size=(n, 3)),
            "cell": rng.normal(size=(3, 3)),
            "energy": float(rng.normal()),
            "forces": rng.normal(size=(n, 3)),
            "stress": (lambda a: a + a.T)(rng.normal(size=(3, 3))),
            "moments": rng.normal(size=n),
        }
        for n in sizes
    ]


def peak_of_conversion(source: Path) -> int:
    """kB of memory that a process takes at the most to convert a file."""
    command = [sys.executable, "-c", _PEAK, source, source.with_name("out.atp")]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)
