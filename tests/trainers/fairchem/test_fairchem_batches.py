"""Batches of fairchem's own datasets and collater, and ours of the same structures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ase
import fairchem_cases as cases
import numpy as np
import pytest
import torch
from ase.geometry import wrap_positions
from fairchem.core.datasets.atomic_data import AtomicData, atomicdata_list_to_batch
from fairchem.core.modules.normalization.element_references import ElementReferences
from structures import CUTOFF, structures, write_atp
from torch import Tensor

import atompack_torch as apt
from atompack_torch.trainers import fairchem

COUNT = 12
BOX = {"molecule_cell_size": 10.0}
NAMES = ("a", "b")
LABELS = {"a": cases.LABELS, "b": cases.LABELS[:2]}
EDGES = ("edge_index", "cell_offsets")


def made_for(name: str) -> list[ase.Atoms]:
    """Crystals for a, molecules for b, with energies that float32 holds, as fairchem needs."""
    made = structures(COUNT, periodic=name == "a", seed=NAMES.index(name))
    for atoms in made:
        atoms.calc.results["energy"] = float(np.float32(atoms.calc.results["energy"]))
        atoms.positions += 1.3 * atoms.cell.sum(0)  # outside of the cell
        atoms.calc.atoms = atoms.copy()
    return made


def written(folder: Path, name: str) -> Path:
    """Writes a dataset as fairchem reads it."""
    rows = {"sid": [f"{name}{n}" for n in range(COUNT)], "charge": [n % 3 for n in range(COUNT)]}
    path = folder / f"{name}{len(list(folder.iterdir()))}.aselmdb"
    return cases.write_aselmdb(path, made_for(name), **rows, spin=[1] * COUNT)


def sources(folder: Path, kind: str, dtype: str = "float32", **options: Any) -> dict[str, Any]:
    """Two datasets: crystals, and molecules in boxes without stress."""
    files = {name: written(folder, name) for name in NAMES}  # LMDB opens a file only once
    a, b = ({"target_dtype": dtype, **options, **more} for more in ({}, BOX))
    names = {label: f"b_{label}" for label in LABELS["b"]}
    return {
        "a": cases.source("a", files["a"], kind, a2g_args=a),
        "b": cases.source("b", files["b"], kind, a2g_args=b, key_mapping=names),
    }


def loaders(
    folder: Path, dtype: str = "float32", graph: Mapping[str, Any] = {}, **ratios: float
) -> tuple[Any, Any]:
    """Fairchem's loader, and ours of the same configuration."""
    tasks = cases.tasks(LABELS, dtype)
    stock = cases.concatenated(sources(folder, "ase_db", dtype, **graph), **ratios)
    ours = cases.concatenated(sources(folder, cases.OURS, dtype, **graph), **ratios)
    collate = cases.mt_collater_adapter(tasks)
    return cases.stock_loader(stock, tasks), fairchem.Loader(ours, cases.sampler, collate)


def edges_of(data: AtomicData) -> Counter[tuple[int, ...]]:
    """Every edge with its shift."""
    rows = torch.cat([data.edge_index.T, data.cell_offsets.round().long()], 1)
    return Counter(map(tuple, rows.tolist()))


def assert_same(ours: AtomicData, stock: AtomicData, tolerance: float) -> None:
    """Compares all tensors; AseDBDataset sets tags to 1, and edges have a different order."""
    ours.validate()
    assert vars(ours).keys() - {"molecule_number"} == vars(stock).keys()
    assert ours.keys() - {"molecule_number"} == stock.keys()
    assert edges_of(ours) == edges_of(stock)
    for key in stock.keys() - {*EDGES, "tags"}:
        theirs, value = stock[key], ours[key]
        if not isinstance(theirs, Tensor):
            assert value == theirs, key
            continue
        assert value.dtype == theirs.dtype, key
        torch.testing.assert_close(value, theirs, atol=tolerance, rtol=tolerance, msg=key)


