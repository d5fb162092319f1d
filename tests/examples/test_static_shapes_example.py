"""The example on static shapes: one step for each shape, and a loss that falls."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path


def test_one_step_for_each_shape(example: Callable[..., str], alloys: Path, tmp_path: Path) -> None:
    options = ["--epochs", 2, "--buckets", 2, "--max-atoms", 128, "--backend", "aot_eager"]
    printed = example("08_static_shapes.py", alloys, *options, "--out", tmp_path)
    assert "2 steps for 2 shapes" in printed
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 2
    assert losses[-1] < losses[0]
