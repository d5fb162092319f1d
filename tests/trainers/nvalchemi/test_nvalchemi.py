"""Batches and training of nvalchemi, with its own classes and with ours."""

from __future__ import annotations

import os
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import nvalchemi_cases as cases
import pytest
import torch
from nvalchemi.data import Batch
from nvalchemi.training import EnergyMSELoss, ForceMSELoss
from nvalchemi.training.hooks import DDPHook
from pages import EXAMPLES, run_blocks
from processes.programs import output_of
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

import atompack_torch as apt
from atompack_torch.trainers import nvalchemi

DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)]
)
EDGES = ("neighbor_list", "neighbor_list_shifts")
STEPS = 20


def edges_of(batch: Batch) -> Counter[tuple[int, ...]]:
    """Every edge with its shift."""
    rows = torch.cat([batch.neighbor_list, batch.neighbor_list_shifts.round().long()], 1)
    return Counter(map(tuple, rows.tolist()))


def assert_same(ours: Batch, own: Batch, tolerance: float) -> None:
    """Compares all tensors of the training data; edges have a different order."""
    assert torch.equal(ours.batch_ptr, own.batch_ptr)
    for name in ("batch_idx", "num_nodes_per_graph", "num_edges_per_graph"):
        value, expected = getattr(ours, name), getattr(own, name)
        assert value.dtype == expected.dtype, name
        assert torch.equal(value, expected), name
    assert edges_of(ours) == edges_of(own)
    for level, names in ours.keys.items():
        for name in names - {"molecule_number", *EDGES}:
            assert name in own.keys[level]
            value, expected = ours[name], own[name]
            assert value.dtype == expected.dtype, name
            assert value.is_contiguous(), name
            torch.testing.assert_close(value, expected, atol=tolerance, rtol=tolerance)


@DTYPES
def test_batches_and_predictions(tmp_path: Path, dtype: torch.dtype, tolerance: float) -> None:
    made = structures(12, periodic=True)
    path = write_atp(tmp_path / "made.atp", made)
    net = cases.model(dtype)
    for batch in nvalchemi.loader(path, 4, cutoff=CUTOFF, dtype=dtype):
        own = cases.own_batch([made[n] for n in batch.molecule_number], dtype)
        assert_same(batch, own, tolerance)
        expected, predicted = net(own), net(batch)
        for name in ("energy", "forces"):
            torch.testing.assert_close(
                predicted[name], expected[name], atol=tolerance, rtol=tolerance
            )
        for part, other in zip(batch.to_data_list(), own.to_data_list(), strict=True):
            assert torch.equal(part.energy, other.energy)
            assert part.neighbor_list.max() < part.num_nodes
        assert_same(batch.clone(), own, tolerance)


@DTYPES
def test_losses_are_those_of_its_batches(
    tmp_path: Path, dtype: torch.dtype, tolerance: float
) -> None:
    made = structures(3 * STEPS, periodic=True)
    loader = nvalchemi.loader(write_atp(tmp_path / "made.atp", made), 3, dtype=dtype)
    numbers = [batch.molecule_number.tolist() for batch in loader]
    own = [cases.own_batch([made[n] for n in of_batch], dtype) for of_batch in numbers]
    expected = cases.losses_of(own, dtype, num_epochs=1)
    losses = cases.losses_of(loader, dtype, num_epochs=1)
    assert len(losses) == STEPS
    np.testing.assert_allclose(losses, expected, rtol=tolerance)


