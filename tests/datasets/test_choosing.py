"""Choice of molecules: stratified splits, duplicates, diverse subsets; structures in memory."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

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
    with pytest.raises(apt.FieldError, match=r"stratify: expected a value in every structure"):
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


def copies(path: Path) -> apt.AtpDataset:
    """Molecules of which some repeat others: exactly, nearly, or in another order."""
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path) as writer:
        for k in range(40):
            n = int(rng.integers(1, 30))
            positions, numbers = rng.normal(size=(n, 3)), rng.choice([1, 6], n)
            cell = 5 * np.eye(3) if k % 2 else None
            pbc = [True, True, k % 3 == 0] if k % 2 else None
            one = {"cell": cell, "pbc": pbc}
            writer.write(apt.Molecule(positions, numbers, energy=float(k), **one))
            if k % 4 == 0:
                writer.write(apt.Molecule(positions, numbers, energy=-1.0, **one))
            if k % 5 == 0:
                noise = rng.uniform(-1e-3, 1e-3, (n, 3))
                writer.write(apt.Molecule(positions + noise, numbers, **one))
                writer.write(apt.Molecule(positions + noise / 10, numbers, **one))
            if k % 6 == 0:
                writer.write(apt.Molecule(positions[::-1].copy(), numbers, **one))
            if k % 7 == 1 and cell is not None:
                moved = {"cell": cell + 0.5e-3, "pbc": pbc}
                writer.write(apt.Molecule(positions, numbers, **moved))
    return apt.AtpDataset(path)


def reference(ds: apt.AtpDataset, tolerance: float) -> list[tuple[int, int]]:
    """All pairs, one at a time."""
    molecules, dropped, found = list(ds), set(), []

    def equal(a: apt.Molecule, b: apt.Molecule) -> bool:
        if not torch.equal(a.atomic_numbers, b.atomic_numbers):
            return False
        if (a.cell is None) != (b.cell is None):
            return False
        pairs = [(a.positions, b.positions)]
        if a.cell is not None:
            if not torch.equal(a.pbc, b.pbc):
                return False
            pairs.append((a.cell, b.cell))
        return all(bool(((x - y).abs() <= tolerance).all()) for x, y in pairs)

    for later in range(len(molecules)):
        for first in range(later):
            if first not in dropped and equal(molecules[first], molecules[later]):
                dropped.add(later)
                found.append((first, later))
                break
    return found


@pytest.mark.parametrize("tolerance", [0.0, 1e-4, 5e-4, 2e-3, 10.0])
@pytest.mark.parametrize("small", [False, True])
def test_duplicates(
    new_path: NewPath, tolerance: float, small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if small:
        monkeypatch.setattr(_duplicates, "_BLOCK_MOLECULES", 5)
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


def test_duplicates_are_of_stored_geometries(new_path: NewPath) -> None:
    whole = copies(new_path())
    ds = apt.AtpDataset(
        whole.path, fields=["energy"], augment=apt.Augment(noise=1.0), missing="drop"
    )
    assert torch.equal(ds.duplicates(), whole.duplicates())
    assert len(ds.deduplicate()) == len(ds) - len(whole.duplicates())
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="tolerance: expected a finite number from 0"):
            ds.duplicates(wrong)


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
