"""TorchCache and TorchCacheDataset: files of aenet-python, entry by entry and in batches."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.cache_fixture import DERIVATIVES, READABLE, CacheFixture
from reference.compare import assert_same

import atompack_torch as apt
from atompack_torch.fields import FieldSpec

WITH_ROWS = [name for name in READABLE if not name.startswith("plain")]


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "torch_cache"


@pytest.fixture(scope="module")
def fixture(folder: Path) -> Callable[[str], CacheFixture]:
    made: dict[str, CacheFixture] = {}

    def find(name: str) -> CacheFixture:
        if name not in made:
            made[name] = CacheFixture(folder, name)
        return made[name]

    return find


Fixtures = Callable[[str], CacheFixture]


def dataset_of(fixture: CacheFixture, **options: Any) -> apt.TorchCacheDataset:
    return apt.TorchCacheDataset(fixture.path, **options)


@pytest.mark.parametrize("name", READABLE)
def test_batches_are_those_of_the_original(fixture: Fixtures, name: str) -> None:
    expected = fixture(name)
    dataset, n = dataset_of(expected), len(expected)
    assert len(dataset) == n
    assert dataset.n_atoms.tolist() == [len(expected.numbers(k)) for k in range(n)]
    for entries in ([*range(n)], [n - 1, 0, -1, 0], *([k] for k in range(n))):
        expected.assert_batch(dataset.batch(entries), entries)
    expected.assert_batch(dataset[1:], [*range(1, n)])


@pytest.mark.parametrize("name", READABLE)
def test_entries_alone(fixture: Fixtures, name: str) -> None:
    expected = fixture(name)
    cache = apt.TorchCache(expected.path)
    assert len(cache) == len(expected)
    assert cache.has_features == expected.has_features
    assert cache.has_force_derivatives == expected.has_derivatives
    for k in range(len(cache)):
        if cache.has_features:
            same(cache.load_features(k), expected.array(k, "features"))
            same(cache.load_features(k - len(cache)), expected.array(k, "features"))
        if not cache.has_force_derivatives:
            continue
        rows = cache.load_force_derivatives(k)
        assert (rows is None) == (expected.array(k, "r_dG") is None)
        if rows is not None:
            assert rows.keys() == expected.derivatives.keys()
            for column, value in rows.items():
                same(value, expected.array(k, DERIVATIVES[column]))


def same(got: Any, want: Any) -> None:
    assert_same(got, None if want is None else torch.from_numpy(want), "row")


@pytest.mark.parametrize("name", READABLE)
def test_molecules_are_views_of_a_batch(fixture: Fixtures, name: str) -> None:
    expected = fixture(name)
    dataset = dataset_of(expected)
    batch = dataset.batch(range(len(expected)))
    for k, molecule in enumerate(batch):
        for other in (molecule, dataset[k], dataset[k - len(dataset)]):
            assert isinstance(other, apt.Molecule)
            same(other.positions, expected.array(k, "positions").astype("<f8"))
            assert other.atomic_numbers.tolist() == expected.numbers(k)
            for label in ("energy", "forces", "cell", "pbc"):
                value = expected.label(k, label)
                same(other[label], None if value is None else np.asarray(value))
            assert other.name == expected.facts["entry"][k]["structure_name"]
            if expected.has_features:
                same(other.features, expected.array(k, "features"))
            for column, key in expected.derivatives.items():  # its own atoms, from 0
                same(other[column], expected.array(k, key))
        same_place = molecule.positions.data_ptr() == batch.positions[batch.ptr[k] :].data_ptr()
        assert same_place or len(molecule) == 0


@pytest.mark.parametrize("name", READABLE)
def test_joined_batches_are_batches(fixture: Fixtures, name: str) -> None:
    """Molecule by molecule, or two batches: the same as read immediately."""
    expected = fixture(name)
    dataset, n = dataset_of(expected), len(expected)
    everything = dataset.batch(range(n))
    expected.assert_batch(apt.MoleculeBatch.from_molecules(list(everything)), range(n), joined=True)
    expected.assert_batch(apt.collate([dataset[k] for k in range(n)]), range(n), joined=True)
    halves = [dataset.batch(range(n // 2)), dataset.batch(range(n // 2, n))]
    expected.assert_batch(apt.collate(halves), range(n))
    expected.assert_batch(pickle.loads(pickle.dumps(everything)), range(n))
    alone = pickle.loads(pickle.dumps(everything[n - 1]))
    expected.assert_batch(apt.collate([alone]), [n - 1], joined=True)


@pytest.mark.parametrize("name", ["v2_both_f64_three", "v2_both_f32_three"])
def test_batches_collated_by_the_original(fixture: Fixtures, name: str) -> None:
    """Its force view holds the entries with forces alone, so ours is a batch of these."""
    expected = fixture(name)
    want = {key[6:]: value for key, value in expected.arrays.items() if key.startswith("batch_")}
    batch = dataset_of(expected).batch(range(len(expected)))
    same(batch.features, want["features"])
    assert batch.n_atoms.tolist() == want["n_atoms"].tolist()
    assert_same(
        batch.energy.to(batch.features.dtype), torch.from_numpy(want["energy_ref"]), "energy"
    )
    forces = dataset_of(expected).batch(expected.facts["force_indices"])
    same(forces.features, want["features_f"])
    same(forces.forces.to(forces.features.dtype), want["forces_ref_f"])
    same(forces.positions.to(forces.features.dtype), want["positions_f"])
    assert forces.n_atoms.tolist() == want["force_sample_n_atoms"].tolist()
    for column, key in DERIVATIVES.items():
        same(forces[column], want[key])


@pytest.mark.parametrize("name", WITH_ROWS)
def test_forces_contracted_from_a_batch(fixture: Fixtures, name: str) -> None:
    expected = fixture(name)
    if not expected.has_derivatives:
        assert not apt.TorchCache(expected.path).has_force_derivatives
        return
    batch = dataset_of(expected).batch(range(len(expected)))
    n_features = apt.TorchCache(expected.path).descriptor.n_features
    weights = torch.cat([_probe(len(m), n_features) for m in batch]).to(batch.radial_dG_drij.dtype)
    forces = apt.contract_forces(batch, weights)
    limit = 1e-3 if weights.dtype == torch.float32 else 1e-10
    for k, molecule in enumerate(batch):
        want = expected.array(k, "forces")
        if want is not None:
            rows = forces[batch.ptr[k] : batch.ptr[k + 1]]
            np.testing.assert_allclose(rows, want, rtol=0, atol=limit)
            assert len(molecule) == len(want)


def _probe(n_atoms: int, n_features: int) -> torch.Tensor:
    atoms, columns = torch.arange(n_atoms).double(), torch.arange(n_features).double()
    return torch.sin(0.5 + 0.37 * atoms[:, None] + 0.11 * columns)


def test_casts(fixture: Fixtures, folder: Path) -> None:
    """A float32 file widened and a float64 file rounded, as the original does it."""
    want = np.load(folder / "casts.expected.npz")
    for name, tag, dtype in (
        ("v2_both_f32_three", "f32_as_64", torch.float64),
        ("v2_both_f64_three", "f64_as_32", torch.float32),
    ):
        expected = fixture(name)
        batch = dataset_of(expected, dtype=dtype).batch([2])
        cache = apt.TorchCache(expected.path)
        rows = cache.load_force_derivatives(2, dtype)
        assert rows is not None
        for found in (batch.features, cache.load_features(2, dtype)):
            same(found, want[f"{tag}_features"])
        for found in (batch.radial_dG_drij, rows["radial_dG_drij"]):
            same(found, want[f"{tag}_r_dG"])
        assert batch.energy.dtype == torch.float64
        assert batch.forces.dtype == batch.positions.dtype == dtype
        assert batch.radial_center_idx.dtype == rows["radial_center_idx"].dtype == torch.int64


def test_casts_by_name(fixture: Fixtures) -> None:
    expected = fixture("v2_both_f64_two")
    wanted = {"features": torch.float32, "force_derivatives": torch.float32}
    with pytest.raises((apt.FieldError, ValueError)):
        dataset_of(expected, dtype=wanted)  # indices are among the derivatives
    batch = dataset_of(expected, dtype={"features": torch.float32}).batch([0, 2])
    assert batch.features.dtype == torch.float32
    assert batch.radial_dG_drij.dtype == batch.forces.dtype == torch.float64


def test_choice_of_fields(fixture: Fixtures) -> None:
    expected = fixture("v2_both_f64_three")
    always = {"positions", "atomic_numbers", "batch", "ptr", "n_atoms", "index"}

    def keys(**options: Any) -> set[str]:
        return set(dataset_of(expected, **options).batch([0, 1]).keys()) - always

    assert keys(fields=["features"]) == {"features"}
    assert keys(fields=["force_derivatives", "energy"]) == {*DERIVATIVES, "energy"}
    assert keys(fields=["radial_dG_drij"]) == {"radial_dG_drij"}
    assert keys(fields=[]) == set()
    labels = {"energy", "forces", "cell", "pbc", "name"}
    assert keys(exclude=["features"]) == labels | set(DERIVATIVES)
    assert keys(exclude=["force_derivatives"]) == labels | {"features"}
    assert keys(exclude=["force_derivatives", "features", "cell", "pbc"]) == labels - {
        "cell",
        "pbc",
    }
    schema = dataset_of(expected).schema
    assert schema["features"] == FieldSpec(torch.float64, "atom", (14,))
    assert schema["radial_dG_drij"] == FieldSpec(torch.float64, "edge", (4, 3))
    assert schema["angular_neighbor_k_idx"] == FieldSpec(torch.int64, "triplet", ())


@pytest.mark.parametrize("name", ["plain_no_cache", "legacy_v1_f64_two", "v2_features_f32_two"])
def test_sections_that_are_not_there(fixture: Fixtures, name: str) -> None:
    expected = fixture(name)
    cache = apt.TorchCache(expected.path)
    absent = [("features", expected.has_features, cache.load_features)]
    absent += [("force_derivatives", expected.has_derivatives, cache.load_force_derivatives)]
    for field, there, load in absent:
        if there:
            assert load(0) is not None
            continue
        with pytest.raises(apt.FieldError, match=field):
            load(0)
        with pytest.raises(apt.FieldError, match=field):
            cache.batch([0], fields=[field])
        if cache.descriptor is None:
            with pytest.raises(apt.FieldError, match=field):
                dataset_of(expected, fields=[field])


def test_missing_rows_and_labels(fixture: Fixtures) -> None:
    expected = fixture("v2_derivatives_f64_two")
    everything = [*range(len(expected))]
    with_rows = expected.facts["force_indices"]
    asked = {"fields": ["forces", "force_derivatives"]}
    nan = dataset_of(expected, **asked, missing="nan").batch(everything)
    assert nan.mask("radial_dG_drij").tolist() == [k in with_rows for k in everything]
    dropped = dataset_of(expected, **asked, missing="drop").batch(everything)
    assert dropped.index.tolist() == with_rows
    ptr = np.concatenate([[0], np.cumsum([len(expected.numbers(k)) for k in with_rows])])
    expected.assert_rows(dropped, with_rows, ptr)
    strict = dataset_of(expected, **asked, missing="error")
    expected.assert_rows(strict.batch(with_rows), with_rows, ptr)
    with pytest.raises(apt.FieldError, match=r"v2_derivatives_f64_two.h5.*molecule 1"):
        strict.batch([0, 1])
    energies = dataset_of(fixture("v2_both_f64_from_files"), fields=["energy"], missing="drop")
    assert energies.batch(range(3)).index.tolist() == [0, 1]


def test_what_a_cache_tells(fixture: Fixtures) -> None:
    for name in READABLE:
        expected = fixture(name)
        cache, facts = apt.TorchCache(expected.path), expected.facts
        for info in (facts["feature_info"], facts["derivative_info"]):
            section = cache.info.get("force_derivatives", {})
            for key, value in (info or {}).items():
                assert cache.info.get(key, section.get(key)) == value, (name, key)
        if name.startswith(("v2", "legacy", "plain_manifest")):
            assert cache.descriptor is not None
            assert cache.descriptor.compat_json == facts["descriptor_compat_json"]
            assert cache.descriptor.compat_sha256 == facts["descriptor_compat_sha256"]
            assert cache.descriptor.dtype == facts["descriptor"]["dtype"]
            assert name in repr(cache)
            assert name in repr(apt.TorchCacheDataset(cache))
    assert apt.TorchCache(fixture("plain_no_cache").path).descriptor is None
    settings = apt.TorchCache(fixture("v2_derivatives_f64_two").path).info
    assert settings["energy_filter_enabled"] is True


def test_batches_of_a_cache(fixture: Fixtures) -> None:
    expected = fixture("v2_both_f64_three")
    cache = apt.TorchCache(expected.path)
    batch = cache.batch([4, 0])
    assert {*DERIVATIVES, "features"} < set(batch.keys())
    assert "energy" not in batch
    expected.assert_rows(batch, [4, 0], np.array([0, 1, 6]))
    assert set(cache.batch([1], fields=["features"]).keys()) & set(DERIVATIVES) == set()


def test_neighbors_beside_the_rows(fixture: Fixtures) -> None:
    """Edges of a search of one's own, and those of the file, in one batch."""
    expected = fixture("v2_both_f64_three")
    batch = dataset_of(expected, neighbors=apt.NeighborList(3.2)).batch(range(11))
    expected.assert_rows(batch, range(11), batch.ptr.numpy())
    alone = dataset_of(expected, fields=["cell", "pbc"], neighbors=apt.NeighborList(3.2))
    assert_same(batch.edge_index, alone.batch(range(11)).edge_index, "edge_index")
    assert batch.edge_index.shape[1] > 0


