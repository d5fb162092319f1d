"""Batches of MACE: the same as its own, tensor by tensor, and the same results of its models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest
import torch
from mace import data
from mace.tools import torch_geometric
from mace_cases import OUTPUTS, Z_TABLE, model, stock_loader, with_keys
from structures import CUTOFF, structures, write_atp, write_extxyz, write_misnamed

import atompack_torch as apt
from atompack_torch.trainers import mace as trainer

N = 24
EDGES = ("edge_index", "shifts", "unit_shifts")


@pytest.fixture(autouse=True, params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def sorted_edges(batch: Any) -> torch.Tensor:
    rows = torch.cat([batch.edge_index.T, batch.unit_shifts, batch.shifts], 1).double()
    order = np.lexsort(rows[:, :5].T.numpy())
    return rows[torch.from_numpy(order)]


def assert_same(ours: Any, stock: Any) -> None:
    expected, found = stock.to_dict(), ours.to_dict()
    assert found.keys() - {"index"} == expected.keys()
    tolerance = 1e-12 if stock.positions.dtype == torch.float64 else 2e-6
    for name, value in expected.items():
        if name not in EDGES and isinstance(value, torch.Tensor):
            options = {"rtol": tolerance, "atol": tolerance, "check_dtype": True}
            torch.testing.assert_close(found[name], value, **options, msg=lambda m, n=name: n + m)
    torch.testing.assert_close(sorted_edges(ours), sorted_edges(stock), rtol=0, atol=tolerance * 10)
    assert ours.num_graphs == stock.num_graphs


@pytest.mark.parametrize("without", [(), ("forces",), ("stress", "energy"), ("forces", "energy")])
def test_every_tensor(tmp_path: Path, without: tuple[str, ...]) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N, without=without))
    batches = [[*range(5)], [7, 3], [23], [*range(10, 20)]]
    stock = stock_loader(with_keys(structures(N, without=without)), batches)
    ours = trainer.loader(path, Z_TABLE, CUTOFF, batch_sampler=batches)
    edges = apt.AtpDataset(path, neighbors=apt.NeighborList(CUTOFF))
    for batch, expected, numbers in zip(ours, stock, batches, strict=True):
        assert_same(batch, expected)
        assert_same(trainer.batch(edges.batch(numbers), Z_TABLE, CUTOFF), expected)
        assert batch.index.tolist() == numbers


def test_results_of_a_model(tmp_path: Path, dtype: torch.dtype) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N))
    stock = stock_loader(with_keys(structures(N)), [[*range(N)]])[0]
    (ours,) = trainer.loader(path, Z_TABLE, CUTOFF, batch_size=N, shuffle=False)
    found, expected = (
        model()(batch.to_dict(), compute_force=True, compute_stress=OUTPUTS["stress"])
        for batch in (ours, stock)
    )
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for name in ("energy", "forces", "stress"):
        torch.testing.assert_close(found[name], expected[name], rtol=tolerance, atol=tolerance)


def test_keys_of_mace_and_of_files(tmp_path: Path) -> None:
    """Extended XYZ with MACE's keys, other keys, and the labels of this package."""
    made = with_keys(structures(6))
    for atoms in made:
        atoms.info["dft"] = 2 * atoms.info["REF_energy"]
    opened = apt.open(write_extxyz(tmp_path / "a.xyz", made))
    (plain,) = trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, shuffle=False)
    (named,) = trainer.loader(
        opened, Z_TABLE, CUTOFF, batch_size=6, shuffle=False, key_map={"dft": "energy"}
    )
    torch.testing.assert_close(named.energy, 2 * plain.energy)
    read = ase.io.read(tmp_path / "a.xyz", ":")
    assert_same(plain, stock_loader(read, [range(6)])[0])
    with pytest.raises(apt.FieldError, match=r"energy: no field 'REF_enrgy': did you mean"):
        trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, key_map={"REF_enrgy": "energy"})
    with pytest.raises(TypeError, match="head: expected an int, got 'bulk'"):
        trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, head="bulk")
    wrong: Any
    for wrong, got in ((2.0, "a dict of weights by type, got float"), ({"a": "b"}, "a number")):
        with pytest.raises(TypeError, match=f"config_type_weights: .*expected {got}"):
            trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, config_type_weights=wrong)
    with pytest.raises(ValueError, match="head: expected at least 0, got -1"):
        trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, head=-1)
    with pytest.raises(TypeError, match="z_table: expected an int, got 'Cu'"):
        trainer.loader(opened, ["Cu"], CUTOFF, batch_size=6)
    for wrong in ("train.atp", opened):
        with pytest.raises(TypeError, match=r"expected a MoleculeBatch, got .*: `loader` makes"):
            trainer.batch(wrong, Z_TABLE, CUTOFF)
    with pytest.raises(TypeError, match="expected key_map="):
        trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, keys={"energy": "dft"})
    with pytest.raises(apt.FieldError, match=r"forces: expected rows of shape \(3,\)"):
        trainer.loader(opened, Z_TABLE, CUTOFF, batch_size=6, key_map={"REF_energy": "forces"})


