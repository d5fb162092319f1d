"""The command of SevenNet on datasets of this package."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sevenn.util
import torch
import yaml
from pages import EXAMPLES
from processes.programs import output_of
from ranks import environment
from sevenn.calculator import SevenNetCalculator
from sevenn.train.graph_dataset import SevenNetGraphDataset
from structures import CUTOFF, structures, write_atp, write_extxyz

import atompack_torch as apt
from atompack_torch.trainers import sevennet
from atompack_torch.trainers.sevennet._command import _Part, _statistics

N = 12
MODEL = {
    "chemical_species": "Auto",
    "cutoff": CUTOFF,
    "channel": 4,
    "lmax": 1,
    "num_convolution_layer": 2,
    "weight_nn_hidden_neurons": [8],
    "radial_basis": {"radial_basis_name": "bessel", "bessel_basis_num": 4},
    "cutoff_function": {"cutoff_function_name": "poly_cut", "poly_cut_p_value": 6},
}
TRAIN = {
    "random_seed": 1,
    "epoch": 2,
    "per_epoch": 1,
    "optim_param": {"lr": 0.005},
    "scheduler_param": {"gamma": 0.99},
    "train_shuffle": False,
    "device": "cpu",
}
REPLACED = "atompack_torch.trainers.sevennet"
STOCK = "sevenn.main.sevenn"


def run(
    folder: Path,
    module: str,
    data: dict[str, Any],
    *,
    model: dict[str, Any] = MODEL,
    **train: Any,
) -> list[list[str]]:
    """Trains by a command; returns the rows of its learning curve."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model": model, "train": TRAIN | train, "data": {"batch_size": 4} | data}
    (folder / "input.yaml").write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", module, "input.yaml", "-s"]
    output_of(command, folder, env=environment())
    newest = max(folder.glob("lc*.csv"), key=lambda path: path.stat().st_mtime_ns)
    with newest.open() as lines:
        return list(csv.reader(lines))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    for name, seed in (("train", 0), ("valid", 1)):
        write_extxyz(folder / f"{name}.extxyz", structures(N, seed=seed))
        write_atp(folder / f"{name}.atp", structures(N, seed=seed))
    return folder


def values(rows: list[list[str]]) -> Any:
    return np.array(rows[1:], dtype=float)


def test_the_same_learning_curve(folder: Path) -> None:
    def data(suffix: str) -> dict[str, Any]:
        paths = {n: str(folder / f"{n}.{suffix}") for n in ("train", "valid")}
        return {
            "load_trainset_path": [paths["train"]],
            "load_validset_path": paths["valid"],
            "data_format_args": {"index": ":"},
        }

    stock = run(folder / "stock", STOCK, data("extxyz"))
    found = run(folder / "ours", REPLACED, data("atp"))
    assert found[0] == stock[0]
    np.testing.assert_allclose(values(found), values(stock), rtol=1e-4, atol=1e-6)
    checkpoint = torch.load(folder / "ours" / "checkpoint_best.pth", weights_only=False)
    wanted = torch.load(folder / "stock" / "checkpoint_best.pth", weights_only=False)
    assert checkpoint["config"]["chemical_species"] == wanted["config"]["chemical_species"]
    for key in ("shift", "scale", "conv_denominator"):
        expected = wanted["config"][key]
        assert checkpoint["config"][key] == pytest.approx(expected, rel=1e-5)

    continued = run(
        folder / "ours",
        REPLACED,
        data("atp"),
        epoch=3,
        **{"continue": {"checkpoint": "checkpoint_2.pth"}},
    )
    assert [row[0] for row in continued[1:]] == ["3"]
    check_what_comes_after(folder / "ours", folder)


def check_what_comes_after(run: Path, folder: Path) -> None:
    """A calculator predicts what the model does, as does inference; the model is deployed."""
    checkpoint = str(run / "checkpoint_best.pth")
    model, _ = sevenn.util.model_from_checkpoint(checkpoint)
    model.set_is_batch_data(True)
    options = {"batch_size": N, "shuffle": False}
    (batch,) = sevennet.loader(folder / "valid.atp", model.type_map, model.cutoff, **options)
    expected = model(batch).inferred_total_energy.tolist()
    atoms = structures(N, seed=1)[0]
    atoms.calc = SevenNetCalculator(checkpoint, device="cpu")
    assert atoms.get_potential_energy() == pytest.approx(expected[0], rel=1e-5)
    inferred = ("inference", checkpoint, str(folder / "valid.extxyz"), "-o", "inferred")
    for arguments in (inferred, ("get_model", checkpoint)):
        tool = Path(sys.executable).with_name("sevenn")
        subprocess.run([tool, *arguments], cwd=run, env=environment(), check=True, timeout=200)
    with (run / "inferred" / "per_graph.csv").open() as lines:
        found = [float(row["inferred_total_energy"]) for row in csv.DictReader(lines)]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert (run / "deployed_serial.pt").exists()


