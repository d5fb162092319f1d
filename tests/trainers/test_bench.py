"""``atompack-torch bench --train NAME``, and that both loaders serve the same molecules."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from structures import CUTOFF, ELEMENTS, structures, write_atp

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.cli._training import TRAINERS

NAME = Path(sys.prefix).name
N = 20

if NAME not in TRAINERS:
    pytest.skip("the command has no steps of this trainer", allow_module_level=True)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write_atp(tmp_path / "a.atp", structures(N)))
    with apt.AtpWriter(path, mode="a") as writer:  # is not measured
        writer.write(apt.Molecule(torch.zeros(0, 3).double(), torch.zeros(0).long(), energy=0.0))
    command = ["bench", "--train", NAME, "--batch-size", "4", "--cutoff", str(CUTOFF), path]
    assert cli.main([*command, "--json", "--steps", "1"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["molecules"], found["measured"]) == (N, 16)
    for name in ("stock", "ours"):
        one = found[name]
        assert 0 < one["waiting"] < 1
        assert one["epoch_s"] == pytest.approx(5 * (one["waits_ms"] + one["step_ms"]) / 1000)
        waits = [row[f"{name}_waits_ms"] for row in found["faster"]]
        assert waits == sorted(waits)
        assert waits[-1] <= one["makes_ms"]
    assert cli.main([*command, "--step-ms", "50"]) == 0
    printed = capsys.readouterr().out
    assert f"20 molecules, of which 20 were measured: {NAME}" in printed
    assert "speed-up" in printed


def test_both_loaders_serve_the_same(tmp_path: Path) -> None:
    made = structures(N)
    dataset = apt.open(write_atp(tmp_path / "a.atp", made))
    steps = import_module(f"atompack_torch.trainers._steps.{NAME}")
    training = steps.Training(ELEMENTS, CUTOFF, torch.device("cpu"))
    energies = dataset.batch(range(N)).energy
    energy_of: Callable[[Any], torch.Tensor] = {
        "mace": lambda batch: batch.energy,
        "nequip": lambda batch: batch["total_energy"],
        "orb": lambda batch: batch.system_targets["energy"],
    }[NAME]
    for loader in (training.stock(made, 4, 0), training.ours(dataset, 4)):
        found = torch.cat([energy_of(batch).flatten().double() for batch in loader])
        assert len(found) == N
        torch.testing.assert_close(found.sort()[0], energies.sort()[0], rtol=1e-6, atol=1e-6)
