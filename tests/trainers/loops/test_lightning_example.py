"""The example for Lightning, as a user runs it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pages import EXAMPLES
from processes.programs import output_of
from ranks import environment
from structures import structures, write_atp, write_extxyz

pytestmark = pytest.mark.timeout(300)


def run(folder: Path, *options: str) -> float:
    """Returns the loss that the example prints."""
    printed = output_of(
        [
            sys.executable,
            EXAMPLES / "train_lightning.py",
            "train.atp",
            "val.extxyz",
            "--max-atoms",
            "32",
            *options,
        ],
        folder,
        env=environment(),
        seconds=200,
    )
    return float(re.findall(r"validation loss ([\d.]+)", printed)[-1])


def test_the_example_learns_and_resumes(tmp_path: Path) -> None:
    write_atp(tmp_path / "train.atp", structures(40, without=["forces"]))
    write_extxyz(tmp_path / "val.extxyz", structures(8, seed=1))
    first = run(tmp_path, "--epochs", "1")
    assert run(tmp_path, "--epochs", "6", "--resume", "lightning/last.ckpt") < first
    assert run(tmp_path, "--epochs", "2", "--devices", "2", "--out", "two") < 10
