"""Choice of molecules: stratified splits, duplicates, diverse subsets; structures in memory."""

from __future__ import annotations

import itertools
import pickle
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ase.build import bulk, fcc111
from ase.build import molecule as build_molecule
from scipy.spatial.transform import Rotation

import atompack_torch as apt
from atompack_torch.datasets import duplicates as _duplicates
from atompack_torch.datasets.diversity import farthest_points, mean_features

NewPath = Callable[[], Path]

N = 500
KINDS = ["bulk"] * 320 + ["surface"] * 150 + ["defect"] * 30


@pytest.fixture(scope="module")
def dataset(new_path: NewPath) -> apt.AtpDataset:
    path = new_path()
    rng = np.random.default_rng(1)
    order = rng.permutation(N)
    with apt.AtpWriter(path) as writer:
        for k in range(N):
            n = 1 + k % 4
            kind = KINDS[order[k]]
            extra = {"rare": 1} if k % 9 else {}
            writer.write(
                apt.Molecule(
                    rng.normal(size=(n, 3)),
                    rng.choice([1, 8], n),
                    energy=float(rng.exponential()) - (10 if kind == "bulk" else 0),
                    properties={"config_type": kind, "spin": k % 3, **extra},
                )
            )
    return apt.AtpDataset(path)


FRACTIONS = [0.8, 0.15, 0.05]


@pytest.mark.parametrize("by", ["config_type", "spin", "formula"])
def test_every_part_has_its_share_of_every_group(dataset: apt.AtpDataset, by: str) -> None:
    parts = dataset.split(FRACTIONS, seed=1, stratify=by)
    assert [len(part) for part in parts] == [400, 75, 25]
    assert sorted(int(i) for part in parts for i in part["index"]) == list(range(N))

    def counts(part: apt.AtpDataset) -> Counter[Any]:
        if by == "formula":
            return Counter(tuple(sorted(m.atomic_numbers.tolist())) for m in part)
        values = part[by]
        return Counter(values if isinstance(values, list) else values.tolist())

    whole = counts(dataset)
    for part, fraction in zip(parts, FRACTIONS, strict=True):
        for group, n in whole.items():
            assert abs(counts(part)[group] - fraction * n) <= 2, (by, fraction, group)
        assert part["index"].tolist() == sorted(part["index"].tolist())
    again = dataset.split(FRACTIONS, seed=1, stratify=by)
    assert [part["index"].tolist() for part in again] == [p["index"].tolist() for p in parts]
    other = dataset.split(FRACTIONS, seed=2, stratify=by)
    assert other[2]["index"].tolist() != parts[2]["index"].tolist()


def test_reals_are_grouped_by_quantiles(dataset: apt.AtpDataset) -> None:
    parts = dataset.split(FRACTIONS, seed=0, stratify="energy")
    whole = dataset["energy"].sort().values
    for part in parts:
        own = part["energy"].sort().values
        at = torch.searchsorted(whole, own).double() / N
        expected = (torch.arange(len(own)).double() + 0.5) / len(own)
        assert (at - expected).abs().max() < 2 / len(own) + 0.04
    # Random inside of the quantiles: each molecule is sometimes in the test set.
    seen = {
        int(i)
        for s in range(150)
        for i in dataset.split([0.8, 0.2], s, stratify="energy")[1]["index"]
    }
    assert len(seen) == N


def test_wrong_strata(dataset: apt.AtpDataset) -> None:
    with pytest.raises(ValueError, match="stratify: excludes by"):
        dataset.split([0.5, 0.5], 0, by="spin", stratify="spin")
    with pytest.raises(apt.FieldError, match=r"stratify: expected a value in every molecule"):
        dataset.split([0.5, 0.5], 0, stratify="rare")
    with pytest.raises(apt.FieldError, match=r"stratify: unknown name 'config_typ'"):
        dataset.split([0.5, 0.5], 0, stratify="config_typ")
    assert [len(part) for part in dataset.subset([]).split([0.5, 0.5], 0, stratify="spin")] == [
        0,
        0,
    ]


