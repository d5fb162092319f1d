"""Training by fairchem's unit and loop, with its loader and with ours."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ase
import ase.io
import fairchem_cases as cases
import numpy as np
import pytest
import torch
import torch.distributed
from fairchem.core import FAIRChemCalculator
from fairchem.core.datasets.atomic_data import atomicdata_list_to_batch
from fairchem.core.units.mlip_unit import load_predict_unit
from fairchem.core.units.mlip_unit.mlip_unit import compute_loss
from pages import EXAMPLES, run_blocks
from ranks import environment, run_ranks
from structures import (
    CUTOFF,
    KEY_MAP,
    misnamed_as,
    structures,
    write_atp,
    write_extxyz,
    write_misnamed,
)
from torchtnt.framework.fit import fit

import atompack_torch as apt
from atompack_torch.trainers import fairchem

NAMES = {label: f"a_{label}" for label in cases.LABELS}
STEPS = 20
EXAMPLE = EXAMPLES / "fairchem.yaml"


@pytest.fixture(autouse=True, scope="module")
def process_group() -> Iterator[None]:
    """The group of one rank that fairchem starts without others."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def crystals(count: int, **options: Any) -> list[ase.Atoms]:
    """Crystals with energies that float32 can hold as fairchem makes them."""
    made = structures(count, periodic=True, **options)
    for atoms in made:
        if "energy" in atoms.calc.results:
            atoms.calc.results["energy"] = float(np.float32(atoms.calc.results["energy"]))
    return made


def loader_of(path: Path, tasks: Any, **options: Any) -> fairchem.Loader:
    """Loader of crystals, with edges."""
    return fairchem.loader(
        path, 3, task="a", tasks=tasks, labels=NAMES, cutoff=CUTOFF, flat_stress=True, **options
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-6)])
def test_losses_are_those_of_its_loader(tmp_path: Path, dtype: str, tolerance: float) -> None:
    made = crystals(3 * STEPS // 2)
    sids = {"sid": [str(n) for n in range(len(made))]}
    tasks = cases.tasks({"a": cases.LABELS}, dtype)
    losses = []
    for kind in ("ase_db", cases.OURS):
        path = cases.write_aselmdb(tmp_path / f"{kind}.aselmdb", made, **sids)
        source = cases.source("a", path, kind, a2g_args={"target_dtype": dtype})
        data_set = cases.concatenated({"a": source})
        if kind == cases.OURS:
            collate = cases.mt_collater_adapter(tasks)
            loader: Any = fairchem.Loader(data_set, cases.sampler, collate)
        else:
            loader = cases.stock_loader(data_set, tasks)
        unit = cases.unit(cases.model(["a"], getattr(torch, dtype)), tasks)
        losses.append(cases.losses_of(unit, loader, max_epochs=None, max_steps=STEPS))
    assert len(losses[0]) == STEPS
    np.testing.assert_allclose(losses[1], losses[0], rtol=tolerance)


def test_evaluation_knows_the_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tasks = cases.tasks({"a": cases.LABELS})
    path = write_atp(tmp_path / "made.atp", crystals(6))
    unit = cases.unit(cases.model(["a"]), tasks)
    evaluated = loader_of(path, tasks, split="val", shuffle=False)
    with caplog.at_level("INFO"):
        fit(unit, loader_of(path, tasks), evaluated, max_epochs=1)
    found = dict(re.findall(r"val/a\.val,(\w+),mae: (\S+)", caplog.text))
    assert found.keys() == {"a_energy", "a_forces", "a_stress"}
    assert all(float(value) > 0 for value in found.values())


def test_resumes_inside_an_epoch(tmp_path: Path) -> None:
    tasks = cases.tasks({"a": cases.LABELS})
    path = write_atp(tmp_path / "made.atp", crystals(24))
    whole = cases.unit(cases.model(["a"]), tasks, ema_decay=None)
    expected = cases.losses_of(whole, loader_of(path, tasks), max_epochs=2)
    first = cases.unit(cases.model(["a"]), tasks, ema_decay=None)
    losses = cases.losses_of(first, loader_of(path, tasks), max_epochs=None, max_steps=11)
    # The unit counts an epoch when max_steps ends it: the checkpoint is that of a step within it.
    (
        first.train_progress._num_epochs_completed,
        first.train_progress._num_steps_completed_in_epoch,
    ) = 1, 3
    state = first.state_dict()
    second = cases.unit(cases.model(["a"]), tasks, ema_decay=None)
    second.load_scheduler(8)
    second.load_state_dict(state)
    losses += cases.losses_of(second, loader_of(path, tasks), max_epochs=2)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"shuffle": False}])
