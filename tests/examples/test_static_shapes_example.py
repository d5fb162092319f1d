"""The example on static shapes: one step for each shape, and a loss that falls."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "08_static_shapes.py"


def test_one_step_for_each_shape(tmp_path: Path) -> None:
    options = ["--structures", "60", "--epochs", "3", "--buckets", "2", "--max-atoms", "256"]
    done = subprocess.run(
        [sys.executable, EXAMPLE, *options, "--backend", "aot_eager", "--out", tmp_path],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "2 steps for 2 shapes" in done.stdout
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