def test_mixture_of_two_caches(fixture: Fixtures) -> None:
    first, second = fixture("v2_both_f64_three"), fixture("v2_both_f64_unwrapped")
    fields = ["energy", "force_derivatives"]
    parts = [dataset_of(fixture, fields=fields) for fixture in (first, first)]
    mixture = apt.MixtureDataset(parts)
    batch = mixture.batch(range(6))
    assert batch.source.tolist() == [0, 1] * 3
    assert batch.index.tolist() == [0, 0, 1, 1, 2, 2]
    alone = parts[0].batch(batch.index)
    for name in DERIVATIVES:
        assert_same(batch[name], alone[name], name)
    unlike = apt.MixtureDataset([parts[0], dataset_of(second, fields=fields)]).batch(range(4))
    for source, rows in zip(unlike.source.tolist(), unlike.radial_dG_drij, strict=True):  # jagged
        assert rows is None or rows.shape[1] == (4, 5)[source]


def test_a_section_that_is_switched_off(folder: Path) -> None:
    cache = apt.TorchCache(folder / "damaged" / "section_without_flag.h5")
    assert not cache.has_features
    assert "features" not in apt.TorchCacheDataset(cache).batch([0])
    assert cache.load_force_derivatives(0) is not None


def test_no_file_and_no_cache(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        apt.TorchCache(tmp_path / "none.h5")
    with pytest.raises(OSError, match="directory"):
        apt.TorchCache(tmp_path)
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(apt.UnsupportedFormatError, match=r"text\.h5.*got a text file"):
        apt.TorchCacheDataset(tmp_path / "text.h5")
