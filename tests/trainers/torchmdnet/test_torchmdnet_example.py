"""The example and the code on TorchMD-Net's page run as written."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import ase
import lightning
import numpy as np
import pytest
import torch
import torchmdnet.scripts.train as script
from pages import EXAMPLES, LIGHTNING, blocks_of, run_blocks
from processes.programs import output_of
from ranks import environment
from structures import structures, write_atp
from torch_geometric.data import Data
from torchmdnet.calculators import External
from torchmdnet.data import DataModule as StockDataModule
from torchmdnet.models.model import load_model
from torchmdnet_cases import OPTIONS, task

from atompack_torch.trainers import torchmdnet
from atompack_torch.trainers.torchmdnet._command import CommandDataModule, Structures


def test_the_example(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(20, without=("forces",)))
    printed = output_of(
        [sys.executable, EXAMPLES / "train_torchmdnet.py", path, "--epochs", "2"],
        tmp_path,
        seconds=400,
    )
    assert re.search(r"validation loss \d+\.\d+", printed)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atp(tmp_path / "train.atp", structures(12))
    write_atp(tmp_path / "val.atp", structures(4, seed=1))
    trainer = lightning.Trainer(max_epochs=1, **LIGHTNING)
    run_blocks("torchmdnet", trainer=trainer, task=task(torch.float32))
    assert trainer.global_step == 1


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Result of the command on the page, with the configuration among the examples."""
    write_atp(tmp_path / "train.atp", structures(40, seed=1, without=("forces",)))
    shutil.copy(EXAMPLES / "torchmdnet.yaml", tmp_path)
    (command,) = blocks_of("torchmdnet", "bash")
    printed = output_of(command.replace("python", sys.executable, 1).split(), tmp_path, seconds=400)
    assert "train 21, val 3, test 3" in printed  # 13 of 40 lack forces
    assert "test_total_l1_loss" in printed
    return tmp_path / "logs"


def test_the_command(run: Path) -> None:
    head, *rows = (line.split(",") for line in (run / "metrics.csv").read_text().splitlines())
    column = head.index("val_total_mse_loss")
    losses = [float(row[column]) for row in rows if row[column]]
    assert len(losses) == 4
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    checkpoints = sorted(run.glob("epoch=*.ckpt"))
    assert len(checkpoints) == 4
    atoms = structures(1, periodic=False)[0]
    (batch,) = torchmdnet.loader(write_atp(run / "one.atp", [atoms]), batch_size=1)
    predictions = load_model(str(checkpoints[-1]), derivative=True)(batch.z, batch.pos, batch.batch)
    numbers, positions = torch.tensor(atoms.numbers), torch.tensor(atoms.positions[None])
    calculator = External(str(checkpoints[-1]), numbers[None])
    for found, expected in zip(calculator.calculate(positions, None), predictions, strict=True):
        torch.testing.assert_close(found.flatten(), expected.detach().flatten())


def test_the_command_on_two_ranks(tmp_path: Path) -> None:
    """Which Lightning starts: each structure for training once an epoch, in a different order."""
    write_atp(tmp_path / "train.atp", structures(30, seed=1))
    shutil.copy(EXAMPLES / "torchmdnet.yaml", tmp_path)
    runner = Path(__file__).with_name("torchmdnet_command_rank.py")
    options = ["--conf", "torchmdnet.yaml", "--ngpus", "2", "--num-epochs", "2"]
    output_of(
        [sys.executable, runner, *options],
        tmp_path,
        env=environment() | {"NOTES": str(tmp_path / "notes")},
        seconds=500,
    )
    ranks = [json.loads((tmp_path / f"notes.{rank}").read_text()) for rank in range(2)]
    orders = []
    for epoch in range(2):
        taken = [step for rank in ranks for step in rank["epochs"][epoch]]
        orders.append([number for step in taken for number in step])
        assert len({len(rank["epochs"][epoch]) for rank in ranks}) == 1
    assert len(set(orders[0])) == len(orders[0]) == 24  # the rest is for validation and tests
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    assert ranks[0]["weights"] == ranks[1]["weights"]


class Graphs(torch.utils.data.Dataset[Data]):
    """Structures as TorchMD-Net's own datasets give them."""

    def __init__(self, made: list[ase.Atoms]) -> None:
        self._made = made

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, index: int) -> Data:
        atoms = self._made[index]
        return Data(
            z=torch.tensor(atoms.numbers),
            pos=torch.tensor(atoms.positions, dtype=torch.float32),
            y=torch.tensor([[atoms.calc.results["energy"]]], dtype=torch.float32),
            neg_dy=torch.tensor(atoms.calc.results["forces"], dtype=torch.float32),
        )


def test_splits_are_its_own(tmp_path: Path) -> None:
    """The structures of each part, and the moments, are those of its data module."""
    made = structures(40, seed=1)
    path = write_atp(tmp_path / "train.atp", made)
    options = vars(script.get_argparse().parse_args([])) | OPTIONS
    options |= {"dataset": "Atompack", "dataset_root": str(path), "seed": 3, "num_workers": 0}
    options |= {"train_size": 20, "val_size": 10, "test_size": 10, "log_dir": str(tmp_path)}
    options |= {"batch_size": 4, "inference_batch_size": 5, "standardize": True, "precision": 32}
    stock = StockDataModule(options, dataset=Graphs(made))
    ours = CommandDataModule(options, dataset=Structures(path, atomref={13: -4.0}))
    for data in (stock, ours):
        data.setup("fit")
    torch.testing.assert_close(ours.mean, stock.mean)
    torch.testing.assert_close(ours.std, stock.std)
    for found, wanted in zip(ours.val_dataloader()[0], stock.val_dataloader()[0], strict=True):
        for name in ("z", "pos", "y", "neg_dy", "batch"):
            torch.testing.assert_close(found[name], wanted[name], rtol=0, atol=0)
    energies = [
        sorted(torch.cat([batch.y for batch in data.train_dataloader()])[:, 0].tolist())
        for data in (stock, ours)
    ]
    assert energies[0] == energies[1]
    table = ours.atomref
    assert table.shape == (128, 1)
    assert table[13] == -4.0