def test_the_rest_of_an_epoch_is_what_would_have_come(tmp_path: Path, options: Any) -> None:
    path = write_atp(tmp_path / "made.atp", crystals(20))
    whole, part = loader_of(path, (), **options), loader_of(path, (), **options)
    epochs = []
    for epoch in range(2):
        whole.batch_sampler.set_epoch_and_start_iteration(epoch, 0)
        epochs.append([data.sid for data in whole])
    assert (epochs[0] == epochs[1]) == bool(options)
    part.batch_sampler.set_epoch_and_start_iteration(1, 3)
    assert [data.sid for data in part] == epochs[1][3:]
    part.batch_sampler.set_epoch_and_start_iteration(0, 0)
    assert [data.sid for data in part] == epochs[0]


def test_what_is_drawn_follows_the_epoch_of_the_trainer(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", structures(12, periodic=False))
    dataset = apt.AtpDataset(path, augment=apt.Augment(rotate="proper"))
    loader = fairchem.loader(dataset, 5, task="omol", dtype=torch.float64)
    for epoch, first in ((4, 0), (1, 1), (1, 0)):
        loader.batch_sampler.set_epoch_and_start_iteration(epoch, first)
        expected = apt.AtpDataset(path, augment=apt.Augment(rotate="proper"))
        expected.set_epoch(epoch)
        for data in loader:
            wanted = expected.batch(data.molecule_number).positions
            torch.testing.assert_close(data.pos, wanted)


def test_ranks_share_every_epoch(tmp_path: Path) -> None:
    count = 25
    path = write_atp(tmp_path / "made.atp", crystals(count))
    script = Path(__file__).with_name("fairchem_rank.py")
    results = run_ranks(tmp_path, script, path, "2")
    epochs = [[result["epochs"][epoch] for result in results] for epoch in range(2)]
    for ranks in epochs:
        assert len(ranks[0]) == len(ranks[1])
        molecules = [n for batches in ranks for batch in batches for n in batch]
        assert sorted(molecules) == list(range(count))
    assert epochs[0] != epochs[1]
    assert all(np.isfinite(result["losses"]).all() for result in results)


def test_missing_labels_have_no_weight(tmp_path: Path) -> None:
    tasks = cases.tasks({"a": cases.LABELS})
    path = write_atp(tmp_path / "made.atp", crystals(9, without=("forces", "stress")))
    net = cases.model(["a"])
    data = next(iter(loader_of(path, tasks, shuffle=False)))
    assert data.a_forces.isinf().any()
    loss = compute_loss(tasks, net(data), data)
    having = [part for part in data[:] if part.a_forces.isfinite().all()]
    assert 0 < len(having) < len(data)
    labelled = atomicdata_list_to_batch(having)
    expected = compute_loss(tasks, net(labelled), labelled)
    for name in ("a_forces", "a_stress"):
        torch.testing.assert_close(loss[name], expected[name])
    sum(loss.values()).backward()
    assert all(bool(p.grad.isfinite().all()) for p in net.parameters() if p.grad is not None)
    unit = cases.unit(net, tasks)
    assert np.isfinite(cases.losses_of(unit, loader_of(path, tasks), max_epochs=2)).all()


def test_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atp(Path("omol.atp"), structures(4, periodic=False))
    names = run_blocks("fairchem", model=cases.model(["omol"]))
    assert names["predictions"]["omol_energy"]["energy"].isfinite().all()


def test_example_trains(tmp_path: Path) -> None:
    made = crystals(16)
    write_extxyz(tmp_path / "train.extxyz", made[:12])
    write_extxyz(tmp_path / "val.extxyz", made[12:])
    saved = "{_target_: fairchem.core.components.callbacks.TrainCheckpointCallback, "
    changes = [
        f"job.run_dir={tmp_path}",
        f"+runner.callbacks=[{saved}checkpoint_every_n_steps: 100}}]",
    ]
    done = subprocess.run(
        [Path(sys.executable).with_name("fairchem"), "-c", EXAMPLE, *changes],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    logged = done.stdout + done.stderr
    logged += "".join(log.read_text() for log in tmp_path.rglob("*.out"))
    assert done.returncode == 0, logged[-3000:]
    assert "val/mine.val,energy,mae" in logged, logged[-3000:]
    *_, checkpoint = sorted(tmp_path.rglob("inference_ckpt.pt"))
    unit = load_predict_unit(checkpoint, inference_settings="batch", device="cpu")
    atoms = crystals(1)[0]
    path = write_atp(tmp_path / "one.atp", [atoms])
    (batch,) = fairchem.loader(path, 1, task="mine")
    atoms.calc = FAIRChemCalculator(unit)
    expected = float(unit.predict(batch)["energy"])
    assert atoms.get_potential_energy() == pytest.approx(expected, rel=1e-5)


def test_labels_of_other_names(tmp_path: Path) -> None:
    """A task without any label would train on nothing."""
    path = write_misnamed(tmp_path / "a.xyz")
    tasks = cases.tasks({"a": ("energy", "forces")})
    message = r"no molecule has 'energy', 'forces'; .*key_map=\{'dft_energy': 'energy', "
    with pytest.raises(apt.FieldError, match=message):
        loader_of(path, tasks)
    data_set = cases.concatenated({"a": cases.source("a", path)})
    with pytest.raises(apt.FieldError, match=message):
        fairchem.Loader(data_set, cases.sampler, cases.mt_collater_adapter(tasks))


@pytest.mark.parametrize("suffix", [".xyz", ".atp"])
def test_key_map(tmp_path: Path, suffix: str) -> None:
    path, energies = misnamed_as(suffix, tmp_path)
    (batch,) = fairchem.loader(path, 4, task="mine", shuffle=False, key_map=KEY_MAP)
    found = batch.energy.numpy()
    configured = fairchem.Dataset({"src": str(path), "key_map": KEY_MAP})
    np.testing.assert_allclose([float(one.energy) for one in configured[:]], energies, rtol=1e-6)
    with pytest.raises(ValueError, match=r"dataset_configs: .*, got 'select_args'"):
        fairchem.Dataset({"src": str(path), "select_args": {}})
    np.testing.assert_allclose(found, energies, rtol=1e-6)


@pytest.mark.parametrize("prefix", ["", "total_"])
def test_charge_and_spin(tmp_path: Path, prefix: str) -> None:
    made = structures(3, periodic=False)
    for number, atoms in enumerate(made):
        atoms.info |= {f"{prefix}charge": number - 1, f"{prefix}spin": number + 1}
    path = write_extxyz(tmp_path / "a.xyz", made)
    (batch,) = fairchem.loader(path, 3, task="a", shuffle=False)
    assert (batch.charge.tolist(), batch.spin.tolist()) == ([-1, 0, 1], [1, 2, 3])
    with pytest.warns(UserWarning, match=r"charge, spin of all .* 0: add r_data_keys: \['charge',"):
        cases.concatenated({"a": cases.source("a", path, a2g_args={"r_data_keys": []})})
