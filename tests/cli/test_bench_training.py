"""How long training steps wait: predicted for faster devices, and measured with sleeping steps."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.cli._training import measured_sides

MAKES, STEP = 0.08, 0.1  # seconds
N = 10


class Slow:
    """Batches that take a while."""

    def __len__(self) -> int:
        return N

    def __getitem__(self, number: int) -> int:
        time.sleep(MAKES)
        return number


def measured(times: int) -> Any:
    loaders = {"between": lambda: DataLoader(Slow()), "ahead": lambda: DataLoader(Slow(), **AHEAD)}
    return measured_sides(loaders, lambda batch: time.sleep(STEP / times))


AHEAD: dict[str, Any] = {"num_workers": 1, "persistent_workers": True}


@pytest.mark.exhaustive  # half a minute, and on a loaded machine times vary
def test_faster_steps_wait_as_long_as_predicted() -> None:
    slow = measured(1)
    for times in (2, 5, 20):
        fast = measured(times)
        for name, wanted in (("ahead", MAKES - STEP / times), ("between", MAKES)):
            predicted = slow[name].would_wait(STEP / times)
            assert predicted == pytest.approx(wanted, rel=0.2)
            assert fast[name].waits == pytest.approx(predicted, rel=0.2)
    assert slow["ahead"].waits < 0.1 * MAKES


def test_a_trainer_that_is_not_installed(fixtures: Any, capsys: Any) -> None:
    assert cli.main(["bench", "--train", "mace", str(fixtures / "gen3.atp")]) == 2
    assert "install mace-torch" in capsys.readouterr().err


def test_nothing_to_train_on(tmp_path: Path, capsys: Any) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(apt.Molecule(np.zeros((0, 3)), np.zeros(0, int), energy=0.0))
    with apt.ShardWriter(tmp_path / "shards", 2, 2) as shards:
        shards.write({"x": 1})
    for name, got in (("a.atp", "none with atoms"), ("shards", "a ShardDataset")):
        assert cli.main(["bench", "--train", "mace", str(tmp_path / name)]) == 1
        assert f"{name}: expected molecules to train on, got {got}" in capsys.readouterr().err


def test_wrong_usage(fixtures: Any, capsys: Any) -> None:
    path = str(fixtures / "gen3.atp")
    assert cli.main(["bench", "--train", "mace", "--steps", "0", path]) == 2
    assert "--steps: expected a number from 1, got 0" in capsys.readouterr().err
    assert cli.main(["bench", "--train", "mace", "--cutoff", "-1", path]) == 2
    assert "--cutoff: expected a number from 0" in capsys.readouterr().err