@pytest.mark.parametrize("r_edges", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
def test_of_concatenated_data_sets(
    tmp_path: Path, dtype: str, tolerance: float, r_edges: bool
) -> None:
    stock, ours = loaders(tmp_path, dtype, {"r_edges": r_edges})
    net = cases.model(NAMES, getattr(torch, dtype), makes_edges=not r_edges)
    for theirs, data in zip(stock, ours, strict=True):
        assert_same(data, theirs, tolerance)
        expected, predicted = net(theirs), net(data)
        for task in expected.keys() - {"embeddings"}:
            for key, value in expected[task].items():
                torch.testing.assert_close(
                    predicted[task][key], value, atol=tolerance, rtol=tolerance
                )


@pytest.mark.parametrize("max_neigh", [1, 9])
def test_edges_are_the_nearest(tmp_path: Path, max_neigh: int) -> None:
    stock, ours = loaders(tmp_path, "float64", {"max_neigh": max_neigh})
    for theirs, data in zip(stock, ours, strict=True):
        assert_same(data, theirs, 1e-10)
        assert data.edge_index[1].bincount().max() == max_neigh
    loader = fairchem.loader(
        written(tmp_path, "a"), 4, task="a", cutoff=CUTOFF, max_neighbors=max_neigh
    )
    assert all(data.edge_index[1].bincount().max() == max_neigh for data in loader)


def test_in_memory(tmp_path: Path) -> None:
    """Batches from memory, with edges found once, are those from files, bit for bit."""
    tasks, concatenated = cases.tasks(LABELS), cases.concatenated(sources(tmp_path, cases.OURS))
    collate = cases.mt_collater_adapter(tasks)
    of_files = fairchem.Loader(concatenated, cases.sampler, collate)
    pairs = [(of_files, fairchem.Loader(concatenated, cases.sampler, collate, resident=True))]
    options: dict[str, Any] = {"task": "a", "cutoff": CUTOFF, "max_neighbors": 9, "max_atoms": 40}
    path = written(tmp_path, "a")
    pairs.append(tuple(fairchem.loader(path, resident=r, **options) for r in (False, True)))
    for plain, resident in pairs:
        for expected, data in zip(plain, resident, strict=True):
            assert data.keys() == expected.keys()
            for key in data.keys():
                same = torch.equal if torch.is_tensor(data[key]) else lambda a, b: a == b
                assert same(data[key], expected[key]), key


def test_of_repeated_and_cut_data_sets(tmp_path: Path) -> None:
    stock, ours = loaders(tmp_path, a=0.5, b=1.75)
    expected = [data.sid for data in stock]
    assert [data.sid for data in ours] == expected
    assert sum(len(sids) for sids in expected) == COUNT // 2 + COUNT * 7 // 4


def test_can_be_taken_apart_and_joined(tmp_path: Path) -> None:
    stock, ours = loaders(tmp_path)
    theirs, data = next(iter(stock)), next(iter(ours))
    for n, (expected, part) in enumerate(zip(theirs[:], data[:], strict=True)):
        assert part.molecule_number == data.molecule_number[n]
        assert_same(part, expected, 1e-5)
    joined = atomicdata_list_to_batch(data[:])
    for key in joined.keys():
        assert torch.equal(joined[key], data[key]) if torch.is_tensor(data[key]) else True, key
    assert_same(data.clone(), theirs, 1e-5)


def test_single_structures_suit_the_collater(tmp_path: Path) -> None:
    tasks = cases.tasks(LABELS)
    data_set = cases.concatenated(sources(tmp_path, cases.OURS))
    stock, ours = loaders(tmp_path)
    for theirs, data in zip(stock, cases.stock_loader(data_set, tasks), strict=True):
        assert_same(data, theirs, 1e-5)
    assert len(ours) == len(stock)


def test_agree_with_the_preset(tmp_path: Path) -> None:
    made = made_for("a")[:4] + made_for("b")[:4]
    data_set = apt.open(write_atp(tmp_path / "made.atp", made), neighbors=apt.NeighborList(CUTOFF))
    molecules = data_set.batch(range(8))
    preset = molecules.to_dict("fairchem")
    data = fairchem.batch(molecules, task="a", dtype=torch.float64)
    same = ("atomic_numbers", "natoms", "batch", "pbc", "nedges", "edge_index", "energy", "forces")
    for name in (*same, "charge", "spin", "fixed", "tags", "sid"):
        value = preset[name]
        assert torch.equal(data[name], value) if torch.is_tensor(value) else data[name] == value

    def vectors(pos: Tensor, offsets: Tensor) -> Tensor:
        cells = preset["cell"].repeat_interleave(preset["nedges"], 0)
        row, col = preset["edge_index"]
        return pos[row] - pos[col] + torch.einsum("ei,eij->ej", offsets, cells)

    expected = vectors(preset["pos"], preset["cell_offsets"])
    torch.testing.assert_close(vectors(data.pos, data.cell_offsets), expected)
    assert torch.equal(data.cell[:4], preset["cell"][:4])
    assert torch.equal(data.cell[4:], torch.eye(3, dtype=torch.float64).expand(4, 3, 3))
    assert torch.equal(data.stress[::2].isfinite().all((1, 2)), molecules.mask("stress")[::2])


def test_of_finished_batches_are_those_of_a_loader(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", made_for("a"))
    loader = fairchem.loader(path, 4, task="a", cutoff=CUTOFF, shuffle=False)
    data_set = apt.open(path, neighbors=apt.NeighborList(CUTOFF))
    for data in loader:
        expected = fairchem.batch(data_set.batch(data.molecule_number), task="a")
        for key in expected.keys():
            same = torch.equal(data[key], expected[key]) if torch.is_tensor(data[key]) else True
            assert same, key


@pytest.mark.parametrize("nested", [False, True])
def test_references_are_subtracted_before_narrowing(tmp_path: Path, nested: bool) -> None:
    made = made_for("b")
    energies = {1: -13.6057, 6: -1029.0, 8: -2041.25}
    for atoms in made:
        atoms.calc.results["energy"] += sum(energies[z] for z in atoms.numbers)
    path = write_atp(tmp_path / "made.atp", made)
    references = {"b_energy": energies} if nested else energies
    names = {"energy": "b_energy"}
    loader = fairchem.loader(path, 4, task="b", labels=names, references=references, shuffle=False)
    exact = apt.open(path)
    table = torch.zeros(9, dtype=torch.float64)
    table[list(energies)] = torch.tensor(list(energies.values()), dtype=torch.float64)
    for data in loader:
        molecules = exact.batch(data.molecule_number)
        data.batch_full, data.atomic_numbers_full = data.batch, data.atomic_numbers
        expected = ElementReferences(table).apply_refs(data, molecules.energy)
        assert torch.equal(data.b_energy, expected.float())


def test_element_without_reference_is_an_error(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", made_for("b"))
    loader = fairchem.loader(path, 4, task="b", references={1: -1.0, 6: -2.0})
    with pytest.raises(apt.FieldError, match="8"):
        list(loader)


def test_each_data_set_has_its_references(tmp_path: Path) -> None:
    tasks = cases.tasks(LABELS)
    data_set = cases.concatenated(sources(tmp_path, cases.OURS))
    collate = cases.mt_collater_adapter(tasks)
    references = {"a_energy": {13: 1.0, 29: 2.0}, "b_energy": {1: 4.0, 6: 8.0, 8: 16.0}}
    plain = fairchem.Loader(data_set, cases.sampler, collate)
    ours = fairchem.Loader(data_set, cases.sampler, collate, references=references)
    for data, before in zip(ours, plain, strict=True):
        for task, energies in references.items():
            each = torch.tensor([energies.get(int(z), 0.0) for z in data.atomic_numbers])
            sums = torch.zeros(len(data)).index_add(0, data.batch, each)
            torch.testing.assert_close(data[task], before[task] - sums)
    references["b_energy"].pop(8)
    ours = fairchem.Loader(data_set, cases.sampler, collate, references=references)
    with pytest.raises(apt.FieldError, match=r"'b_energy' has none for element 8 \(b, molecule"):
        list(ours)


def test_boxes_are_those_of_omol(tmp_path: Path) -> None:
    names = {label: f"b_{label}" for label in LABELS["b"]}
    transforms = {"omol_transform": {"dataset_name": "b"}}
    options = {"key_mapping": names, "transforms": transforms, "a2g_args": {"r_edges": False}}
    tasks = cases.tasks({"b": LABELS["b"]})
    stock, ours = (
        cases.concatenated({"b": cases.source("b", written(tmp_path, "b"), kind, **options)})
        for kind in ("ase_db", cases.OURS)
    )
    loader = fairchem.Loader(ours, cases.sampler, cases.mt_collater_adapter(tasks))
    for theirs, data in zip(cases.stock_loader(stock, tasks), loader, strict=True):
        assert_same(data, theirs, 2e-5)  # float32 at 120 Å


@pytest.mark.parametrize("pbc", [(True, True, False), (True, False, False)])
def test_missing_vectors_are_completed(tmp_path: Path, pbc: Sequence[bool]) -> None:
    atoms = ase.Atoms("AlCu", [[-0.5, 0.2, 0.1], [1.5, 4.2, 2.0]], pbc=pbc)
    cell = np.array([[3.0, 0.4, 0.1], [0.5, 3.5, 0.2], [0, 0, 0]])
    atoms.cell[:] = np.where(np.array(pbc)[:, None], cell, 0)
    path = write_atp(tmp_path / "made.atp", [atoms])
    data = next(iter(fairchem.loader(path, 1, task="a", cutoff=CUTOFF, dtype=torch.float64)))
    np.testing.assert_allclose(data.cell[0], atoms.cell.complete())
    wrapped = wrap_positions(atoms.positions, atoms.cell.complete(), pbc, eps=0)
    np.testing.assert_allclose(data.pos, wrapped)


def test_sources_are_paths_patterns_and_lists(tmp_path: Path) -> None:
    files = [write_atp(tmp_path / f"{name}.atp", made_for(name)) for name in NAMES]
    for source in (str(tmp_path / "*.atp"), str(tmp_path), [str(path) for path in files]):
        assert len(fairchem.Dataset({"src": source})) == 2 * COUNT
    with pytest.raises(FileNotFoundError):
        fairchem.Dataset({"src": str(tmp_path / "*.xyz")})


def test_strings_and_integers_of_properties(tmp_path: Path) -> None:
    path = tmp_path / "made.atp"
    with apt.AtpWriter(path) as writer:
        for n, atoms in enumerate(made_for("b")[:3]):
            molecule = apt.Molecule(
                atoms.positions,
                atoms.numbers,
                properties={"charge": float(n - 1), "sid": f"x{n}", "dataset": "omol"},
                atom_properties={"fixed": np.arange(len(atoms)) % 2, "tags": [n] * len(atoms)},
            )
            writer.write(molecule)
    data = fairchem.batch(apt.open(path).batch([0, 1, 2]))
    assert data.charge.tolist() == [-1, 0, 1]
    assert data.spin.tolist() == [0, 0, 0]
    assert data.sid == ["x0", "x1", "x2"]
    assert data.dataset == ["omol"] * 3
    assert data.fixed[:3].tolist() == [0, 1, 0]
    assert torch.equal(data.tags, data.batch)
    assert "energy" not in data


def test_labels_of_tasks_without_data_are_infinite(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "made.atp", made_for("b"))
    names = {label: f"b_{label}" for label in cases.LABELS}
    tasks = cases.tasks(LABELS)
    data = next(iter(fairchem.loader(path, 4, task="b", labels=names, tasks=tasks)))
    assert data.a_energy.shape == (len(data),)
    assert data.a_forces.shape == data.pos.shape
    assert data.a_stress.shape == (len(data), 9)
    assert all(bool((data[f"a_{label}"] == math.inf).all()) for label in cases.LABELS)
    assert "b_stress" not in data
    with pytest.raises(ValueError, match="dataset 'b' has no label 'b_energy'"):
        fairchem.loader(path, 4, task="b", tasks=tasks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transforms": {"decompose_tensor": {}}}, "transforms: expected one of"),
        ({"a2g_args": {"radii": 5}}, "a2g_args: expected one of"),
        ({"key_mapping": {"dipole": "x"}}, "labels: expected energy, forces or stress"),
    ],
)
def test_unknown_options_are_errors(tmp_path: Path, options: Any, message: str) -> None:
    path = write_atp(tmp_path / "made.atp", made_for("b"))
    with pytest.raises(ValueError, match=message):
        fairchem.Loader(
            cases.concatenated({"b": cases.source("b", path, **options)}), cases.sampler
        )


def test_data_sets_of_fairchem_are_an_error(tmp_path: Path) -> None:
    stock = cases.concatenated(sources(tmp_path, "ase_db"))
    with pytest.raises(TypeError, match=r"trainers\.fairchem\.Dataset in all datasets"):
        fairchem.Loader(stock, cases.sampler)
