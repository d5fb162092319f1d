"""``mtt train`` from a converted folder: losses, ranks, restarts, missing labels."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator
from omegaconf import OmegaConf
from pages import EXAMPLES, blocks_of, run_blocks
from processes.programs import output_of
from ranks import environment, run_ranks
from structures import structures, write_atp, write_extxyz

import atompack_torch as apt

pytestmark = pytest.mark.timeout(400)
EXAMPLE = EXAMPLES / "metatrain.yaml"
RUN = Path(__file__).with_name("mtt_run.py")
N, BATCH, EPOCHS = 30, 10, 7
STEPS = N // BATCH * EPOCHS


def crystals(count: int, seed: int, without: Sequence[str] = ()) -> list[ase.Atoms]:
    """Structures whose numbers are float32 and also have few decimal digits."""
    made = structures(count, seed=seed, periodic=True, without=without)
    for atoms in made:
        atoms.set_cell(np.round(atoms.cell[:] * 256) / 256)
        atoms.positions = np.round(atoms.positions * 256) / 256
        results = {name: np.round(v * 256) / 256 for name, v in atoms.calc.results.items()}
        atoms.calc = SinglePointCalculator(atoms, **results)
    return made


def folders(folder: Path, **options: Any) -> None:
    """Writes ``train`` and ``val`` for metatrain, and the same as extended XYZ."""
    for name, made in (("train", crystals(N, 3, **options)), ("val", crystals(6, 4))):
        write_atp(folder / f"{name}.atp", made)
        apt.convert(folder / f"{name}.atp", folder / name, target="metatrain", progress=False)
        if not options:
            write_extxyz(folder / f"{name}.xyz", made)


def options_file(folder: Path, *changes: str) -> Path:
    """Writes the example with changes such as ``seed=2``."""
    options = OmegaConf.merge(OmegaConf.load(EXAMPLE), OmegaConf.from_dotlist([*changes]))
    path = folder / "options.yaml"
    OmegaConf.save(options, path)
    return path


def train(folder: Path, *arguments: str | Path) -> dict[str, Any]:
    """Runs ``mtt train``; returns losses and structures of all steps."""
    result = folder / "result.json"
    output_of([sys.executable, RUN, *arguments, result], folder, env=environment())
    found: dict[str, Any] = json.loads(result.read_text())
    assert np.isfinite(found["losses"]).all()
    return found


def test_losses_are_those_of_its_own_reader(tmp_path: Path) -> None:
    """The example, from the folder and from extended XYZ by ASE."""
    folders(tmp_path)
    ours = train(tmp_path, EXAMPLE)
    keys = [
        f"{part}_set.{key}"
        for part, name in (("training", "train"), ("validation", "val"))
        for key in (
            f"systems.read_from={name}.xyz",
            "targets.energy.key=energy",
            "targets.energy.forces.key=forces",
            "targets.energy.stress.key=stress",
        )
    ]
    stock = train(tmp_path, options_file(tmp_path, *keys))
    assert len(ours["losses"]) == STEPS > 20
    assert stock["structures"][0] == []  # nothing came from the folder
    np.testing.assert_allclose(ours["losses"], stock["losses"], rtol=1e-6)
    assert (tmp_path / "model.pt").exists()


def test_two_ranks(tmp_path: Path) -> None:
    """By its DistributedDataParallel: each structure once an epoch, and as many steps."""
    folders(tmp_path)
    ranks = run_ranks(tmp_path, RUN, options_file(tmp_path, "architecture.training.batch_size=5"))
    for rank in ranks:
        assert len(rank["losses"]) == STEPS
        assert np.isfinite(rank["losses"]).all()
        rank["structures"][0] = rank["structures"][0][-5:]  # before: statistics
    assert ranks[0]["losses"] != ranks[1]["losses"]  # each of its own batch
    assert ranks[0]["weights"] == ranks[1]["weights"]  # and the mean of the gradients
    for first in range(0, STEPS, N // BATCH):
        steps = [step for rank in ranks for step in rank["structures"][first : first + N // BATCH]]
        assert sorted(number for step in steps for number in step) == list(range(N))
    assert ranks[0]["structures"][:3] != ranks[0]["structures"][3:6]


def test_it_restarts(tmp_path: Path) -> None:
    """A checkpoint continues with the epochs that are left."""
    folders(tmp_path)
    first = train(tmp_path, options_file(tmp_path, "architecture.training.num_epochs=4"))
    rest = train(tmp_path, EXAMPLE, "--restart", "auto")
    assert len(first["losses"]) == 4 * N // BATCH
    assert len(rest["losses"]) == STEPS - len(first["losses"])
    for epoch in range(1, EPOCHS - 4):
        steps = rest["structures"][3 * epoch : 3 * epoch + 3]
        assert sorted(number for step in steps for number in step) == list(range(N))


@pytest.mark.parametrize(
    ("without", "changes"),
    [
        (["forces", "stress"], []),
        # metatrain's fit of energies of the elements becomes NaN where an energy is missing.
        (["energy"], ["architecture.training.atomic_baseline.energy=-4.0"]),
    ],
)
def test_missing_labels_have_no_weight(
    tmp_path: Path, without: list[str], changes: list[str]
) -> None:
    folders(tmp_path, without=without)
    found = train(tmp_path, options_file(tmp_path, *changes))
    assert len(found["losses"]) == STEPS
    assert max(found["losses"]) > min(found["losses"]) > 0


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands with its options, and its Python with a model that they trained."""
    monkeypatch.chdir(tmp_path)
    write_atp(tmp_path / "train.atp", crystals(N, 3))
    write_atp(tmp_path / "val.atp", crystals(6, 4))
    (commands,), (part,) = blocks_of("metatrain", "bash"), blocks_of("metatrain", "yaml")
    example = OmegaConf.load(EXAMPLE)
    options = OmegaConf.merge(example, OmegaConf.create(part))
    assert options == example
    OmegaConf.save(options, tmp_path / "metatrain.yaml")
    tools = Path(sys.executable).parent
    commands = commands.replace("atompack-torch ", f"{sys.executable} -m atompack_torch ")
    output_of(["bash", "-euc", commands.replace("mtt ", f"{tools / 'mtt'} ")], env=environment())
    from metatomic.torch import ModelOutput, load_atomistic_model
    from metatomic_ase import MetatomicCalculator

    write_extxyz(tmp_path / "test.xyz", made := crystals(3, 5))
    Path("eval.yaml").write_text("systems: test.xyz\ntargets: {energy: {key: energy}}\n")
    evaluate = [tools / "mtt", "eval", "model.pt", "eval.yaml", "-e", "extensions"]
    evaluate += ["-o", "made.xyz"]
    subprocess.run(evaluate, env=environment(), check=True, timeout=200)
    calculator = MetatomicCalculator("model.pt", extensions_directory="extensions")
    for atoms, found in zip(made, ase.io.read("made.xyz", ":"), strict=True):
        atoms.calc = calculator
        energy = found.get_potential_energy()
        assert atoms.get_potential_energy() == pytest.approx(energy, rel=1e-5)
    exported = load_atomistic_model("model.pt", extensions_directory="extensions")
    outputs = {"energy": ModelOutput(unit="eV", sample_kind="system")}
    names = run_blocks("metatrain", model=exported.module, outputs=outputs)
    assert np.isfinite(names["predictions"]["energy"].block().values.detach().numpy()).all()
