"""The example of ATLAS stores runs, learns, and draws."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from processes.programs import output_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "05_atlas_store.py"


@pytest.mark.parametrize("workers", [0, 1])
def test_the_model_beats_the_mean_profile(tmp_path: Path, workers: int) -> None:
    options = ["--casts", "600", "--epochs", "6", "--workers", workers, "--out", tmp_path]
    printed = output_of([sys.executable, EXAMPLE, *map(str, options)], seconds=120)
    losses = [float(x) for x in re.findall(r"validation ([\d.]+) °C", printed)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    found = dict(re.findall(r"^  ([\w ]+?)  +([\d.]+) °C$", printed, re.MULTILINE))
    assert float(found["model"]) < float(found["mean profile"]) / 2
    assert (tmp_path / "casts.png").stat().st_size > 10_000
