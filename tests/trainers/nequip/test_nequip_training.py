"""Training by ``nequip-train`` with these batches, next to its own data module."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from nequip.data.dataset import RandomSplitAndIndexDataset
from nequip.integrations.ase import NequIPCalculator
from nequip.model import ModelFromCheckpoint, ModelFromPackage
from nequip_cases import (
    EXAMPLE,
    TYPES,
    config,
    logged,
    metrics,
    model,
    our_data,
    run_command,
    statistics,
    train,
)
from omegaconf import OmegaConf
from pages import blocks_of, run_blocks
from ranks import run_ranks
from structures import CUTOFF, structures, write_atp, write_extxyz, write_misnamed

import atompack_torch as apt
from atompack_torch.trainers import nequip

N, BATCH = 40, 4
N_VAL = 9
STOP = 3  # steps before a checkpoint from the middle of an epoch
MSE = "nequip.train.MeanSquaredError"
OUR_MSE = "atompack_torch.trainers.nequip.MeanSquaredError"
MAE = "nequip.train.MeanAbsoluteError"
EFS = {"total_energy": 1.0, "forces": 1.0, "stress": 1.0}


def write_data(folder: Path, **options: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_atp(folder / "train.atp", structures(N, **options))
    write_atp(folder / "val.atp", structures(N_VAL, seed=1))


def stock_data(folder: Path) -> dict[str, Any]:
    """Section ``data`` with NequIP's own data module."""
    kinds = [
        {"_target_": "ChemicalSpeciesToAtomTypeMapper", "model_type_names": list(TYPES)},
        {"_target_": "NeighborListTransform", "r_max": CUTOFF},
        {"_target_": "AddNaNStressTransform"},
    ]
    for kind in kinds:
        kind["_target_"] = f"nequip.data.transforms.{kind['_target_']}"
    return {
        "_target_": "nequip.data.datamodule.ASEDataModule",
        "seed": 1,
        "train_file_path": str(folder / "train.extxyz"),
        "val_file_path": [str(folder / "val.extxyz")],
        "transforms": kinds,
        **{f"{name}_dataloader": {"batch_size": BATCH} for name in ("train", "val")},
        "stats_manager": statistics(),
    }


@pytest.mark.parametrize(("dtype", "rel"), [("float32", 1e-4), ("float64", 1e-6)])
def test_the_same_losses(tmp_path: Path, dtype: str, rel: float) -> None:
    """20 steps and two validations, with statistics of the data in the model."""
    write_extxyz(tmp_path / "train.extxyz", structures(N))
    write_extxyz(tmp_path / "val.extxyz", structures(N_VAL, seed=1))
    files = {name: f"../{name}.extxyz" for name in ("train", "val")}
    found = {}
    for name, data in {
        "stock": stock_data(tmp_path),
        "ours": our_data(**files, batch_size=BATCH, shuffle=False),
    }.items():
        settings = config(data, training_module__model__model_dtype=dtype)
        train(tmp_path / name, settings)
        found[name] = logged(tmp_path / name), logged(tmp_path / name, "val0_epoch/weighted_sum")
    losses, validations = found["ours"]
    assert losses == pytest.approx(found["stock"][0], rel=rel)
    assert validations == pytest.approx(found["stock"][1], rel=rel)
    assert (len(set(losses)), len(validations)) == (20, 2)


def test_from_memory(tmp_path: Path) -> None:
    """The same losses, from edges that are searched once."""
    write_data(tmp_path)
    files = {"train": f"{tmp_path}/train.atp", "val": f"{tmp_path}/val.atp"}
    found = {}
    for resident in (False, True):
        data = our_data(**files, batch_size=BATCH, seed=3, resident=resident)
        settings = config(data, training_module__model__model_dtype="float64")
        folder = tmp_path / f"{resident}"
        train(folder, settings)
        found[resident] = logged(folder), logged(folder, "val0_epoch/weighted_sum")
    assert found[True] == found[False]
    assert len(found[True][0]) == 2 * N // BATCH
    options = {**data, "stats_manager": None}
    options.pop("_target_")
    module = nequip.DataModule(**options)
    module.setup("fit")
    epochs = [module.train_dataloader() for _ in range(2)]
    assert isinstance(epochs[0].dataset, apt.ResidentDataset)
    assert epochs[0].dataset is epochs[1].dataset


def test_the_example(tmp_path: Path) -> None:
    """The file as it is, in a folder with data."""
    write_data(tmp_path)
    printed = train(tmp_path, OmegaConf.load(EXAMPLE))
    assert "forces_rms" in printed
    assert "Found 1 training dataset(s), 1 validation dataset(s), 0 test" in printed
    assert all(map(math.isfinite, logged(tmp_path)))


