"""The example and the code on TorchMD-Net's page run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import lightning
import pytest
import torch
from structures import structures, write_atp
from torchmdnet_cases import task

ROOT = Path(__file__).parents[3]


def test_the_example(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(20, without=("forces",)))
    done = subprocess.run(
        [sys.executable, ROOT / "examples/trainers/train_torchmdnet.py", path, "--epochs", "2"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"validation loss \d+\.\d+", done.stdout)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atp(tmp_path / "train.atp", structures(12))
    write_atp(tmp_path / "val.atp", structures(4, seed=1))
    page = (ROOT / "docs" / "trainers" / "torchmdnet.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False
    )
    for block in blocks:
        exec(block, {"trainer": trainer, "task": task(torch.float32)})
    assert trainer.global_step == 1
