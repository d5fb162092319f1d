"""The example on static shapes: one step for each shape, and a loss that falls."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from processes.programs import output_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "08_static_shapes.py"


def test_one_step_for_each_shape(tmp_path: Path) -> None:
    options = ["--structures", "60", "--epochs", "3", "--buckets", "2", "--max-atoms", "256"]
    printed = output_of(
        [sys.executable, EXAMPLE, *options, "--backend", "aot_eager", "--out", tmp_path]
    )
    assert "2 steps for 2 shapes" in printed
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
