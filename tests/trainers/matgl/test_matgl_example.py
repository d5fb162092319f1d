"""The example for MatGL and the blocks of its page, as a user runs them."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import lightning
import pytest
from matgl.utils.training import PotentialLightningModule
from matgl_cases import MODELS
from pages import EXAMPLES, run_blocks
from processes.programs import output_of
from ranks import environment
from structures import structures, write_atp, write_extxyz


def run(folder: Path, *arguments: str) -> dict[str, float]:
    """Returns the metrics that the example prints."""
    files = (EXAMPLES / "train_matgl.py", "train.atp", "val.xyz")
    printed = output_of([sys.executable, *files, *arguments], folder, env=environment())
    lines = [line.split() for line in printed.splitlines()[-3:]]
    return {name: float(value) for name, value in lines}


def test_the_example_trains_and_resumes(tmp_path: Path) -> None:
    write_atp(tmp_path / "train.atp", structures(24))
    write_extxyz(tmp_path / "val.xyz", structures(12, seed=1))
    first = run(tmp_path)
    assert all(map(math.isfinite, first.values()))
    assert (tmp_path / "matgl" / "last.ckpt").exists()
    resumed = run(tmp_path, "--epochs", "3", "--resume", "matgl/last.ckpt")
    assert resumed.keys() == first.keys()
    assert resumed != first


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "val"):
        write_atp(tmp_path / f"{name}.atp", structures(8, periodic=True))
    monkeypatch.chdir(tmp_path)
    model = MODELS["TensorNet"]()
    run_blocks(
        "matgl",
        model=model,
        lightning=lightning,
        PotentialLightningModule=PotentialLightningModule,
    )