def test_resumes_inside_an_epoch(tmp_path: Path) -> None:
    path, dtype = write_atp(tmp_path / "made.atp", structures(24)), torch.float64
    expected = cases.losses_of(nvalchemi.loader(path, 3, dtype=dtype), dtype, num_epochs=2)
    first, second = cases.Record(), cases.Record()
    begun = cases.strategy(dtype, first, num_steps=11)
    begun.run(nvalchemi.loader(path, 3, dtype=dtype))
    state = {name: begun.models[name].state_dict() for name in begun.models}
    resumed = cases.strategy(
        dtype,
        second,
        num_steps=16,
        step_count=11,
        batch_count=11,
        epoch_count=1,
        epoch_step_count=3,
    )
    for name, of_model in state.items():
        resumed.models[name].load_state_dict(of_model)
    resumed.run(nvalchemi.loader(path, 3, dtype=dtype))
    assert len(first.losses) == 11
    np.testing.assert_allclose(first.losses, expected[:11], rtol=1e-12)
    np.testing.assert_allclose(second.losses[0], expected[11], rtol=1e-12)  # without Adam's moments
    assert len(second.losses) == 5


def test_the_rest_of_an_epoch_is_what_would_have_come(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", structures(20))
    loader = nvalchemi.loader(path, 3)
    epochs = []
    for epoch in range(2):
        loader.batch_sampler.set_epoch(epoch)
        epochs.append([batch.molecule_number.tolist() for batch in loader])
    assert epochs[0] != epochs[1]
    loader.set_epoch_step(4)
    assert [batch.molecule_number.tolist() for batch in loader] == epochs[1][4:]
    assert [batch.molecule_number.tolist() for batch in loader] == epochs[1]


def test_what_is_drawn_follows_the_epoch_of_the_trainer(tmp_path: Path) -> None:
    paths = [
        write_atp(tmp_path / f"{seed}.atp", structures(12, seed=seed, periodic=False))
        for seed in (0, 1)
    ]
    moved = apt.AtpDataset(paths[0], augment=apt.Augment(rotate="proper"))
    mixed = apt.MixtureDataset([apt.AtpDataset(path) for path in paths], weights=[1, 2])
    for dataset in (moved, mixed):
        loader = nvalchemi.loader(dataset, max_atoms=20, dtype=torch.float64)
        for epoch in (4, 1, 1):
            loader.batch_sampler.set_epoch(epoch)
            planned, batches = list(loader.batch_sampler), list(loader)
            expected = pickle.loads(pickle.dumps(dataset))
            expected.set_epoch(epoch)
            for numbers, batch in zip(planned, batches, strict=True):
                assert len(batch.positions) <= 20
                assert torch.equal(batch.positions, expected.batch(numbers).positions)


def test_ranks_share_every_epoch(tmp_path: Path) -> None:
    count = 25
    path = write_atp(tmp_path / "made.atp", structures(count))
    script = Path(__file__).with_name("nvalchemi_rank.py")
    results = run_ranks(tmp_path, script, path)
    for epoch in range(2):
        assert len(results[0][epoch]) == len(results[1][epoch])
        molecules = [n for result in results for batch in result[epoch] for n in batch]
        assert sorted(molecules) == list(range(count))
    assert results[0][0] != results[0][1]


@pytest.mark.parametrize("when", ["early", "late"])
def test_its_hook_trains_on_two_ranks(tmp_path: Path, when: str) -> None:
    """Even if the hook joins the ranks after the loader was made."""
    count = 25
    path = write_atp(tmp_path / "made.atp", structures(count))
    ranks = run_ddp(tmp_path, path, when, "plain")
    n_steps = {len(rank["losses"]) for rank in ranks}
    assert n_steps == {10}
    for first in (0, 5):
        steps = [step for rank in ranks for step in rank["molecules"][first : first + 5]]
        assert sorted(number for step in steps for number in step) == list(range(count))
    assert ranks[0]["molecules"][:5] != ranks[0]["molecules"][5:]
    assert np.isfinite(ranks[0]["losses"]).all()
    assert ranks[0]["losses"] != ranks[1]["losses"]
    assert ranks[0]["weights"] == ranks[1]["weights"]
    assert ranks[0]["weights"] != ranks[0]["before"]


def test_its_demo_model_differs_between_ranks(tmp_path: Path) -> None:
    """Its embedding renormalizes the rows that a batch uses: the elements of this rank only."""
    path = write_atp(tmp_path / "made.atp", structures(25))
    first, second = (rank["weights"] for rank in run_ddp(tmp_path, path, "early", "stock"))
    differing = [name for name, values in first.items() if values != second[name]]
    assert differing == [name for name in first if name.endswith("embedding.weight")][:1]


def run_ddp(folder: Path, *arguments: str | Path) -> list[Any]:
    return run_ranks(folder, Path(__file__).with_name("nvalchemi_ddp_rank.py"), *arguments)


def test_its_hook_keeps_the_loader(tmp_path: Path) -> None:
    loader = nvalchemi.loader(write_atp(tmp_path / "made.atp", structures(4)), 2)
    assert DDPHook().prepare_dataloader(loader) is loader


def test_missing_labels_have_no_weight(tmp_path: Path) -> None:
    made = structures(9, without=("forces", "energy"))
    path, dtype = write_atp(tmp_path / "made.atp", made), torch.float64
    batch = next(iter(nvalchemi.loader(path, 9, dtype=dtype, shuffle=False)))
    assert batch.energy.isnan().sum() == 3
    assert batch.stress.isnan().any()
    net = cases.model(dtype)
    present = batch.index_select((~batch.energy.isnan().flatten()).nonzero().flatten())
    losses = []
    for of_batch in (batch, present):
        predicted = net(of_batch)
        energy = EnergyMSELoss(ignore_nonfinite=True)(predicted["energy"], of_batch.energy)
        forces = ForceMSELoss(ignore_nonfinite=True)(
            predicted["forces"],
            of_batch.forces,
            batch_idx=of_batch.batch_idx,
            num_graphs=of_batch.num_graphs,
            num_nodes_per_graph=of_batch.num_nodes_per_graph,
        )
        losses.append(torch.stack([energy, forces]))
    assert losses[0].isfinite().all()
    torch.testing.assert_close(losses[0][0], losses[1][0])
    assert np.isfinite(
        cases.losses_of(nvalchemi.loader(path, 3, dtype=dtype), dtype, num_epochs=2)
    ).all()


def test_agree_with_the_preset(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", structures(8))
    molecules = apt.open(path, neighbors=apt.NeighborList(CUTOFF)).batch(range(8))
    preset = molecules.to_dict("nvalchemi")
    batch = nvalchemi.batch(molecules, dtype=torch.float64)
    for name in ("positions", "atomic_numbers", "cell", "pbc", "energy", "forces", *EDGES):
        assert torch.equal(batch[name], preset[name]), name
        assert batch[name].dtype == preset[name].dtype, name
    assert torch.equal(batch.num_nodes_per_graph, preset["num_nodes_per_graph"].int())
    assert torch.equal(batch.stress.nan_to_num(7), preset["stress"].nan_to_num(7))


def test_references_and_properties(tmp_path: Path) -> None:
    path = tmp_path / "made.atp"
    with apt.AtpWriter(path) as writer:
        for n, atoms in enumerate(structures(3, periodic=False)):
            properties = {"charge": n - 1, "spin": 1.0, "dipole": np.full(3, 0.5 * n)}
            writer.write(
                apt.Molecule(atoms.positions, atoms.numbers, energy=-100.0, properties=properties)
            )
    references = {1: -13.6, 6: -1000.25, 8: -2000.5}
    batch = next(iter(nvalchemi.loader(path, 3, references=references, shuffle=False)))
    assert batch.charge.tolist() == [[-1.0], [0.0], [1.0]]
    assert batch.spin.tolist() == [[1.0]] * 3
    assert batch.dipole.tolist() == [[0.5 * n] * 3 for n in range(3)]
    sums = torch.zeros(3, dtype=torch.float64)
    sums.index_add_(
        0,
        batch.batch_idx.long(),
        torch.tensor([references[int(z)] for z in batch.atomic_numbers], dtype=torch.float64),
    )
    torch.testing.assert_close(batch.energy[:, 0], (-100.0 - sums).float())
    with pytest.raises(apt.FieldError, match="no reference energy"):
        list(nvalchemi.loader(path, 3, references={1: -13.6}))


def test_fields_that_are_left_out(tmp_path: Path) -> None:
    """By options of the dataset; those that its transform makes are there."""

    def add_spin(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        batch.spin = 2.0 * batch.energy
        return batch

    path = tmp_path / "made.atp"
    with apt.AtpWriter(path) as writer:
        for atoms in structures(3, periodic=True):
            made = apt.Molecule.from_ase(atoms)
            made["charge"] = 1.0
            writer.write(made)
    (batch,) = nvalchemi.loader(apt.AtpDataset(path), 3)
    assert {"charge", "stress"} <= batch.keys["system"]
    for options in ({"exclude": ["charge", "stress"]}, {"fields": ["energy", "forces"]}):
        (batch,) = nvalchemi.loader(apt.AtpDataset(path, **options), 3)
        assert batch.keys["system"].isdisjoint({"charge", "stress"})
    dataset = apt.AtpDataset(path, exclude=["charge"], transform=add_spin)
    (batch,) = nvalchemi.loader(dataset, 3, shuffle=False, dtype=torch.float64)
    assert "charge" not in batch.keys["system"]
    assert torch.equal(batch.spin, 2.0 * batch.energy)


def test_edges_are_the_nearest(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", structures(4, periodic=True))
    batch = next(iter(nvalchemi.loader(path, 4, cutoff=CUTOFF, max_neighbors=5)))
    assert batch.neighbor_list[:, 0].bincount().tolist() == [5] * batch.num_nodes


@pytest.mark.parametrize("options", [{}, {"batch_size": 2, "max_atoms": 8}])
def test_needs_one_size(tmp_path: Path, options: Any) -> None:
    path = write_atp(tmp_path / "made.atp", structures(4))
    with pytest.raises(ValueError, match="max_atoms and batch_size: expected one of them"):
        nvalchemi.loader(path, **options)


def test_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atp(Path("train.atp"), structures(4))
    record = cases.Record()
    run_blocks("nvalchemi", strategy=cases.strategy(torch.float32, record, num_epochs=1))
    assert np.isfinite(record.losses).all()


def test_example_trains(tmp_path: Path) -> None:
    path = write_extxyz(tmp_path / "train.extxyz", structures(12))
    printed = output_of(
        [sys.executable, EXAMPLES / "train_nvalchemi.py", path],
        tmp_path,
        env=environment() | {"PATH": os.environ["PATH"]},
        seconds=200,
    )
    assert "steps" in printed


def test_labels_of_other_names(tmp_path: Path) -> None:
    path = write_misnamed(tmp_path / "a.xyz")
    with pytest.raises(apt.FieldError, match=r"no molecule has 'energy' or .*'dft_energy': 'ener"):
        nvalchemi.loader(path, 2)


@pytest.mark.parametrize("suffix", [".xyz", ".atp"])
def test_key_map(tmp_path: Path, suffix: str) -> None:
    path, energies = misnamed_as(suffix, tmp_path)
    (batch,) = nvalchemi.loader(path, 4, shuffle=False, key_map=KEY_MAP)
    found = batch.energy.flatten().numpy()
    assert bool(batch.forces.isfinite().all())
    np.testing.assert_allclose(found, energies, rtol=1e-6)


@pytest.mark.parametrize("prefix", ["", "total_"])
def test_total_charge_and_spin(tmp_path: Path, prefix: str) -> None:
    made = structures(3)
    for number, atoms in enumerate(made):
        atoms.info |= {f"{prefix}charge": number - 1, f"{prefix}spin": number + 1}
    (batch,) = nvalchemi.loader(write_extxyz(tmp_path / "a.xyz", made), 3, shuffle=False)
    assert batch.charge.flatten().tolist() == [-1, 0, 1]
    assert batch.spin.flatten().tolist() == [1, 2, 3]
