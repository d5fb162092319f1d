"""Statistics of atoms: the longest force, forces by element, neighbors, isolated atoms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import cli

NewPath = Callable[[], Path]
CHUNK = 2048  # of csrc/passes/sweep.h


@pytest.fixture(scope="module")
def molecules() -> list[dict[str, Any]]:
    """More than one chunk: of 0 to 8 atoms, some periodic, some without forces or energy."""
    rng = np.random.default_rng(5)
    made = []
    for i in range(CHUNK + 400):
        n = int(rng.integers(0, 9))
        molecule: dict[str, Any] = {
            "positions": rng.uniform(0, 5, (1, n, 3)).astype(np.float32),
            "atomic_numbers": rng.choice([1, 6, 8, 79], (1, n)).astype(np.uint8),
        }
        if rng.random() < 0.8:
            molecule["forces"] = rng.normal(size=(1, n, 3)).astype(np.float32)
        if rng.random() < 0.8:
            molecule["energy"] = rng.normal(size=1)
        if i % 3:
            molecule["cell"] = np.eye(3)[None] * rng.uniform(4, 9)
            molecule["pbc"] = np.array([[True, bool(i % 2), False]])
        made.append(molecule)
    return made


@pytest.fixture(scope="module")
def path(molecules: list[dict[str, Any]], new_path: NewPath) -> Path:
    """Their file."""
    made = new_path()
    with apt.AtpWriter(made, codec="lz4") as writer:
        for molecule in molecules:
            writer.write_arrays(**molecule)
    return made


def longest(molecule: dict[str, Any]) -> float:
    """Length of its longest force; -1 where there is none."""
    if "forces" not in molecule or molecule["forces"].size == 0:
        return -1.0
    return float(np.linalg.norm(molecule["forces"][0].astype(float), axis=1).max())


def test_the_molecule_with_the_longest_force(molecules: list[dict[str, Any]], path: Path) -> None:
    dataset = apt.AtpDataset(path)
    lengths = np.array([longest(m) for m in molecules])
    found = dataset.statistics()
    assert found.max_force_molecule == int(lengths.argmax())
    assert found.max_force == pytest.approx(lengths.max(), rel=1e-14)
    assert f"(molecule {found.max_force_molecule})" in repr(found)
    order = torch.from_numpy(np.random.default_rng(1).permutation(len(molecules))[:900])
    part = dataset.subset(order)
    number = part.statistics().max_force_molecule
    assert number == int(lengths[order.numpy()].argmax())
    assert number is not None
    norms = part[number]["forces"].double().norm(dim=1)
    assert float(norms.max()) == pytest.approx(part.statistics().max_force, rel=1e-14)


def test_of_equal_forces_the_first_counts(new_path: NewPath) -> None:
    made = new_path()
    with apt.AtpWriter(made) as writer:
        for force in ([math.nan, 0, 0], [0, 0, 0], [0, 3, 4], [5, 0, 0], [math.inf, 9, 9]):
            writer.write_arrays(
                positions=np.zeros((1, 1, 3)),
                atomic_numbers=np.array([[6]]),
                forces=np.array([[force]], float),
            )
    found = apt.AtpDataset(made).statistics()
    assert (found.max_force, found.max_force_molecule) == (5.0, 2)
    assert apt.AtpDataset(made).subset([0]).statistics().max_force_molecule is None
    assert apt.AtpDataset(made).subset([1]).statistics().max_force_molecule == 0
    assert apt.AtpDataset(made).subset([3, 2, 3]).statistics().max_force_molecule == 0
    # Finite components of the first and last molecule: 0, 0 and 9, 9.
    squares = 9 + 16 + 25 + 81 + 81
    assert found.elements[6].force_rms == pytest.approx(math.sqrt(squares / (2 + 9 + 2)))


def test_forces_by_element(molecules: list[dict[str, Any]], path: Path) -> None:
    components: dict[int, list[float]] = {}
    for molecule in molecules:
        if "forces" in molecule:
            for z, force in zip(molecule["atomic_numbers"][0], molecule["forces"][0], strict=True):
                components.setdefault(int(z), []).extend(force.astype(float))
    found = apt.AtpDataset(path).statistics()
    for z, count in found.elements.items():
        expected = math.sqrt(np.mean(np.square(components[z])))
        assert count.force_rms == pytest.approx(expected, rel=1e-12)
    total = sum(len(values) for values in components.values())
    assert found.forces is not None
    assert found.forces.count == total
    without = apt.AtpDataset(path, fields=["energy"]).statistics()
    assert all(count.force_rms is None for count in without.elements.values())


@pytest.mark.parametrize("cutoff", [1.5, 4.0])
def test_neighbors(molecules: list[dict[str, Any]], path: Path, cutoff: float) -> None:
    dataset = apt.AtpDataset(path)
    counts = apt.NeighborList(cutoff).count(dataset)
    found = dataset.statistics(cutoff=cutoff)
    n_atoms = sum(m["positions"].shape[1] for m in molecules)
    assert found.cutoff == cutoff
    assert found.mean_neighbors == int(counts.sum()) / n_atoms
    assert f"neighbors within {cutoff:g}" in repr(found)
    # Cell and pbc count whether or not they are asked for; molecules that are omitted do not.
    assert apt.AtpDataset(path, fields=[]).statistics(cutoff=cutoff).mean_neighbors == (
        found.mean_neighbors
    )
    dropping = apt.AtpDataset(path, fields=["forces"], missing="drop")
    kept = [i for i, m in enumerate(molecules) if "forces" in m]
    expected = int(counts[kept].sum()) / sum(molecules[i]["positions"].shape[1] for i in kept)
    assert dropping.statistics(cutoff=cutoff).mean_neighbors == expected


def test_no_neighbors_where_nobody_asks_or_nobody_is(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    assert dataset.statistics().mean_neighbors is None
    nobody = dataset.subset([]).statistics(cutoff=2.0)
    assert math.isnan(nobody.mean_neighbors or 0.0)
    assert nobody.as_dict()["mean_neighbors"] is None
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="cutoff"):
            dataset.statistics(cutoff=wrong)


def test_a_search_that_fails_names_the_molecule(new_path: NewPath) -> None:
    made = new_path()
    with apt.AtpWriter(made) as writer:
        positions = np.zeros((3, 2, 3))
        positions[1, 1, 0] = math.nan
        writer.write_arrays(positions=positions, atomic_numbers=np.ones((3, 2), np.uint8))
    with pytest.raises(apt.FieldError, match="molecule 1"):
        apt.AtpDataset(made).statistics(cutoff=2.0)
    assert apt.AtpDataset(made).statistics().n_molecules == 3


def test_isolated_atoms(new_path: NewPath) -> None:
    """Single atoms, alone or in a large box; a primitive cell of one atom is a crystal."""
    made = new_path()
    cells = {"none": None, "box": 20.0, "crystal": 2.5, "flat": 0.0}
    with apt.AtpWriter(made) as writer:
        for z, energy, cell, pbc in (
            (1, -13.6, "none", False),
            (1, -13.5, "box", True),
            (1, -99.0, "crystal", True),
            (1, -13.7, "crystal", False),
            (8, -430.0, "box", True),
            (6, -99.0, "flat", True),
            (79, math.nan, "none", False),
        ):
            length = cells[cell]
            writer.write_arrays(
                positions=np.zeros((1, 1, 3)),
                atomic_numbers=np.array([[z]]),
                energy=np.array([energy]),
                cell=None if length is None else np.eye(3)[None] * length,
                pbc=np.full((1, 3), pbc),
            )
        writer.write_arrays(
            positions=np.arange(6.0).reshape(1, 2, 3), atomic_numbers=[[1, 1]], energy=[-31.7]
        )
        writer.write_arrays(positions=np.zeros((1, 1, 3)), atomic_numbers=[[2]])  # no energy
    found = apt.AtpDataset(made).statistics()
    assert list(found.isolated_atoms) == [1, 8, 79]
    hydrogen = found.isolated_atoms[1]
    assert (hydrogen.count, hydrogen.min, hydrogen.max) == (3, -13.7, -13.5)
    assert hydrogen.mean == pytest.approx(-13.6)
    assert found.isolated_atoms[8].mean == -430.0
    assert (found.isolated_atoms[79].count, found.isolated_atoms[79].n_non_finite) == (0, 1)
    assert "isolated" in repr(found)
    assert found.as_dict()["isolated_atoms"]["79"]["mean"] is None
    # Where the potential reaches further than the box is wide, the atom is not alone.
    assert apt.AtpDataset(made).subset([1]).statistics(cutoff=21.0).isolated_atoms == {}
    assert apt.AtpDataset(made, fields=["cell"]).subset([0]).statistics().isolated_atoms == {}


def test_the_same_on_any_number_of_threads(path: Path) -> None:
    found = [
        apt.AtpDataset(path, num_threads=n).statistics(cutoff=3.0).as_dict() for n in (1, 2, 3)
    ]
    assert found[0] == found[1] == found[2]  # bit for bit


def test_the_command_tells_file_and_molecule(
    path: Path, new_path: NewPath, capsys: pytest.CaptureFixture[str]
) -> None:
    other = new_path()
    with apt.AtpWriter(other) as writer:
        writer.write_arrays(
            positions=np.zeros((2, 1, 3), np.float32),
            atomic_numbers=np.ones((2, 1), np.uint8),
            forces=np.array([[[0, 0, 0]], [[999, 0, 0]]], np.float32),
            energy=np.array([1.0, 2.0]),
        )
    assert cli.main(["stats", str(path), str(other), "--cutoff", "3"]) == 0
    text = capsys.readouterr().out
    assert f"longest force: {other}: molecule 1\n" in text
    assert "longest force: 999 (usually eV/Å) (molecule" in text
    for part in ("neighbors within 3 (usually Å):", "force RMS", "isolated", "E0"):
        assert part in text
    assert cli.main(["stats", "--json", "--cutoff", "3", str(path)]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = apt.AtpDataset(path).statistics(cutoff=3.0)
    assert document == json.loads(json.dumps(expected.as_dict()))
    assert document["mean_neighbors"] == expected.mean_neighbors
    assert document["elements"]["6"]["force_rms"] == expected.elements[6].force_rms
    for wrong in ("0", "nan", "-3"):
        assert cli.main(["stats", "--cutoff", wrong, str(path)]) == 2
    assert "--cutoff" in capsys.readouterr().err