def test_files_are_split_like_datasets(dataset: apt.AtpDataset, new_path: NewPath) -> None:
    targets = [new_path() for _ in FRACTIONS]
    for by in ("config_type", "energy"):
        apt.split(dataset.path, targets, FRACTIONS, seed=3, stratify=by, mode="w", progress=False)
        parts = dataset.split(FRACTIONS, 3, stratify=by)
        for part, target in zip(parts, targets, strict=True):
            assert torch.equal(apt.AtpDataset(target)["energy"], part["energy"])
    with pytest.raises(ValueError, match="stratify: excludes by"):
        apt.split(dataset.path, targets, FRACTIONS, by="spin", stratify="spin", mode="w")


def moved(
    molecule: apt.Molecule, rng: np.random.Generator, *, noise: float = 0.0, mirror: bool = False
) -> apt.Molecule:
    """The same geometry, in another order and place, turned, and wrapped if it is periodic."""
    positions = molecule.positions.numpy() + noise * rng.uniform(-1, 1, (len(molecule), 3))
    cell = None if molecule.cell is None else molecule.cell.numpy()
    pbc = None if molecule.pbc is None else molecule.pbc.numpy()
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rotation *= np.linalg.det(rotation) * (-1 if mirror else 1)
    positions = positions + rng.normal(size=3)
    if cell is not None and pbc is not None:
        scaled = positions @ np.linalg.inv(cell)
        positions = (scaled - np.where(pbc, np.floor(scaled), 0)) @ cell
        cell = cell @ rotation.T
    order = rng.permutation(len(molecule))
    return apt.Molecule(
        (positions @ rotation.T)[order], molecule.atomic_numbers.numpy()[order], cell=cell, pbc=pbc
    )


FLAGS = [None, [True, True, True], [True, True, False], [True, False, False]]


