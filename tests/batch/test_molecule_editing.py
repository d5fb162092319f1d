"""Setting and removing fields of single molecules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase
import numpy as np
import pytest
import torch
from ase.calculators.singlepoint import SinglePointCalculator

import atompack_torch as apt


def water() -> apt.Molecule:
    return apt.Molecule(
        np.arange(9.0).reshape(3, 3),
        [8, 1, 1],
        energy=-1.5,
        properties={"id": 7, "x": [1.0, 2.0]},
        atom_properties={"magmom": [0.0, 1.0, 2.0]},
    )


@pytest.mark.parametrize("by", ["item", "attribute"])
def test_labels_are_set(by: str) -> None:
    molecule = water()
    for name, value in {"energy": -2, "forces": np.ones((3, 3)), "name": "water"}.items():
        if by == "item":
            molecule[name] = value
        else:
            setattr(molecule, name, value)
    assert molecule.energy.dtype == torch.float64
    assert molecule.energy.item() == -2
    assert torch.equal(molecule.forces, torch.ones(3, 3, dtype=torch.float64))
    assert molecule.name == "water"
    assert molecule.level("forces") == "atom"


def test_values_are_those_of_the_constructor() -> None:
    molecule = water()
    values: dict[str, Any] = {"a": 3, "b": 0.5, "c": True, "d": "text", "e": np.float32([[1, 2]])}
    for key, value in values.items():
        molecule[key] = value
    made = apt.Molecule(molecule.positions, molecule.atomic_numbers, properties=values)
    for key in values:
        if isinstance(made[key], str):
            assert molecule[key] == made[key]
        else:
            assert molecule[key].dtype == made[key].dtype
            assert torch.equal(molecule[key], made[key])


def test_a_batch_is_not_changed_through_its_molecules() -> None:
    batch = apt.collate([water(), water()])
    molecule = batch[1]
    molecule.energy = 5.0
    molecule.positions = torch.zeros(3, 3, dtype=torch.float64)
    molecule.delete_property("id")
    assert batch.energy.tolist() == [-1.5, -1.5]
    assert batch["id"].tolist() == [7, 7]
    assert torch.equal(batch.positions[3:], batch.positions[:3])
    joined = apt.collate([batch[0], molecule])
    assert joined.energy.tolist() == [-1.5, 5.0]
    assert joined.mask("id").tolist() == [True, False]


def test_none_removes() -> None:
    molecule = water()
    molecule.energy = None
    molecule["magmom"] = None
    molecule.forces = None  # there are none
    assert molecule.energy is None
    assert "magmom" not in molecule
    assert apt.collate([molecule, water()]).mask("energy").tolist() == [False, True]


def test_properties_of_the_atoms() -> None:
    molecule = water()
    with pytest.raises(apt.FieldError, match=r"'y': one row an atom\? use set_property"):
        molecule["y"] = [1.0, 2.0, 3.0]
    molecule.set_property("y", [1.0, 2.0, 3.0], level="atom")
    molecule.set_property("v", [1.0, 2.0, 3.0])
    assert (molecule.level("y"), molecule.level("v")) == ("atom", "molecule")
    molecule["atom_properties/w"] = torch.ones(3, 2)
    assert molecule.level("w") == "atom"
    molecule["magmom"] = [3, 4, 5]
    assert molecule.magmom.tolist() == [3, 4, 5]


def test_keys_that_mean_something_else() -> None:
    molecule = water()
    molecule.set_property("energy", 3.0)
    molecule.set_property("x", [1.0, 2.0, 3.0], level="atom")
    assert molecule.energy.item() == -1.5
    assert molecule["properties/energy"].item() == 3.0
    assert molecule["x"].tolist() == [1.0, 2.0]
    assert molecule["atom_properties/x"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(apt.FieldError, match="expected one of atom_properties/x, x"):
        molecule.delete_property("x")
    molecule.delete_property("properties/x")
    molecule.delete_property("energy")
    assert molecule.energy.item() == -1.5
    assert "properties/energy" not in molecule


def test_what_is_set_is_written(tmp_path: Path) -> None:
    molecule = water()
    molecule["kind"] = "liquid"
    molecule.set_property("charges0", [0.1, 0.2, 0.3], level="atom")
    molecule.delete_property("x")
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(molecule)
    read = apt.AtpDataset(tmp_path / "a.atp")[0]
    assert set(read.keys()) == set(molecule.keys())
    assert read.kind == "liquid"
    assert torch.equal(read.charges0, molecule.charges0)


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("forces", np.ones((2, 3)), apt.FieldError, "expected shape"),
        ("positions", np.ones((2, 3)), apt.FieldError, "expected"),
        ("positions", None, apt.FieldError, "not a tensor"),
        ("atomic_numbers", [1.0, 2.0, 3.0], apt.FieldError, "integers"),
        ("ptr", [0, 3], apt.FieldError, "belongs to the molecule"),
        ("k", object(), apt.FieldError, "not a tensor"),
        ("", 1, apt.FieldError, "expected a name"),
        (3, 1, TypeError, "expected a name"),
    ],
)
def test_what_cannot_be_set(name: Any, value: Any, error: type[Exception], text: str) -> None:
    molecule = water()
    with pytest.raises(error, match=text):
        molecule[name] = value
    assert molecule.energy.item() == -1.5


def test_edges_cannot_be_set(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(water())
    dataset = apt.AtpDataset(tmp_path / "a.atp", neighbors=apt.NeighborList(9.0))
    molecule = dataset[0]
    with pytest.raises(apt.FieldError, match="made by datasets"):
        molecule["edge_index"] = molecule.edge_index
    molecule.energy = 1.0  # next to edges
    assert torch.equal(molecule.edge_index, dataset[0].edge_index)


def test_unknown_properties_and_levels() -> None:
    molecule = water()
    with pytest.raises(KeyError, match="'nope'"):
        molecule.delete_property("nope")
    with pytest.raises(KeyError, match="'energy'"):
        molecule.delete_property("energy")  # a label
    with pytest.raises(ValueError, match="level"):
        molecule.set_property("a", 1, level="edge")  # type: ignore[arg-type]


def test_to_and_from_ase() -> None:
    atoms = ase.Atoms("H2O", np.arange(9.0).reshape(3, 3), info={"id": 3}, cell=[4, 5, 6], pbc=True)
    atoms.set_array("w", np.arange(3))
    atoms.calc = SinglePointCalculator(atoms, energy=-1.0, forces=np.ones((3, 3)))
    molecule = apt.Molecule.from_ase(atoms)
    assert (molecule.level("w"), molecule.energy.item()) == ("atom", -1.0)
    back = molecule.to_ase()
    assert np.array_equal(back.positions, atoms.positions)
    assert np.array_equal(back.arrays["w"], atoms.arrays["w"])
    assert (back.info, back.get_potential_energy()) == ({"id": 3}, -1.0)
    assert np.array_equal(back.get_forces(), np.ones((3, 3)))
    with pytest.raises(apt.FieldError, match="expected 0 to 118, the elements that ASE knows, got"):
        apt.Molecule(np.zeros((1, 3)), [200]).to_ase()
    with pytest.raises(apt.FieldError, match="name: expected a string, got 5"):
        apt.Molecule(np.zeros((1, 3)), [1], name=5)


def test_arrays_as_properties_of_the_molecule() -> None:
    atoms = ase.Atoms("H2", np.zeros((2, 3)))
    atoms.set_array("w", np.arange(2.0))
    molecule = apt.Molecule.from_ase(atoms, arrays="molecule")
    assert molecule.level("w") == "molecule"
    batch = apt.MoleculeBatch.from_ase([atoms, atoms], arrays="molecule")
    assert batch["w"].shape == (2, 2)
    with pytest.raises(ValueError, match="arrays: expected"):
        apt.Molecule.from_ase(atoms, arrays="both")  # type: ignore[arg-type]
    atoms.info["w"] = 1
    with pytest.raises(apt.FieldError, match="got it in both"):
        apt.Molecule.from_ase(atoms, arrays="molecule")
