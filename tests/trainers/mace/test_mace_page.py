"""The code on MACE's page runs as written, in MACE's own training loop."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from mace import modules, tools
from mace.tools.scripts_utils import LRScheduler
from mace_cases import OUTPUTS, Z_TABLE, model
from pages import run_blocks
from structures import CUTOFF, structures, write_atp


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atp(tmp_path / "train.atp", structures(24, without=("forces", "stress")))
    write_atp(tmp_path / "val.atp", structures(6, seed=1))
    trained = model()
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    schedule = argparse.Namespace(
        scheduler="ExponentialLR", lr_scheduler_gamma=0.99, optimizer="adam", lr=0.01
    )
    options = {
        "loss_fn": modules.WeightedEnergyForcesStressLoss(1.0, 10.0, 1.0),
        "optimizer": optimizer,
        "lr_scheduler": LRScheduler(optimizer, schedule),
        "checkpoint_handler": tools.CheckpointHandler(directory="checkpoints", tag="x"),
        "logger": tools.MetricsLogger(directory="results", tag="x"),
        "start_epoch": 0,
        "max_num_epochs": 5,
        "patience": 10,
        "eval_interval": 1,
        "output_args": OUTPUTS,
        "device": torch.device("cpu"),
        "log_errors": "PerAtomRMSE",
        "max_grad_norm": 10.0,
        "swa": None,
        "ema": None,
    }
    given = {"z_table": Z_TABLE, "r_max": CUTOFF}
    run_blocks("mace", tools=tools, model=trained, options=options, **given)
    notes = [json.loads(line) for line in Path("results/x.txt").read_text().splitlines()]
    losses = [note["loss"] for note in notes if note["mode"] == "opt"]
    assert len(losses) == 5 * 2
    assert sum(losses[-2:]) < sum(losses[:2])
