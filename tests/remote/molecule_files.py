"""Small files for tests of remote reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import atompack_torch as apt


def write(path: Path, count: int = 60, seed: int = 0, codec: Any = "none") -> Path:
    """Writes molecules of 5 atoms."""
    rng = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with apt.AtpWriter(path, codec=codec, mode="w") as writer:
        writer.write_arrays(
            positions=rng.normal(size=(count, 5, 3)),
            atomic_numbers=rng.integers(1, 80, (count, 5)),
            energy=rng.normal(size=count),
            forces=rng.normal(size=(count, 5, 3)),
        )
    return path
