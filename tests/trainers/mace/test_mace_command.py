"""``python -m atompack_torch.trainers.mace``: the losses of ``mace_run_train``, on any data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator
from mace.calculators import MACECalculator
from mace_cases import with_keys
from ranks import environment
from structures import structures, write_atp, write_extxyz

from atompack_torch.conversion import convert
from atompack_torch.trainers import mace

OURS, STOCK = "atompack_torch.trainers.mace", "mace.cli.run_train"
OPTIONS = {
    "name": "tiny",
    "model": "MACE",
    "r_max": "4.0",
    "num_channels": "4",
    "max_L": "0",
    "correlation": "1",
    "num_interactions": "1",
    "num_radial_basis": "4",
    "MLP_irreps": "4x0e",
    "E0s": "average",
    "batch_size": "5",
    "valid_batch_size": "5",
    "max_num_epochs": "2",
    "default_dtype": "float64",
    "device": "cpu",
    "seed": "3",
    "loss": "stress",
    "error_table": "PerAtomRMSE",
    "plot": "False",
}


def run(module: str, folder: Path, *ranks: str, **options: str) -> list[dict[str, Any]]:
    """Trains; returns what MACE notes of each step and epoch.

    Args:
        module: to run, or the path of a script.
        folder: for its files.
        *ranks: what starts it on several ranks; nothing: one process.
        **options: of MACE.
    """
    folder.mkdir()
    given = OPTIONS | {"work_dir": str(folder)} | options
    arguments = [word for name, value in given.items() for word in (f"--{name}", value)]
    if ranks:
        arguments += ["--distributed", "--launcher", "torchrun"]
    done = subprocess.run(
        [sys.executable, *ranks, *([] if module.endswith(".py") else ["-m"]), module, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (notes,) = (folder / "results").glob("*_train.txt")
    (folder / "output").write_text(done.stdout + done.stderr)
    return [json.loads(line) for line in notes.read_text().splitlines()]


def losses(notes: list[dict[str, Any]]) -> list[float]:
    return [note["loss"] for note in notes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_extxyz(folder / "train.xyz", with_keys(structures(23)))
    write_extxyz(folder / "test.xyz", with_keys(structures(6, seed=5)))
    convert(folder / "train.xyz", folder / "train.atp")
    convert(folder / "test.xyz", folder / "test.atp")
    return folder


@pytest.fixture(scope="module")
def stock(folder: Path) -> list[dict[str, Any]]:
    """Losses of ``mace_run_train`` itself."""
    files = {"train_file": str(folder / "train.xyz"), "test_file": str(folder / "test.xyz")}
    return run(STOCK, folder / "stock", **files, valid_fraction="0.2")


@pytest.mark.parametrize("suffix", ["atp", "xyz"])
def test_losses_and_tables(folder: Path, stock: list[dict[str, Any]], suffix: str) -> None:
    """Statistics, reference energies, the split, batches and metrics are those of MACE."""
    files = {name: str(folder / f"{name}.{suffix}") for name in ("train", "test")}
    files = {f"{name}_file": path for name, path in files.items()}
    notes = run(OURS, folder / suffix, **files, valid_fraction="0.2")
    assert len(notes) == len(stock) > 6
    np.testing.assert_allclose(losses(notes), losses(stock), rtol=1e-9)
    tables = [
        [line for line in (folder / name / "output").read_text().splitlines() if "| " in line]
        for name in (suffix, "stock")
    ]
    assert len(tables[0]) > 3
    assert tables[0] == tables[1]


def test_labels_of_this_package(folder: Path, stock: list[dict[str, Any]]) -> None:
    """``.atp`` has energy, forces and stress without MACE's keys; positions of the text differ."""
    train = write_atp(folder / "own.atp", structures(23))
    notes = run(OURS, folder / "own", train_file=str(train), valid_fraction="0.2")
    np.testing.assert_allclose(losses(notes), losses(stock), rtol=1e-4)
    output = (folder / "own" / "output").read_text()
    assert "energy from 'energy'" in output
    assert f"Training set {train} [energy: 23, stress: 12, forces: 23]" in output

    check_what_comes_after(folder, folder / "own" / "tiny.model")


