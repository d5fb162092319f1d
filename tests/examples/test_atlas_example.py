"""The example of ATLAS stores runs, learns, and draws."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "05_atlas_store.py"


@pytest.mark.parametrize("workers", [0, 1])
def test_the_model_beats_the_mean_profile(tmp_path: Path, workers: int) -> None:
    options = ["--casts", "600", "--epochs", "6", "--workers", workers, "--out", tmp_path]
    done = subprocess.run(
        [sys.executable, EXAMPLE, *map(str, options)],
        env=os.environ | {"MPLBACKEND": "agg", "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    losses = [float(x) for x in re.findall(r"validation ([\d.]+) °C", done.stdout)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    found = dict(re.findall(r"^  ([\w ]+?)  +([\d.]+) °C$", done.stdout, re.MULTILINE))
    assert float(found["model"]) < float(found["mean profile"]) / 2
    assert (tmp_path / "casts.png").stat().st_size > 10_000