def test_the_example(folder: Path) -> None:
    config = yaml.safe_load((EXAMPLES / "sevennet.yaml").read_text())
    config["train"]["device"] = "cpu"
    rows = run(folder, REPLACED, config["data"], model=config["model"], **config["train"])
    assert len(rows) == 4
    assert np.isfinite(values(rows)).all()


def test_several_files_a_random_split_and_weights(folder: Path) -> None:
    paths = [{"file": str(folder / "train.extxyz")}, {"file": str(folder / "valid.extxyz")}]
    data = {
        "load_trainset_path": [{"file_list": paths, "data_weight": {"force": 2.0}}],
        "load_testset_path": str(folder / "*.atp"),
        "data_divide_ratio": 0.25,
        "shift": "elemwise_reference_energies",
        "scale": "per_atom_energy_std",
    }
    rows = run(folder / "split", REPLACED, data, use_weight=True, train_shuffle=True, epoch=1)
    assert "trainset_TotalLoss" in rows[0]
    assert "validset_TotalLoss" in rows[0]
    assert "testset_TotalLoss" in rows[0]
    assert np.isfinite(values(rows)).all()


@pytest.mark.parametrize("allowed", [False, True])
def test_missing_labels(folder: Path, tmp_path: Path, allowed: bool) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N, without=("energy",)))
    data = {
        "load_dataset_path": str(path),  # another name of the training data
        "data_format_args": {"allow_unlabeled": allowed},
    }
    if allowed:
        rows = run(tmp_path, REPLACED, data, epoch=1)
        assert np.isfinite(values(rows)).all()
    else:
        with pytest.raises(AssertionError, match="4 of 12 lack one: see allow_unlabeled"):
            run(tmp_path, REPLACED, data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"load_trainset_path": "graphs.pt"}, "a file that only sevenn reads"),
        ({"data_format_args": {"pbc": True}}, "unknown option 'pbc'"),
        ({"data_format_args": {"index": "::2"}}, "index: expected ':'"),
    ],
)
def test_what_is_refused(folder: Path, tmp_path: Path, data: dict[str, Any], message: str) -> None:
    (tmp_path / "graphs.pt").touch()
    with pytest.raises(AssertionError, match=message):
        run(tmp_path, REPLACED, {"load_trainset_path": str(folder / "train.atp")} | data)


@pytest.mark.parametrize(
    "names",
    [
        {"energy_key": "REF_energy", "force_key": "REF_forces"},
        {"key_map": {"REF_energy": "energy", "REF_forces": "forces"}},
    ],
)
def test_labels_of_other_names(folder: Path, tmp_path: Path, names: dict[str, Any]) -> None:
    made = structures(N)
    for atoms in made:
        results = atoms.calc.results
        atoms.info["REF_energy"] = results["energy"]
        atoms.arrays["REF_forces"] = results["forces"]
        atoms.calc = None
    write_extxyz(tmp_path / "a.extxyz", made)
    data = {"load_trainset_path": str(tmp_path / "a.extxyz"), "data_format_args": names}
    rows = run(tmp_path, REPLACED, data, epoch=1, is_train_stress=False)
    plain = {"load_trainset_path": str(folder / "train.atp")}
    expected = run(tmp_path / "plain", REPLACED, plain, epoch=1, is_train_stress=False)
    np.testing.assert_allclose(values(rows), values(expected), rtol=1e-5)


def test_the_same_statistics(folder: Path, tmp_path: Path) -> None:
    """Also with atoms without neighbors, which SevenNet omits of the mean."""
    made = structures(N)
    made[1].positions[0] += 50
    made[1].calc.atoms.positions[0] += 50  # the labels stay valid
    write_extxyz(tmp_path / "a.extxyz", made)
    stock = SevenNetGraphDataset(CUTOFF, str(tmp_path), str(tmp_path / "a.extxyz"))
    dataset = apt.open(write_atp(tmp_path / "a.atp", made))
    found = _statistics(_Part(dataset, {"allow_unlabeled": False}, {}), CUTOFF)
    assert sorted(found.species) == sorted(stock.species)
    assert found.statistics["natoms"] == stock.natoms
    for name in ("per_atom_energy_mean", "per_atom_energy_std", "force_rms", "sqrt_avg_num_neigh"):
        assert getattr(found, name) == pytest.approx(getattr(stock, name), rel=1e-5)
    assert found.avg_num_neigh == pytest.approx(stock.avg_num_neigh, rel=1e-6)
    expected = stock.elemwise_reference_energies
    np.testing.assert_allclose(found.elemwise_reference_energies, expected, rtol=2e-3, atol=1e-4)
    for name in ("total_energy", "force_of_atoms"):
        for key in ("mean", "std", "min", "max", "count"):
            wanted = stock.statistics[name][key]
            assert found.statistics[name][key] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