def check_what_comes_after(folder: Path, path: Path) -> None:
    """A calculator predicts what the model does, as do evaluation and export for LAMMPS."""
    model = torch.load(path, weights_only=False).double()
    options = {"batch_size": 23, "shuffle": False, "dtype": torch.float64}
    (batch,) = mace.loader(folder / "own.atp", model.atomic_numbers, model.r_max, **options)
    expected = model(batch.to_dict())["energy"].tolist()
    made = structures(23)
    made[0].calc = MACECalculator(str(path), device="cpu", default_dtype="float64")
    assert made[0].get_potential_energy() == pytest.approx(expected[0], rel=1e-6)
    arguments = {"configs": folder / "train.xyz", "model": path, "output": folder / "made.xyz"}
    words = [str(word) for pair in arguments.items() for word in (f"--{pair[0]}", pair[1])]
    for name, *given in (
        ("mace_eval_configs", *words, "--default_dtype", "float64"),
        ("mace_create_lammps_model", str(path)),
    ):
        tool = Path(sys.executable).with_name(name)
        subprocess.run([tool, *given], cwd=folder, env=environment(), check=True, timeout=200)
    found = [atoms.info["MACE_energy"] for atoms in ase.io.read(folder / "made.xyz", ":")]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert list(path.parent.glob("tiny.model-lammps*.pt"))


def test_isolated_atoms(folder: Path) -> None:
    """They are the reference energies, and not trained on."""
    made = with_keys(structures(12))
    for symbol, energy in (("H", -1.0), ("C", -2.0), ("O", -3.0), ("Al", -4.0), ("Cu", -5.0)):
        atom = ase.Atoms(symbol, [[0, 0, 0]], info={"config_type": "IsolatedAtom"})
        atom.info["REF_energy"] = energy
        made.append(atom)
    path = str(write_extxyz(folder / "atoms.xyz", made))
    options = {"train_file": path, "valid_fraction": "0.2", "E0s": "None"}
    options.pop("E0s")
    expected = run(STOCK, folder / "atoms_stock", **options)
    found = run(OURS, folder / "atoms", **options)
    np.testing.assert_allclose(losses(found), losses(expected), rtol=1e-9)
    assert "29: -5.0" in (folder / "atoms" / "output").read_text()


def test_two_heads(folder: Path) -> None:
    """Of several files, of which one is MACE's, with a validation file and a split."""
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        write_extxyz(folder / f"{name}.xyz", with_keys(structures(9, seed=seed)))
        convert(folder / f"{name}.xyz", folder / f"{name}.atp", mode="w")

    def heads(suffix: str) -> str:
        first = [str(folder / f"{name}.{suffix}") for name in "ab"]
        second = str(folder / f"c.{suffix}")
        return repr(
            {
                "dft": {"train_file": first, "valid_file": second, "E0s": "average"},
                "cc": {"train_file": second, "valid_fraction": 0.3, "E0s": "average"},
            }
        )

    expected = run(STOCK, folder / "heads_stock", heads=heads("xyz"))
    found = run(OURS, folder / "heads", heads=heads("atp"))
    np.testing.assert_allclose(losses(found), losses(expected), rtol=1e-8)


@pytest.mark.parametrize("pseudolabels", ["False", "True"])
def test_replay_fine_tuning(folder: Path, stock: list[dict[str, Any]], pseudolabels: str) -> None:
    """Two heads from a foundation model and its data, with labels of the model as well."""
    assert stock
    options = {
        "foundation_model": str(folder / "stock" / "tiny.model"),
        "multiheads_finetuning": "True",
        "E0s": repr(dict.fromkeys((1, 6, 8, 13, 29), -4.0)),
        "valid_fraction": "0.3",
        "pseudolabel_replay": pseudolabels,
        "max_num_epochs": "1",
    }

    def files(suffix: str) -> dict[str, str]:
        return {
            "train_file": str(folder / f"test.{suffix}"),
            "pt_train_file": str(folder / f"train.{suffix}"),
        }

    name = f"replay{pseudolabels}"
    expected = run(STOCK, folder / f"{name}_stock", **options, **files("xyz"))
    found = run(OURS, folder / name, **options, **files("atp"))
    np.testing.assert_allclose(losses(found), losses(expected), rtol=1e-8)


def test_files_without_labels(folder: Path) -> None:
    atoms = ase.Atoms("H2", [[0, 0, 0], [0, 0, 0.8]])
    atoms.calc = SinglePointCalculator(atoms)
    path = write_atp(folder / "bare.atp", [atoms] * 4)
    with pytest.raises(
        AssertionError, match=r"bare.atp: no molecule has 'REF_energy' or 'energy', "
    ):
        run(OURS, folder / "bare", train_file=str(path), valid_fraction="0.5")


def test_two_ranks_by_torchrun(tmp_path: Path, folder: Path) -> None:
    """Its own DistributedDataParallel, on the CPU."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
    stock_rank = str(Path(__file__).with_name("stock_rank.py"))
    found = {}
    for module, suffix in ((OURS, "atp"), (stock_rank, "xyz")):
        found[suffix] = run(
            module,
            tmp_path / suffix,
            *torchrun,
            train_file=str(folder / f"train.{suffix}"),
            test_file=str(folder / f"test.{suffix}"),
            valid_fraction="0.2",
        )
    ours, stock = losses(found["atp"]), losses(found["xyz"])
    np.testing.assert_allclose(ours, stock, rtol=1e-9)
