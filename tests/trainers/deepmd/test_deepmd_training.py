"""Training by DeePMD-kit's own Trainer, from its systems and from our loader."""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import operators  # noqa: F401
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from deepmd.infer import DeepPot
from deepmd.pt.entrypoints.main import get_trainer
from deepmd.utils.argcheck import normalize
from pages import EXAMPLES, blocks_of, run_blocks
from processes.programs import output_of
from ranks import environment, run_ranks
from structures import structures, write_atp, write_extxyz
from test_deepmd_frames import TYPE_MAP, both

import atompack_torch as apt
from atompack_torch.trainers import deepmd

pytestmark = pytest.mark.timeout(300)
EXAMPLE = EXAMPLES / "train_deepmd.py"
OPERATORS = Path(__file__).parent / "operators.py"
STEPS = 20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_atp(tmp_path / "train.atp", structures(40, seed=2, without=["forces"]))


@pytest.fixture
def systems(path: Path) -> Path:
    apt.convert(path, "systems", target="deepmd", progress=False)
    return path.parent / "systems"


def losses(systems: Path, batches: Iterator[dict[str, Any]] | None, precision: str) -> list[float]:
    """The loss of each step of a run, and checks that it ended."""
    config = runpy.run_path(str(EXAMPLE))["configuration"](systems, TYPE_MAP, STEPS)
    for part in ("descriptor", "fitting_net"):
        config["model"][part]["precision"] = precision
    trainer = get_trainer(normalize(config))
    if batches is not None:
        trainer.training_data = batches
    found: list[float] = []
    trainer.wrapper.register_forward_hook(lambda *made: found.append(made[2][1].item()))
    trainer.run()
    assert Path("lcurve.out").read_text().count("\n") >= STEPS
    return found[:STEPS]


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-6), ("float32", 1e-4)])
def test_losses_are_those_of_the_converted_systems(
    path: Path, systems: Path, precision: str, tolerance: float
) -> None:
    """Even where structures lack forces: both skip them."""
    pairs = list(both(path, systems))
    stock = losses(systems, deepmd.endless([pair[1] for pair in pairs]), precision)
    loader = deepmd.loader(path, 4, TYPE_MAP, shuffle=False)
    ours = losses(systems, deepmd.endless(loader), precision)
    assert len(ours) == STEPS
    assert np.isfinite(ours).all()
    np.testing.assert_allclose(ours, stock, rtol=tolerance)
    assert loader.epoch >= 1


def test_training_from_converted_systems_alone(systems: Path) -> None:
    assert np.isfinite(losses(systems, None, "float64")).all()


def test_the_commands_of_the_page(path: Path) -> None:
    """``dp --pt train`` from the converted systems, which ends with a model."""
    (commands,) = blocks_of("deepmd", "bash")
    (systems,) = re.findall(r'"systems": "(\w+)"', commands)
    config = runpy.run_path(str(EXAMPLE))["configuration"](Path(systems), TYPE_MAP, STEPS)
    Path("input.json").write_text(json.dumps(config))
    convert, train = (line.partition("#")[0].split() for line in commands.splitlines())
    tools = Path(sys.executable).parent
    run([sys.executable, "-m", "atompack_torch", *convert[1:]])
    run([sys.executable, OPERATORS, str(tools / train[0]), *train[1:]])
    rows = re.findall(r"^ +(\d+) +(\S+)", Path("lcurve.out").read_text(), re.MULTILINE)
    assert len(rows) == STEPS
    assert np.isfinite([float(loss) for _, loss in rows]).all()
    for arguments in (("freeze", "-o", "model.pth"), ("test", "-m", "model.pth", "-s", systems)):
        run([sys.executable, OPERATORS, str(tools / train[0]), "--pt", *arguments])
    frames = next(iter(deepmd.loader(path, 1, TYPE_MAP, shuffle=False)))
    coordinates, types = frames["coord"].flatten(1).numpy(), frames["atype"][0].tolist()
    box = None if frames["box"] is None else frames["box"].numpy()
    energies, *_ = DeepPot("model.pth").eval(coordinates, box, types)
    model = torch.jit.load("model.pth")
    expected = model(frames["coord"], frames["atype"], frames["box"])["energy"]
    np.testing.assert_allclose(energies, expected.detach().numpy(), rtol=1e-10)


@pytest.mark.parametrize("path_of_data", ["systems", "loader"])
def test_two_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path_of_data: str) -> None:
    """Each frame once an epoch by ``dp`` from one converted system, and by our loader."""
    monkeypatch.setenv("NUM_WORKERS", "0")  # of DeePMD-kit, each of which goes through all frames
    count, batch = 16, 2
    made = structures(count, periodic=True)
    for atoms in made:
        atoms.numbers[:] = 13
        atoms.calc = SinglePointCalculator(atoms, **atoms.calc.results)
    data = write_atp(tmp_path / "train.atp", made)
    apt.convert(data, tmp_path / "systems", target="deepmd", progress=False)
    steps = count // batch  # on each of two ranks, two epochs
    config = runpy.run_path(str(EXAMPLE))["configuration"](Path("systems"), TYPE_MAP, steps)
    config["training"]["training_data"]["batch_size"] = batch
    (tmp_path / "input.json").write_text(json.dumps(config))
    script = Path(__file__).with_name("deepmd_train_rank.py")
    argument = "-" if path_of_data == "systems" else data
    ranks = run_ranks(tmp_path, script, "input.json", argument)
    of_epochs = []
    for first in (0, steps // 2):
        taken = [step for rank in ranks for step in rank["frames"][first : first + steps // 2]]
        of_epochs.append([number for step in taken for number in step])
        assert sorted(of_epochs[-1]) == list(range(count))
    if path_of_data == "loader":  # DeePMD-kit's sampler keeps its order
        assert of_epochs[0] != of_epochs[1]
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert all(len(rank["frames"]) == steps for rank in ranks)


def run(command: Sequence[str | Path]) -> None:
    output_of(command, env={**environment(), "NUM_WORKERS": "0"}, seconds=250)


@pytest.mark.parametrize("suffix", ["atp", "extxyz"])
def test_the_example_learns(path: Path, suffix: str) -> None:
    if suffix == "extxyz":
        write_extxyz(path.with_suffix(".extxyz"), structures(20, seed=2))
    run([sys.executable, OPERATORS, EXAMPLE, f"train.{suffix}", *TYPE_MAP, "--steps", "30"])
    rows = re.findall(r"^ +\d+ +(\S+)", Path("lcurve.out").read_text(), re.MULTILINE)
    first, last = (np.mean([float(row) for row in part]) for part in (rows[:5], rows[-5:]))
    assert last < first
    assert Path("model.ckpt.pt").exists()


def test_the_page(path: Path) -> None:
    """Its Python, with the trainer of a configuration."""
    apt.convert(path, "systems", target="deepmd", progress=False)
    config = runpy.run_path(str(EXAMPLE))["configuration"](Path("systems"), TYPE_MAP, STEPS)
    trainer = get_trainer(normalize(config))
    run_blocks("deepmd", trainer=trainer)
    trainer.run()
    assert Path("model.ckpt.pt").exists()
