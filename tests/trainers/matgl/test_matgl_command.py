"""The command of MatGL on datasets of this package."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import matgl
import numpy as np
import pytest
from ase import Atoms
from matgl.ext.ase import PESCalculator
from processes.programs import output_of
from ranks import environment
from structures import CUTOFF, structures, write_atp, write_extxyz

from atompack_torch.trainers import matgl as matgl_batches

N = 20
REPLACED = "atompack_torch.trainers.matgl"
STOCK = "matgl.cli"
MODEL = '{"units": 8, "nblocks": 1, "num_rbf": 4}'


def run(folder: Path, module: str, *arguments: str | Path) -> str:
    """Runs a command in a folder; returns what it printed."""
    start = f"import runpy; runpy.run_module('{module}', run_name='__main__')"
    if module == STOCK:
        start = "import sys, matgl.cli; sys.exit(matgl.cli.main())"
    seeded = f"import torch; torch.manual_seed(0); {start}"  # of the weights, which mgl does not
    command = [sys.executable, "-c", seeded, *arguments]
    return output_of(command, folder, env=environment())


def train(folder: Path, module: str, data: Path, *arguments: str) -> tuple[dict[str, float], str]:
    """Trains one epoch; returns the metrics of validation and test."""
    folder.mkdir(exist_ok=True)
    fixed = ["--cutoff", str(CUTOFF), "--epochs", "1", "--batch-size", "16", "--log-dir", "logs"]
    fixed += ["--accelerator", "cpu", "--devices", "1", "--model", "TensorNet", "-o", "model"]
    fixed += ["--model-kwargs", MODEL]
    printed = run(folder, module, "train", "-i", data, *fixed, *arguments)
    newest = max(folder.glob("logs/**/metrics.csv"), key=lambda path: path.stat().st_mtime_ns)
    found = {}
    with newest.open() as lines:
        for row in csv.DictReader(lines):
            found |= {name: float(value) for name, value in row.items() if value}
    return found, printed


@pytest.fixture(scope="module")
def made() -> list[Atoms]:
    return structures(N, periodic=True)


def test_the_same_metrics(made: list[Atoms], tmp_path: Path) -> None:
    stock, _ = train(tmp_path / "stock", STOCK, write_extxyz(tmp_path / "a.extxyz", made))
    found, _ = train(tmp_path / "ours", REPLACED, write_atp(tmp_path / "a.atp", made))
    assert found.keys() == stock.keys()
    assert "test_Stress_MAE" in found
    for name, value in stock.items():
        assert found[name] == pytest.approx(value, rel=1e-3), name
    path = tmp_path / "a.atp"
    fixed = ["-i", path, "--accelerator", "cpu", "--devices", "1"]
    printed = run(tmp_path / "ours", REPLACED, "evaluate", "-m", "model", *fixed)
    assert "test_Force_MAE" in printed
    check_what_comes_after(tmp_path / "ours" / "model", path, made[0].copy())


def check_what_comes_after(folder: Path, path: Path, atoms: Atoms) -> None:
    """The saved potential is read, saved again, and a calculator predicts what it does."""
    potential = matgl.load_model(folder)
    potential.save(folder / "again")
    model = potential.model
    options = {"batch_size": 1, "shuffle": False}
    graph, lattice, state, *_ = next(
        iter(matgl_batches.loader(path, model.element_types, model.cutoff, **options))
    )
    expected = float(potential(graph, lattice, state)[0])
    for saved in (folder, folder / "again"):
        atoms.calc = PESCalculator(matgl.load_model(saved))
        assert atoms.get_potential_energy() == pytest.approx(expected, rel=1e-5)


def test_molecules_and_crystals_without_stress(tmp_path: Path) -> None:
    made = structures(N, without=("stress",))
    for atoms in made:
        atoms.calc.results.pop("stress", None)
    path = write_atp(tmp_path / "a.atp", made)
    found, _ = train(tmp_path / "run", REPLACED, path)
    assert np.isfinite([value for name, value in found.items() if "Force" in name]).all()


@pytest.mark.parametrize("option", ["--{0}-key=REF_{0}", "--key-map=REF_{0}={0}"])
def test_labels_of_other_names(made: list[Atoms], tmp_path: Path, option: str) -> None:
    renamed = structures(N, periodic=True)
    for atoms in renamed:
        atoms.info["REF_energy"] = atoms.calc.results["energy"]
        atoms.arrays["REF_forces"] = atoms.calc.results["forces"]
        atoms.info["REF_stress"] = atoms.get_stress(voigt=False)
        atoms.calc = None
    path = write_extxyz(tmp_path / "a.extxyz", renamed)
    keys = [option.format(label) for label in ("energy", "forces", "stress")]
    found, _ = train(tmp_path / "renamed", REPLACED, path, *keys)
    plain, _ = train(tmp_path / "plain", REPLACED, write_atp(tmp_path / "b.atp", made))
    for name, value in plain.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name


def test_stress_in_a_part_is_an_error(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N))
    message = re.escape("expected stress in all molecules or none, got 10 of 20")
    with pytest.raises(AssertionError, match=message):
        train(tmp_path / "run", REPLACED, path)