@pytest.mark.parametrize("dipole", ["REF_dipole", "dipole"])
def test_all_labels_weights_and_types(tmp_path: Path, dipole: str) -> None:
    rng = np.random.default_rng(0)
    made = with_keys(structures(9))
    for number, atoms in enumerate(made):
        atoms.info |= {dipole: rng.normal(size=3), "total_charge": float(number)}
        atoms.info |= {"polarizability": rng.normal(size=(3, 3)), "total_spin": 3.0}
        atoms.info |= {"REF_virials": rng.normal(size=(3, 3)), "elec_temp": 0.1}
        atoms.arrays["REF_charges"] = rng.normal(size=len(atoms))
        if number % 2:
            atoms.info |= {"config_weight": 0.5, "config_energy_weight": 3.0}
            atoms.info |= {"config_dipole_weight": 0.25}
        if number % 3:
            atoms.info["config_type"] = ("surface", "bulk")[number % 2]
    path = write_extxyz(tmp_path / "a.xyz", made)
    weights = {"surface": 10.0, "Default": 1.5}
    (ours,) = trainer.loader(
        path, Z_TABLE, CUTOFF, batch_size=9, shuffle=False, config_type_weights=weights
    )
    read = ase.io.read(path, ":")
    for atoms in read if dipole == "dipole" else ():  # which ASE reads as a result
        atoms.info[dipole] = atoms.calc.results[dipole]
    keys = data.KeySpecification.from_defaults().update(info_keys={"dipole": dipole})
    configurations = data.config_from_atoms_list(
        read, key_specification=keys, config_type_weights=weights
    )
    graphs = [
        data.AtomicData.from_config(one, z_table=Z_TABLE, cutoff=CUTOFF) for one in configurations
    ]
    assert_same(ours, next(iter(torch_geometric.dataloader.DataLoader(graphs, 9))))


def test_missing_labels_have_no_weight(tmp_path: Path) -> None:
    """MACE itself gives zeros and weight 1 where `forces_key="forces"` and some are missing."""
    path = write_atp(tmp_path / "a.atp", structures(9, without=("forces", "energy")))
    (batch,) = trainer.loader(path, Z_TABLE, CUTOFF, batch_size=9, shuffle=False)
    missing = torch.arange(9) % 3 == 1
    assert torch.equal(batch.forces_weight == 0, missing)
    assert torch.equal(batch.energy_weight == 0, missing)
    assert bool((batch.forces[missing[batch.batch]] == 0).all())
    assert not any(value.isnan().any() for value in (batch.energy, batch.forces, batch.stress))


def test_inputs_of_models_may_not_be_missing(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for number, atoms in enumerate(structures(3)):
            molecule = apt.Molecule.from_ase(atoms)
            if number < 2:
                molecule.set_property("pressure", float(number))
            writer.write(molecule)
    loader = trainer.loader(
        tmp_path / "a.atp",
        Z_TABLE,
        CUTOFF,
        batch_sampler=[[0, 1], [2]],
        key_map={"pressure": "pressure"},
    )
    batches = iter(loader)
    assert next(batches).pressure.tolist() == [0.0, 1.0]
    with pytest.raises(apt.FieldError, match=r"pressure: missing \(molecule 2"):
        next(batches)


def test_another_dtype_is_refused(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(1))
    with pytest.raises(ValueError, match=r"dtype: expected torch.float32 or torch.float64"):
        trainer.loader(path, Z_TABLE, CUTOFF, batch_size=1, dtype=torch.float16)


def test_labels_of_other_names(tmp_path: Path) -> None:
    """None at all is an error, or a warning for predictions; one of two is a warning."""
    path = write_misnamed(tmp_path / "a.xyz")
    options = {"z_table": [13, 29], "cutoff": CUTOFF, "batch_size": 4}
    names = r"no molecule has 'energy' or 'forces'.*key_map=\{'dft_energy': 'energy', "
    with pytest.raises(apt.FieldError, match=names):
        trainer.loader(path, **options)
    with pytest.warns(UserWarning, match=names):
        trainer.loader(path, **options, shuffle=False)
    with pytest.warns(UserWarning, match=r"'forces'.*: weight 0; give key_map=\{'dft_forces'"):
        (batch,) = trainer.loader(path, **options, key_map={"dft_energy": "energy"})
    assert batch.energy_weight.tolist() == [1] * 4
    assert batch.forces_weight.tolist() == [0] * 4


@pytest.mark.parametrize("prefix", ["", "total_"])
def test_total_charge_and_spin(tmp_path: Path, prefix: str) -> None:
    made = structures(3)
    for number, atoms in enumerate(made):
        atoms.info |= {f"{prefix}charge": number - 1, f"{prefix}spin": number + 1}
    options = {"z_table": Z_TABLE, "cutoff": CUTOFF, "batch_size": 3, "shuffle": False}
    for suffix, write in (("xyz", write_extxyz), ("atp", write_atp)):
        (batch,) = trainer.loader(write(tmp_path / f"a.{suffix}", made), **options)
        assert batch.total_charge.tolist() == [-1, 0, 1]
        assert batch.total_spin.tolist() == [1, 2, 3]


def test_spins_of_atoms_are_no_total_spin(tmp_path: Path) -> None:
    made = structures(3)
    for atoms in made:
        atoms.arrays["spin"] = np.zeros(len(atoms))
    path = write_atp(tmp_path / "a.atp", made)
    (batch,) = trainer.loader(path, Z_TABLE, CUTOFF, batch_size=3, shuffle=False)
    assert batch.total_spin.tolist() == [1, 1, 1]