def test_what_comes_after_training(tmp_path: Path) -> None:
    """A checkpoint is packaged and compiled, and a calculator predicts what the model does."""
    write_data(tmp_path)
    settings = OmegaConf.load(EXAMPLE)
    settings.trainer.max_epochs = 1
    settings.training_module.model.update(num_layers=1, l_max=0, num_features=4)  # compiled soon
    train(tmp_path, settings)
    checkpoint, package = str(tmp_path / "out" / "last.ckpt"), str(tmp_path / "a.nequip.zip")
    run_command(tmp_path, "nequip-package", "build", checkpoint, package)
    options = ("--mode", "aotinductor", "--device", "cpu", "--target", "ase")
    run_command(tmp_path, "nequip-compile", checkpoint, "a.nequip.pt2", *options)
    atoms = structures(1)[0]
    (batch,) = nequip.loader(write_atp(tmp_path / "one.atp", [atoms]), TYPES, CUTOFF, batch_size=1)
    atoms.calc = NequIPCalculator.from_compiled_model(tmp_path / "a.nequip.pt2", device="cpu")
    for read, path in ((ModelFromCheckpoint, checkpoint), (ModelFromPackage, package)):
        expected = float(read(path)["sole_model"](dict(batch))["total_energy"])
        assert atoms.get_potential_energy() == pytest.approx(expected, rel=1e-5)


def test_statistics_leave_missing_labels_out(tmp_path: Path) -> None:
    made = structures(N, without=("energy", "forces"))
    path = write_atp(tmp_path / "a.atp", made)
    module = nequip.DataModule(
        path, model_type_names=TYPES, cutoff=CUTOFF, batch_size=BATCH, stats_manager=statistics()
    )
    found = module.get_statistics()
    labelled = [atoms for atoms in made if "energy" in atoms.calc.results]
    means = [atoms.calc.results["energy"] / len(atoms) for atoms in labelled]
    forces = torch.cat([torch.tensor(atoms.calc.results["forces"]) for atoms in labelled])
    assert found["per_atom_energy_mean"] == pytest.approx(sum(means) / len(means))
    assert found["forces_rms"] == pytest.approx(float(forces.square().mean().sqrt()))
    with pytest.raises(ValueError, match="val: expected data"):
        module.get_statistics("val")