def copies(path: Path) -> apt.AtpDataset:
    """Molecules of which some repeat others."""
    rng = np.random.default_rng(0)
    molecules = [apt.Molecule(np.zeros((0, 3)), np.zeros(0, int))] * 2
    for k in range(16):
        pbc = FLAGS[k % 4]
        cell = None if pbc is None else np.diag([6, 7, 20]) + rng.normal(size=(3, 3)) / 3
        if cell is not None and k % 8 > 4:
            cell[2] += [9, 5, 0]
        n = 1 + k % 5
        places = rng.permutation(27)[:n]
        grid = np.stack([places // 9, places // 3 % 3, places % 3], axis=1) * 1.7
        one = apt.Molecule(
            grid + rng.uniform(-0.3, 0.3, (n, 3)),
            rng.choice([1, 6], n),
            energy=float(k),
            cell=cell,
            pbc=pbc,
        )
        molecules += [one, moved(one, rng), moved(one, rng, noise=2e-4), one]
        molecules += [moved(one, rng, noise=0.3), moved(one, rng, mirror=True)]
        if cell is not None:
            molecules.append(
                apt.Molecule(one.positions, one.atomic_numbers, cell=cell + 0.1, pbc=pbc)
            )
            strained = cell + rng.uniform(-1e-3, 1e-3, (3, 3))
            places = one.positions.numpy() @ np.linalg.inv(cell) @ strained
            molecules.append(apt.Molecule(places, one.atomic_numbers, cell=strained, pbc=pbc))
    with apt.AtpWriter(path) as writer:
        writer.write(molecules)
    return apt.AtpDataset(path)


def turn(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows of a, turned to be nearest to those of b."""
    return Rotation.align_vectors(b, a)[0].apply(a) if len(a) else a


def reference_agrees(a: apt.Molecule, b: apt.Molecule, tolerance: float) -> bool:
    """By all orders of the atoms."""
    one, other = a.atomic_numbers.numpy(), b.atomic_numbers.numpy()
    flags = [np.zeros(3, bool) if m.pbc is None else m.pbc.numpy() for m in (a, b)]
    if not np.array_equal(np.sort(one), np.sort(other)) or not np.array_equal(*flags):
        return False
    p, q = a.positions.numpy(), b.positions.numpy()
    is_periodic = bool(flags[0].any())
    if is_periodic:
        assert a.cell is not None
        assert b.cell is not None
        cell, to = a.cell.numpy(), b.cell.numpy()
        if np.linalg.norm(turn(cell, to) - to, axis=1).max() > tolerance:
            return False
        p, q = p @ np.linalg.inv(cell), q @ np.linalg.inv(to)
    for order in itertools.permutations(range(len(one))):
        if not np.array_equal(one[list(order)], other):
            continue
        x = p[list(order)]
        if is_periodic:
            rest = q - x - (q[0] - x[0])
            rest = (rest - np.where(flags[0], np.round(rest), 0)) @ cell
            apart = rest - rest.mean(axis=0)
        elif len(x):
            x, y = x - x.mean(axis=0), q - q.mean(axis=0)
            apart = (turn(x, y) if len(x) > 1 else x) - y
        else:
            return True
        if np.linalg.norm(apart, axis=1).max() <= tolerance:
            return True
    return False


def reference(ds: apt.AtpDataset, tolerance: float) -> list[tuple[int, int]]:
    """All pairs, one at a time."""
    molecules, dropped, found = list(ds), set(), []

    def equal(a: apt.Molecule, b: apt.Molecule) -> bool:
        if tolerance > 0:
            return reference_agrees(a, b, tolerance)
        pairs = [
            (a.positions, b.positions),
            (a.atomic_numbers, b.atomic_numbers),
            (a.cell, b.cell),
            (a.pbc, b.pbc),
        ]
        return all(x is y if x is None or y is None else torch.equal(x, y) for x, y in pairs)

    for later in range(len(molecules)):
        for first in range(later):
            if first not in dropped and equal(molecules[first], molecules[later]):
                dropped.add(later)
                found.append((first, later))
                break
    return found


@pytest.mark.filterwarnings("ignore:Optimal rotation")
@pytest.mark.parametrize("tolerance", [0.0, 1e-9, 2e-3])
@pytest.mark.parametrize("small", [False, True])
def test_duplicates(
    new_path: NewPath, tolerance: float, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:
        monkeypatch.setattr(_duplicates, "_BLOCK_MOLECULES", 5)
        monkeypatch.setattr(_duplicates, "_STEP", 3)
        monkeypatch.setattr(_duplicates, "_PAIRS_AT_ONCE", 3)
    whole = copies(new_path())
    for ds in (whole, whole.subset([5, 3, 3, 20, *range(10, 40)])):
        pairs = ds.duplicates(tolerance)
        assert pairs.dtype == torch.int64
        assert [(a, b) for a, b in pairs.tolist()] == reference(ds, tolerance)
        kept = ds.deduplicate(tolerance)
        dropped = set(pairs[:, 1].tolist())
        numbers = ds["index"].tolist()
        assert kept["index"].tolist() == [numbers[k] for k in range(len(ds)) if k not in dropped]
    assert len(whole.subset([]).duplicates(tolerance)) == 0


@pytest.mark.parametrize("kind", ["diamond", "methane", "benzene", "rod", "slab"])
def test_symmetric_geometries(new_path: NewPath, kind: str) -> None:
    rng = np.random.default_rng(3)
    atoms: Any
    if kind == "diamond":
        atoms = bulk("C", "diamond", 3.57, cubic=True) * (2, 1, 1)
    elif kind == "slab":
        atoms = fcc111("Pt", (3, 3, 3), vacuum=6)
    else:
        names = {"methane": "CH4", "benzene": "C6H6", "rod": "C2H2"}
        atoms = build_molecule(names[kind])
    one = apt.Molecule.from_ase(atoms)
    others = [moved(one, rng, noise=noise) for noise in (0.0, 1e-3, 1e-3, 1e-3)]
    shifted = one.positions.clone()
    shifted[0] += 0.3
    bent = apt.Molecule(shifted, one.atomic_numbers, cell=one.cell, pbc=one.pbc)
    with apt.AtpWriter(path := new_path()) as writer:
        writer.write([one, bent, *others, moved(bent, rng)])
    pairs = apt.AtpDataset(path).duplicates(0.01)
    assert pairs.tolist() == [[0, 2], [0, 3], [0, 4], [0, 5], [1, 6]]


def test_cells_without_some_vectors(new_path: NewPath) -> None:
    """Missing vectors of open directions are made up; cells without volume equal no others."""
    rng = np.random.default_rng(1)
    numbers = np.array([6, 8, 1, 1])
    positions = rng.permutation(np.stack([np.arange(4)] * 3, axis=1)) + rng.uniform(size=(4, 3))
    molecules = []
    for pbc, vectors in (([True, True, False], 2), ([True, False, False], 1), ([True] * 3, 2)):
        cell = np.zeros((3, 3))
        cell[:vectors] = np.array([[6.0, 0.3, 0.2], [0.1, 7.0, 0.4]])[:vectors]
        is_known = cell.any(axis=1, keepdims=True)
        full = apt.Molecule(
            positions, numbers, cell=np.where(is_known, cell, 9 * np.eye(3)), pbc=pbc
        )
        molecules += [apt.Molecule(positions, numbers, cell=cell, pbc=pbc)]
        turned = moved(full, rng)
        assert turned.cell is not None
        found = turned.cell.numpy() * is_known
        molecules.append(apt.Molecule(turned.positions, turned.atomic_numbers, cell=found, pbc=pbc))
        molecules.append(apt.Molecule(positions + 0.1, numbers, cell=cell, pbc=pbc))
        molecules.append(apt.Molecule(positions, numbers, cell=1.1 * cell, pbc=pbc))
    with apt.AtpWriter(path := new_path()) as writer:
        writer.write(molecules)
    pairs = apt.AtpDataset(path).duplicates(1e-3)
    assert pairs.tolist() == [[0, 1], [0, 2], [4, 6]]


@pytest.mark.parametrize("cell", [None, np.diag([8.0, 8.0, 8.0])])
def test_frames_of_a_trajectory_are_compared_in_seconds(new_path: NewPath, cell: Any) -> None:
    """As many candidates as there are frames, not as there are pairs of them."""
    rng = np.random.default_rng(0)
    n, n_atoms = 20_000, 12
    frames = rng.normal(size=(n, n_atoms, 3)) / 10 + rng.normal(size=(n_atoms, 3)) * 3
    frames[n // 2 :: 2] = frames[7] + rng.uniform(-1e-4, 1e-4, (n // 4, n_atoms, 3))
    cells = {"cell": np.tile(cell, (n, 1, 1)), "pbc": np.ones((n, 3), bool)}
    with apt.AtpWriter(path := new_path()) as writer:
        writer.write_arrays(
            positions=frames.reshape(-1, 3),
            atomic_numbers=np.tile([1, 6, 8] * 4, n),
            n_atoms=np.full(n, n_atoms),
            **({} if cell is None else cells),
        )
    start = time.process_time()
    pairs = apt.AtpDataset(path).duplicates(1e-3)
    assert pairs[:, 1].tolist() == list(range(n // 2, n, 2))
    assert set(pairs[:, 0].tolist()) == {7}
    assert time.process_time() - start < 30  # 2 on an idle machine


def test_duplicates_are_of_stored_geometries(new_path: NewPath) -> None:
    whole = copies(new_path())
    ds = apt.AtpDataset(
        whole.path, fields=["energy"], augment=apt.Augment(noise=1.0), missing="drop"
    )
    assert torch.equal(ds.duplicates(), whole.duplicates())
    assert len(ds.deduplicate()) == len(ds) - len(whole.duplicates())
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="tolerance: expected a finite number, at least 0"):
            ds.duplicates(wrong)
    with pytest.raises(TypeError, match="tolerance: expected a number, got '1'"):
        ds.duplicates("1")
    assert torch.equal(ds.duplicates(torch.tensor(1e-3)), ds.duplicates(1e-3))


def slow_farthest(points: np.ndarray[Any, Any], n: int) -> list[int]:
    chosen = [int(np.argmin(((points - points.mean(0)) ** 2).sum(1)))]
    while len(chosen) < n:
        distances = ((points[:, None] - points[chosen]) ** 2).sum(2).min(1)
        distances[chosen] = -1
        chosen.append(int(np.argmax(distances)))
    return chosen


def test_farthest_points() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 5))
    chosen = farthest_points(torch.from_numpy(points), 200).tolist()
    assert chosen[:40] == slow_farthest(points, 40)
    assert sorted(chosen) == list(range(200))
    assert sorted(farthest_points(torch.ones(6, 2), 6).tolist()) == list(range(6))
    assert farthest_points(torch.ones(6, 2), 0).tolist() == []


def test_diverse_molecules(dataset: apt.AtpDataset) -> None:
    descriptor = apt.ChebyshevDescriptor(["H", "O"], 3, 3.0, 2, 2.5, 0.0)
    part = dataset.subset(range(40, 160))
    chosen = part.select_diverse(12, by=descriptor)
    means = torch.stack(
        [descriptor.compute(part.batch([k])).features.double().mean(0) for k in range(len(part))]
    )
    scale = means.std(0, correction=0)
    scaled = (means / torch.where(scale > 0, scale, 1)).float()
    assert torch.allclose(mean_features(part, descriptor), scaled, atol=1e-5)
    expected = farthest_points(scaled, 12) + 40
    assert chosen["index"].tolist() == expected.tolist()
    own = apt.AtpDataset(dataset.path, features=descriptor, augment=apt.Augment(noise=1.0))
    again = own.subset(range(40, 160)).select_diverse(12)
    assert again["index"].tolist() == expected.tolist()
    assert len(part.select_diverse(0, by=descriptor)) == 0
    with pytest.raises(TypeError, match=r"n: expected an int, got 2\.5"):
        part.select_diverse(2.5, by=descriptor)
    with pytest.raises(ValueError, match="n: expected a number from 0 to 120, got 121"):
        part.select_diverse(121, by=descriptor)
    with pytest.raises(TypeError, match="by: expected 'features' or a descriptor, got 'soap'"):
        part.select_diverse(3, by="soap")
    with pytest.raises(apt.FieldError, match="no field 'features'"):
        part.select_diverse(3)


def test_structures_of_ase() -> None:
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator

    structures = []
    for k in range(5):
        atoms = Atoms("H2O", np.eye(3) * (1 + k), cell=np.eye(3) * 8, pbc=[True, True, False])
        atoms.info["config_type"] = f"t{k}"
        atoms.calc = SinglePointCalculator(atoms, energy=float(k), forces=np.ones((3, 3)) * k)
        structures.append(atoms)
    ds = apt.from_structures(structures, neighbors=apt.NeighborList(3.0))
    assert ds["config_type"] == [f"t{k}" for k in range(5)]
    expected = apt.MoleculeBatch.from_ase(structures)
    assert torch.equal(ds[:].positions, expected.positions)
    assert torch.equal(ds[:].forces, expected.forces)
    assert len(ds[:].edge_index[0]) > 0
    assert torch.equal(pickle.loads(pickle.dumps(ds))["energy"], ds["energy"])
    assert len(apt.from_structures([])) == 0
    with pytest.raises(TypeError):
        apt.from_structures([1, 2])


def test_structures_of_pymatgen() -> None:
    class Structure:
        """What a structure of pymatgen gives away of itself."""

        sites = ()

        def __init__(self, a: float) -> None:
            self.a = a

        def as_dict(self) -> dict[str, Any]:
            sites = [
                {"species": [{"element": "Na", "occu": 1}], "abc": [0, 0, 0], "label": "Na"},
                {"species": [{"element": "Cl", "occu": 1}], "abc": [0.5, 0.5, 0.5], "label": "Cl"},
            ]
            matrix = (np.eye(3) * self.a).tolist()
            lattice = {"matrix": matrix, "pbc": [True, True, True]}
            return {
                "@module": "pymatgen.core.structure",
                "@class": "Structure",
                "lattice": lattice,
                "sites": sites,
                "charge": 0,
            }

    ds = apt.from_structures([Structure(4.0), Structure(5.0)])
    batch = ds[:]
    assert batch.atomic_numbers.tolist() == [11, 17, 11, 17]
    assert batch.positions[3].tolist() == [2.5, 2.5, 2.5]
    assert torch.equal(batch.cell, torch.eye(3).double() * torch.tensor([4.0, 5.0])[:, None, None])
    with pytest.raises(TypeError, match="structures: expected a list of one kind"):
        apt.from_structures([Structure(4.0), object()])
    for wrong in (None, np.zeros((2, 3))):
        with pytest.raises(TypeError, match="structures: expected a list of molecules"):
            apt.from_structures(wrong)


class Broken:
    """Makes features of which the last is NaN."""

    descriptor = apt.ChebyshevDescriptor(["H", "O"], 3, 3.0, 2, 2.5, 0.0)

    def compute(self, batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        made = self.descriptor.compute(batch)
        made.features[-1] = torch.nan
        return made


def test_features_that_are_not_finite(dataset: apt.AtpDataset) -> None:
    with pytest.raises(apt.FieldError, match=r"expected finite features, got others \(molecule 9"):
        dataset.subset(range(10)).select_diverse(2, by=Broken())
