"""The example and the code on SchNetPack's page run as written."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pages import EXAMPLES, LIGHTNING, blocks_of, run_blocks
from processes.programs import QUIET, output_of
from schnetpack_cases import task, trainer, trn
from structures import structures, write_atp

import atompack_torch as apt


def test_the_example(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(30, without=("forces",)))
    printed = output_of(
        [sys.executable, EXAMPLES / "train_schnetpack.py", path, "--epochs", "2"],
        tmp_path,
    )
    assert re.search(r"validation loss \d+\.\d+", printed)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atp(tmp_path / "train.atp", structures(12))
    write_atp(tmp_path / "val.atp", structures(4, seed=1))
    trainer = pl.Trainer(max_epochs=1, **LIGHTNING)
    run_blocks("schnetpack", trainer=trainer, task=task())
    assert trainer.global_step == 1


def run_experiment(folder: Path, *arguments: str) -> str:
    """Runs the command as on the page; returns what it logged."""
    (command,) = blocks_of("schnetpack", "bash")
    words = [command.strip().replace("python", sys.executable, 1), *arguments]
    return output_of(
        ["bash", "-c", " ".join(words)],
        folder,
        env=os.environ | QUIET | {"PWD": str(folder)},
    )


def losses_of_validation(run: Path) -> list[float]:
    """Validation losses by epoch, of all starts of a run."""
    found = []
    for path in sorted(run.glob("csv/version_*/metrics.csv")):
        head, *rows = (line.split(",") for line in path.read_text().splitlines())
        column = head.index("val_loss")
        found += [float(row[column]) for row in rows if row[column]]
    return found


def test_the_command_with_an_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It trains, tests and writes its best model, and continues from its last checkpoint."""
    shutil.copytree(EXAMPLES / "schnetpack/experiment", tmp_path / "experiment")
    for seed, (name, count) in enumerate({"train": 30, "val": 8, "test": 8}.items()):
        made = structures(count, seed=seed, without=("forces",))
        write_atp(tmp_path / f"{name}.atp", made)
    run_experiment(tmp_path, "run.id=one")
    first = losses_of_validation(tmp_path / "runs/one")
    assert len(first) == 2
    assert (tmp_path / "runs/one/best_model").exists()
    logged = run_experiment(tmp_path, "run.id=one", "trainer.max_epochs=4")
    assert "Resuming from checkpoint" in logged
    losses = losses_of_validation(tmp_path / "runs/one")
    assert len(losses) == 4
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    check_what_comes_after(tmp_path / "runs/one/best_model", tmp_path / "val.atp")


def check_what_comes_after(path: Path, data: Path) -> None:
    """A calculator predicts what the model does."""
    from schnetpack.interfaces import SpkCalculator  # after the module that adds a name to torch

    model = torch.load(path, weights_only=False)
    cutoff = float(model.representation.cutoff)
    batch = next(iter(trainer.loader(data, cutoff, batch_size=1, shuffle=False)))
    expected = float(model(batch)["energy"])
    atoms = apt.open(data)[int(batch["_idx"])].to_ase()
    neighbors = trn.ASENeighborList(cutoff)
    atoms.calc = SpkCalculator(str(path), neighbor_list=neighbors, energy_unit="eV")
    assert atoms.get_potential_energy() == pytest.approx(expected, rel=1e-5)