@pytest.mark.parametrize("kind", [MSE, OUR_MSE])
def test_missing_labels_do_not_count(tmp_path: Path, kind: str) -> None:
    """Batches without any stress need our metric."""
    write_data(tmp_path, without=("energy", "forces"))
    data = our_data(train="train.atp", val="val.atp", batch_size=1 if kind == OUR_MSE else 8)
    settings = config(
        data,
        training_module__loss=metrics(True, kind, **EFS),
        training_module__val_metrics=metrics(True, MAE, **EFS),
        trainer__max_epochs=1,
    )
    train(tmp_path, settings)
    losses = logged(tmp_path)
    assert len(losses) == (N if kind == OUR_MSE else N // 8)
    assert all(map(math.isfinite, losses))
    assert all(map(math.isfinite, logged(tmp_path, "val0_epoch/weighted_sum")))


def test_labels_that_a_loss_needs(tmp_path: Path) -> None:
    """Errors instead of NaN as loss."""
    write_data(tmp_path, without=("forces",))
    data = our_data(train="train.atp", val="val.atp", batch_size=8, shuffle=False)
    printed = train(tmp_path, config(data), check=False)
    assert "FieldError: molecules [1, 4, 7]: expected labels for 'forces'" in printed
    assert "ignore_nan" in printed
    # With `ignore_nan`, and a metric that is 0 without labels, nothing would be trained.
    write_misnamed(tmp_path / "a.xyz")
    loss = metrics(True, OUR_MSE, total_energy=1.0, forces=1.0)
    misnamed = config(data | {"train": "a.xyz"}, training_module__loss=loss)
    printed = train(tmp_path, misnamed, check=False)
    assert "no molecule has 'energy', 'forces'; the file has 'dft_forces', " in printed
    assert "key_map={'dft_energy': 'energy', 'dft_forces': 'forces'}" in printed
    data["batch_size"] = 1
    loss = metrics(True, MSE, forces=1.0)
    printed = train(tmp_path, config(data, training_module__loss=loss), check=False)
    assert "FieldError: molecules [1]: expected one with a label" in printed
    assert OUR_MSE in printed
    stress = metrics(False, MAE, stress=1.0)
    data |= {"train": "val.atp", "batch_size": 8}
    printed = train(tmp_path, config(data, training_module__val_metrics=stress), check=False)
    assert "expected labels for 'stress'" in printed


def test_splits_and_several_sets(tmp_path: Path) -> None:
    """The parts that NequIP makes, and one metric for each set."""
    write_data(tmp_path)
    split = {"path": "train.atp", "train": 0.5, "val": 0.25, "test": 0.25}
    val = ["val.atp", ["val.atp", "train.atp"]]
    data = our_data(split=split, val=val, test="val.atp", batch_size=8, seed=7)
    settings = config(data, run=["train", "test"])
    settings.training_module.test_metrics = settings.training_module.val_metrics
    train(tmp_path, settings)
    for name in ("val0", "val1", "val2", "test0", "test1"):
        assert logged(tmp_path, f"{name}_epoch/weighted_sum"), name
    options = {**data, "stats_manager": None}
    options.pop("_target_")
    options |= {"split": split | {"path": tmp_path / "train.atp"}}
    options |= {"val": [tmp_path / "val.atp"], "test": None}
    module = nequip.DataModule(**options)
    module.setup("fit")
    lengths = {name: share for name, share in split.items() if name != "path"}
    loaders = {"train": module.train_dataloader(), "val": module.val_dataloader()[1]}
    for name, loader in loaders.items():
        expected = RandomSplitAndIndexDataset(range(N), lengths, name, 7)
        energies = torch.cat([batch["total_energy"] for batch in loader]).flatten()
        stored = apt.open(tmp_path / "train.atp").batch(list(expected)).energy
        assert sorted(energies.tolist()) == sorted(stored.tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": {"path": "a", "train": 3}}, "train: expected one"),
        ({"split": {"train": 3}}, "path"),
        ({"split": {"path": "a", "fit": 3}}, "fit"),
        ({"max_atoms": 4}, "max_atoms"),
        ({"train_dataloader": {"num_workers": 4}}, "batch_size, got 'num_workers'"),
        ({"key_map": {"a": "b"}}, "register_fields"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    common = {"model_type_names": TYPES, "cutoff": CUTOFF, "batch_size": 2}
    with pytest.raises(ValueError, match=message):
        nequip.DataModule("a.atp", **common, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Runs on one and two ranks, stopped and resumed."""
    folder = tmp_path_factory.mktemp("runs")
    write_data(folder)
    data = our_data(train=f"{folder}/train.atp", val=f"{folder}/val.atp", batch_size=3, seed=3)
    found = {}
    for name, n_ranks, checkpoint in [
        ("one", 1, None),
        ("one, resumed", 1, "one"),
        ("two", 2, None),
        ("two, resumed", 2, "two"),
        ("one, resumed from two", 1, "two"),
    ]:
        own = folder / name.replace(", ", "_").replace(" ", "_")
        own.mkdir()
        found[name] = run(own, data, n_ranks, folder / f"{checkpoint}" / "step.ckpt")
    return found


def run(folder: Path, data: Any, n_ranks: int, checkpoint: Path) -> list[dict[str, Any]]:
    notes = {"_target_": "nequip_cases.Notes", "checkpoint": f"{folder}/step.ckpt"}
    settings = config(
        data,
        trainer__callbacks=[notes | {"after_step": STOP}],
        trainer__accelerator="cpu",
        trainer__devices=n_ranks,
        trainer__enable_checkpointing=False,
        trainer__num_sanity_val_steps=0,
    )
    if n_ranks > 1:
        strategy = {"_target_": "nequip.train.SimpleDDPStrategy", "process_group_backend": "gloo"}
        OmegaConf.update(settings, "trainer.strategy", strategy, force_add=True)
    if checkpoint.exists():
        settings.ckpt_path = str(checkpoint)
    OmegaConf.save(settings, folder / "config.yaml")
    script = Path(__file__).with_name("nequip_rank.py")
    found: list[dict[str, Any]] = run_ranks(folder, script, folder, n_ranks=n_ranks)
    return found


Ranks = list[dict[str, Any]]


def numbers_of(ranks: Ranks, epoch: int) -> list[int]:
    return [n for rank in ranks for batch in rank["epochs"][str(epoch)] for n in batch]


@pytest.mark.parametrize("name", ["one", "two"])
def test_each_molecule_once(runs: dict[str, Ranks], name: str) -> None:
    ranks = runs[name]
    for epoch in range(2):
        assert sorted(numbers_of(ranks, epoch)) == list(range(N))
    assert numbers_of(ranks, 0) != numbers_of(ranks, 1)
    assert len({len(rank["epochs"]["0"]) for rank in ranks}) == 1
    validated = [n for rank in ranks for batch in rank["validated"]["0"] for n in batch]
    assert sorted(validated) == sorted([*range(N_VAL)] * 2)
    assert all(rank["weights"] == ranks[0]["weights"] for rank in ranks)


@pytest.mark.parametrize("name", ["one", "two"])
def test_resuming_inside_an_epoch(runs: dict[str, Ranks], name: str) -> None:
    """The batches and losses that would have come."""
    for whole, resumed in zip(runs[name], runs[f"{name}, resumed"], strict=True):
        assert resumed["epochs"] == {"0": whole["epochs"]["0"][STOP:], "1": whole["epochs"]["1"]}
        assert resumed["losses"] == pytest.approx(whole["losses"][STOP:], rel=1e-5)


def test_resuming_on_another_number_of_ranks(runs: dict[str, Ranks]) -> None:
    before = [n for rank in runs["two"] for batch in rank["epochs"]["0"][:STOP] for n in batch]
    resumed = runs["one, resumed from two"]
    assert sorted(before + numbers_of(resumed, 0)) == list(range(N))
    assert sorted(numbers_of(resumed, 1)) == list(range(N))


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code runs, and its sections of a config train."""
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    run_blocks("nequip", model=model())
    data, loss = map(OmegaConf.create, blocks_of("nequip", "yaml"))
    settings = config(OmegaConf.to_container(data.data), training_module__loss=loss.loss)
    train(tmp_path, settings)
    assert all(map(math.isfinite, logged(tmp_path)))
