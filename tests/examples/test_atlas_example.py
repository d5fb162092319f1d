"""The example of ATLAS stores runs, learns, and draws."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("workers", [1, pytest.param(0, marks=pytest.mark.exhaustive)])
def test_the_model_beats_the_mean_profile(
    example: Callable[..., str], tmp_path: Path, workers: int
) -> None:
    options = ["--casts", "600", "--epochs", "6", "--workers", workers, "--out", tmp_path]
    printed = example("05_atlas_store.py", *options)
    losses = [float(x) for x in re.findall(r"validation ([\d.]+) °C", printed)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    found = dict(re.findall(r"^  ([\w ]+?)  +([\d.]+) °C$", printed, re.MULTILINE))
    assert float(found["model"]) < float(found["mean profile"]) / 2
    assert (tmp_path / "casts.png").stat().st_size > 10_000
