"""The demo with MACE: it runs, and leaves a picture and a model that MACE's calculator opens."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from ase.build import bulk
from mace.calculators import MACECalculator
from processes.programs import output_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "07_train_mace.py"


def test_the_demo(tmp_path: Path) -> None:
    options = ["--molecules", "60", "--epochs", "3", "--out", tmp_path]
    printed = output_of(
        [sys.executable, "-W", "ignore::UserWarning", EXAMPLE, *options], seconds=400
    )
    errors = [float(value) for value in re.findall(r"meV/atom ([\d.]+) eV/Å", printed)]
    assert len(errors) == 3
    assert errors[-1] < errors[0]
    assert "this potential" in printed
    assert (tmp_path / "alloys_mace.png").stat().st_size > 20_000

    atoms = bulk("Cu", "fcc", a=3.7, cubic=True)
    atoms.rattle(0.1, seed=0)
    atoms.calc = MACECalculator(model_paths=str(tmp_path / "alloys.model"), device="cpu")
    before, force = atoms.get_potential_energy(), float(atoms.get_forces()[0, 0])
    atoms.positions[0, 0] += 1e-2
    slope = float(atoms.get_potential_energy() - before) / 1e-2
    assert -slope == pytest.approx(force, abs=0.1 * abs(force) + 0.05)
