"""Batches as objects of other libraries: dicts, torch-geometric, ASE and back."""

from __future__ import annotations

import ase
import ase.build
import numpy as np
import pytest
import torch
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.emt import EMT
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from reference.names import STRUCTURE

import atompack_torch as apt
from atompack_torch.batch.conversions import parts_of


@pytest.fixture
def atoms() -> list[ase.Atoms]:
    """A periodic one with all results, an open one with an energy alone, one without anything."""
    bulk = ase.build.bulk("Cu", cubic=True) * (2, 1, 1)
    bulk.rattle(0.05, seed=1)
    bulk.calc = EMT()
    bulk.info |= {"gap": 1.5, "steps": 3, "origin": "emt"}
    bulk.arrays["tag_value"] = np.linspace(0, 1, len(bulk))
    results = {
        k: getattr(bulk, f"get_{n}")()
        for k, n in (("energy", "potential_energy"), ("forces", "forces"), ("stress", "stress"))
    }
    bulk.calc = SinglePointCalculator(bulk, **results)
    water = ase.build.molecule("H2O")
    water.calc = SinglePointCalculator(water, energy=-14.2)
    return [bulk, water, ase.Atoms("He", [[0.1, 0.2, 0.3]])]


@pytest.fixture
def batch(atoms: list[ase.Atoms]) -> apt.MoleculeBatch:
    """The three of them."""
    return apt.MoleculeBatch.from_ase(atoms)


def test_from_ase(atoms: list[ase.Atoms], batch: apt.MoleculeBatch) -> None:
    assert batch.n_atoms.tolist() == [len(a) for a in atoms]
    assert batch.positions.dtype == torch.float64
    assert batch.positions.tolist() == np.concatenate([a.positions for a in atoms]).tolist()
    numbers = np.concatenate([a.numbers for a in atoms])
    assert batch.atomic_numbers.tolist() == numbers.tolist()
    assert batch.index.tolist() == [0, 1, 2]


def test_results_only_where_present(atoms: list[ase.Atoms], batch: apt.MoleculeBatch) -> None:
    assert batch.mask("energy").tolist() == [True, True, False]
    assert batch.mask("forces").tolist() == [True, False, False]
    assert batch.mask("stress").tolist() == [True, False, False]
    assert batch.energy[:2].tolist() == [a.get_potential_energy() for a in atoms[:2]]
    assert bool(batch.energy[2].isnan())
    assert batch.forces.dtype == batch.stress.dtype == torch.float64
    assert batch.forces[:8].tolist() == atoms[0].get_forces().tolist()
    assert bool(batch.forces[8:].isnan().all())
    stress = atoms[0].get_stress(voigt=False)
    assert np.allclose(batch.stress[0].numpy(), stress, rtol=0, atol=1e-15)


def test_asymmetric_stresses_are_whole() -> None:
    stress = np.arange(9.0).reshape(3, 3)
    atoms = apt.Molecule(np.zeros((1, 3)), [1], stress=stress).to_ase()
    assert np.array_equal(atoms.get_stress(voigt=False), (stress + stress.T) / 2)
    assert np.array_equal(apt.MoleculeBatch.from_ase([atoms]).stress[0], stress)


def test_a_zero_cell_means_none(atoms: list[ase.Atoms], batch: apt.MoleculeBatch) -> None:
    assert batch.mask("cell").tolist() == [True, False, False]
    assert batch.cell.dtype == torch.float64
    assert batch.cell[0].tolist() == atoms[0].cell.array.tolist()
    assert batch.cell[1:].count_nonzero() == 0
    assert batch[1].cell is None
    assert batch.pbc.dtype == torch.bool
    assert batch.pbc.tolist() == [[True] * 3, [False] * 3, [False] * 3]


def test_info_and_arrays(batch: apt.MoleculeBatch) -> None:
    assert batch["gap"][0].item() == 1.5
    assert batch["steps"].tolist() == [3, 0, 0]
    assert batch["origin"] == ["emt", None, None]
    assert batch.level("tag_value") == "atom"
    assert batch["tag_value"][:8].tolist() == np.linspace(0, 1, 8).tolist()
    assert batch.mask("tag_value").tolist() == [True, False, False]


def test_ase_and_back(atoms: list[ase.Atoms], batch: apt.MoleculeBatch) -> None:
    for got, want in zip(batch.to_ase(), atoms, strict=True):
        assert got.positions.dtype == np.float64
        assert (got.positions == want.positions).all()
        assert (got.numbers == want.numbers).all()
        assert (got.cell.array == want.cell.array).all()
        assert (got.pbc == want.pbc).all()
        if want.calc is None:
            assert got.calc is None
            continue
        assert got.get_potential_energy() == want.get_potential_energy()
        if "forces" in want.calc.results:
            assert (got.get_forces() == want.get_forces()).all()
            assert np.allclose(got.get_stress(), want.get_stress(), rtol=0, atol=1e-15)
        else:
            for result in (got.get_forces, got.get_stress):
                with pytest.raises(PropertyNotImplementedError):
                    result()
    first = batch.to_ase()[0]
    assert (first.info["gap"], first.info["origin"]) == (1.5, "emt")
    assert first.arrays["tag_value"].tolist() == np.linspace(0, 1, 8).tolist()
    assert "gap" not in batch.to_ase()[1].info
    assert "tag_value" not in batch.to_ase()[1].arrays


