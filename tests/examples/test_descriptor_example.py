"""The example that trains from a feature cache, as a user runs it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def test_the_example(example: Callable[..., str], alloys: Path, tmp_path: Path) -> None:
    command = ["04_descriptor_potential.py", alloys, "--out", tmp_path, "--epochs"]
    printed = example(*command, 6, "--recompute", 2, "--batch-size", 4)
    assert "48 + 6 + 6 to train, validate and test" in printed
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", printed)]
    *cached, first, second = losses
    assert len(cached) == 6
    assert cached[-1] < 0.8 * cached[0]
    # What is computed for the batch trains as what is stored: the same rows, the same forces.
    assert abs(first - cached[0]) < 0.01 * cached[0]
    assert abs(second - cached[1]) < 0.01 * cached[1]
    assert re.search(r"this potential +\d+\.\d +\d\.\d{3}\n", printed)
    assert re.search(r"from the cache +\S+ s an epoch.*\ncomputed +\S+ s an epoch", printed)
    assert (tmp_path / "descriptor_potential.png").stat().st_size > 10_000

    # The calculator goes down in energy, so its forces belong to its energies.
    steps = re.search(r"10 steps of BFGS: (\S+) eV to (\S+) eV", printed)
    assert steps is not None
    before, after = map(float, steps.groups())
    assert after < before

    cache = next(tmp_path.glob("*.h5"))
    before = cache.stat()
    printed = example(*command, 1, "--recompute", 0, "--force-fraction", 0)
    assert "without" not in printed
    assert cache.stat().st_ino == before.st_ino
    assert cache.stat().st_mtime_ns == before.st_mtime_ns