def test_float32_becomes_ase_float64(batch: apt.MoleculeBatch) -> None:
    narrow = batch.to("cpu", dtype=torch.float32).to_ase()[0]
    assert narrow.positions.dtype == np.float64
    assert np.allclose(narrow.positions, batch.positions[:8].numpy(), atol=1e-6)


def test_dicts_share_the_tensors(batch: apt.MoleculeBatch) -> None:
    plain, renamed = batch.to_dict(), batch.to_dict("pyg")
    assert set(plain) == set(batch.keys()) >= set(STRUCTURE)
    pyg = {"positions": "pos", "atomic_numbers": "z", "batch": "batch", "ptr": "ptr"}
    for key, value in plain.items():
        if isinstance(value, torch.Tensor):
            assert value.data_ptr() == batch[key].data_ptr(), key
            assert renamed[pyg.get(key, key)].data_ptr() == value.data_ptr(), key
    assert batch.to_dict(preset="pyg").keys() == renamed.keys()


def test_torch_geometric(batch: apt.MoleculeBatch) -> None:
    from torch_geometric.data import Batch

    data = batch.to_pyg()
    assert isinstance(data, Batch)
    assert data.num_graphs == 3
    assert data.num_nodes == 12
    assert data.pos.data_ptr() == batch.positions.data_ptr()
    assert data.z.tolist() == batch.atomic_numbers.tolist()
    assert data.batch.tolist() == batch.batch.tolist()
    assert data.ptr.tolist() == batch.ptr.tolist()
    assert data.energy.tolist()[:2] == batch.energy.tolist()[:2]
    graphs = data.to_data_list()
    for graph, molecule in zip(graphs, batch, strict=True):
        assert graph.pos.tolist() == molecule.positions.tolist()
        assert graph.z.tolist() == molecule.atomic_numbers.tolist()


def test_from_ase_of_wrong_things() -> None:
    for wrong, got in ((["H2O"], "str"), (ase.Atoms("H2"), "Atom: MoleculeBatch.from_ase takes")):
        with pytest.raises(TypeError, match=f"atoms: expected an ase.Atoms, got {got}"):
            apt.MoleculeBatch.from_ase(wrong)  # type: ignore[arg-type]


def test_from_ase_with_an_empty_molecule() -> None:
    batch = apt.MoleculeBatch.from_ase([ase.Atoms(), ase.Atoms("H")])
    assert batch.ptr.tolist() == [0, 0, 1]
    assert [len(a) for a in batch.to_ase()] == [0, 1]


def test_arrays_of_info_become_molecule_properties() -> None:
    info = {"moment": [0.5, 0.0, -1.5], "grid": np.arange(6, dtype=">i4").reshape(2, 3)}
    info |= {"last": np.arange(3.0)[::-1], "zero": np.array(7)}
    images = [ase.Atoms("H", info=info), ase.Atoms("He2", info={"last": np.arange(2.0)})]
    batch = apt.MoleculeBatch.from_ase(images)
    assert batch.level("moment") == "molecule"
    assert batch["moment"][0].tolist() == [0.5, 0.0, -1.5]
    assert batch.mask("moment").tolist() == [True, False]
    assert batch["grid"].dtype == torch.int32
    assert batch["grid"][0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [v.tolist() for v in batch["last"]] == [[2.0, 1.0, 0.0], [0.0, 1.0]]
    assert batch["zero"][0].item() == 7


def test_what_cannot_be_held_is_said() -> None:
    odd = ase.Atoms("H2", info={"nested": {"a": 1}, "none": None, "huge": 2**70, "kept": 1.5})
    odd.info |= {"ragged": [[1], [1, 2]], "words": ["a", "b"], "empty": [], 3: 1.0}
    odd.set_array("residue", np.array(["A", "B"]))
    odd.set_constraint(FixAtoms([0]))
    odd.calc = SinglePointCalculator(odd, energy=1.0)
    odd.positions += 1.0
    dropped: list[str] = []
    parts = parts_of(odd, lambda what, why: dropped.append(what))
    assert parts.properties == {"kept": 1.5}
    assert parts.labels.keys() == {"pbc"}
    assert parts.atom_properties == {}
    names = ("nested", "none", "huge", "ragged", "words", "empty")
    assert dropped == [
        *(f"info {name!r}" for name in names),
        "info 3",
        "array 'residue'",
        "constraints",
        "results of a calculator",
    ]
    batch = apt.MoleculeBatch.from_ase([odd])
    assert {*batch.keys()} == {*STRUCTURE, "pbc", "kept"}


def test_other_results_are_kept_under_their_names() -> None:
    atoms = ase.Atoms("OH", [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    results = {"free_energy": -2.0, "magmoms": [1.0, -0.5], "dipole": [0.0, 0.0, 0.3]}
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0, **results)
    batch = apt.MoleculeBatch.from_ase([atoms])
    assert batch["free_energy"].tolist() == [-2.0]
    assert batch["dipole"].tolist() == [[0.0, 0.0, 0.3]]
    assert batch.level("magmoms") == "atom"
    assert batch["magmoms"].tolist() == [1.0, -0.5]


def test_a_result_yields_to_info() -> None:
    atoms = ase.Atoms("H", info={"free_energy": 3.0})
    atoms.calc = SinglePointCalculator(atoms, free_energy=-2.0)
    dropped: list[str] = []
    parts = parts_of(atoms, lambda what, why: dropped.append(what))
    assert parts.properties == {"free_energy": 3.0}
    assert dropped == ["result 'free_energy'"]
