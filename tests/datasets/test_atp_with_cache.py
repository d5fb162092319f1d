"""AtpDataset(cache=...): labels from .atp files, features and derivatives from an HDF5 file."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.cache_fixture import DERIVATIVES, CacheFixture
from reference.compare import assert_same
from torch.utils.data import DataLoader

import atompack_torch as apt

NewPath = Callable[[], Path]
EVERYTHING = range(11)


@pytest.fixture(scope="module")
def expected(fixtures: Path) -> CacheFixture:
    return CacheFixture(fixtures.parent / "torch_cache", "v2_both_f64_three")


@pytest.fixture(scope="module")
def cache(expected: CacheFixture) -> apt.TorchCache:
    return apt.TorchCache(expected.path)


def write(path: Path, expected: CacheFixture, entries: Sequence[int], **options: Any) -> Path:
    """The entries' molecules, with a custom property of their own."""
    with apt.AtpWriter(path, **options) as writer:
        for k in entries:
            writer.write(
                apt.Molecule(
                    expected.array(k, "positions"),
                    expected.numbers(k),
                    energy=expected.label(k, "energy"),
                    forces=expected.label(k, "forces"),
                    cell=expected.label(k, "cell"),
                    pbc=expected.label(k, "pbc"),
                    properties={"gap": k / 2},
                )
            )
    return path


@pytest.fixture(scope="module")
def path(new_path: NewPath, expected: CacheFixture) -> Path:
    return write(new_path(), expected, EVERYTHING)


def assert_joined(batch: Any, expected: CacheFixture, entries: Sequence[int]) -> None:
    """The file's own labels beside the rows of the cache."""
    assert batch.index.tolist() == [*entries]
    expected.assert_rows(batch, entries, batch.ptr.numpy())
    for name in ("energy", "forces", "cell"):
        values = [expected.label(k, name) for k in entries]
        assert batch.mask(name).tolist() == [value is not None for value in values]
        there = [np.ravel(value) for value in values if value is not None] or [np.empty(0)]
        has = batch.mask(name) if name != "forces" else batch.mask(name)[batch.batch]
        assert_same(batch[name][has].flatten(), torch.from_numpy(np.concatenate(there)), name)
    assert batch.gap.tolist() == [k / 2 for k in entries]


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_batches(new_path: NewPath, expected: CacheFixture, cache: Any, codec: str | None) -> None:
    path = write(new_path(), expected, EVERYTHING, codec=codec)
    dataset = apt.AtpDataset(path, cache=cache)
    for entries in ([*EVERYTHING], [10, 0, 10], [4]):
        assert_joined(dataset.batch(entries), expected, entries)
        alone = cache.batch(entries)
        for name in (*DERIVATIVES, "features"):
            assert_same(dataset.batch(entries)[name], alone[name], name)
    assert dataset.schema["features"] == apt.FieldSpec(torch.float64, "atom", (14,))
    assert_same(dataset[7].features, cache.load_features(7), "features")
    rows = cache.load_force_derivatives(7)
    for name, value in rows.items():
        assert_same(dataset[7][name], value, name)
    assert dataset[1].radial_dG_drij is None


def test_choice_of_fields(path: Path, cache: Any) -> None:
    chosen = apt.AtpDataset(path, cache=cache, fields=["energy", "features"]).batch([0])
    assert {"energy", "features"} <= set(chosen.keys())
    assert not {"forces", "gap", *DERIVATIVES} & set(chosen.keys())
    without = apt.AtpDataset(path, cache=cache, exclude=["force_derivatives"]).batch([0])
    assert "features" in without
    assert not set(DERIVATIVES) & set(without.keys())
    narrow = apt.AtpDataset(path, cache=cache, dtype=torch.float32).batch([0])
    assert narrow.features.dtype == narrow.radial_dG_drij.dtype == torch.float32
    with pytest.raises(apt.FieldError, match="features"):
        apt.AtpDataset(path, fields=["features"])


def test_missing(path: Path, expected: CacheFixture, cache: Any) -> None:
    fields = ["energy", "features", "force_derivatives"]
    there = [0, 2, 3, 4, 5, 6, 7, 9, 10]
    dropped = apt.AtpDataset(path, cache=cache, fields=fields, missing="drop").batch(EVERYTHING)
    assert dropped.index.tolist() == there
    expected.assert_rows(dropped, there, dropped.ptr.numpy())
    strict = apt.AtpDataset(path, cache=cache, fields=fields, missing="error")
    expected.assert_rows(strict.batch(there), there, dropped.ptr.numpy())
    with pytest.raises(apt.FieldError, match="molecule 8"):
        strict.batch([0, 8])


def test_several_shards(tmp_path: Path, expected: CacheFixture, cache: Any) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, entries in enumerate((range(4), range(4, 5), range(5, 11))):
        codec = ("none", "lz4", "zstd")[number]
        write(folder / f"{number}.atp", expected, entries, codec=codec)
    dataset = apt.AtpDataset(folder, cache=cache)
    assert_joined(dataset.batch(EVERYTHING), expected, [*EVERYTHING])
    assert_joined(dataset.batch([9, 3, 4]), expected, [9, 3, 4])
    batch = dataset.subset([9, 3, 4]).batch([2, 0])
    assert_joined(batch, expected, [4, 9])


def test_with_neighbors(path: Path, expected: CacheFixture, cache: Any) -> None:
    neighbors = apt.NeighborList(3.0, vectors=True)
    batch = apt.AtpDataset(path, cache=cache, neighbors=neighbors).batch(EVERYTHING)
    assert_joined(batch, expected, [*EVERYTHING])
    alone = apt.AtpDataset(path, neighbors=neighbors).batch(EVERYTHING)
    for name in ("edge_index", "edge_shift", "edge_vector"):
        assert_same(batch[name], alone[name], name)
    assert batch.edge_index.shape[1] > 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(path: Path, expected: CacheFixture, cache: Any, method: str) -> None:
    dataset = apt.AtpDataset(path, cache=cache)
    assert len(pickle.dumps(dataset)) < 1500
    assert_joined(dataset.batch(EVERYTHING), expected, [*EVERYTHING])
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=method)
    seen = []
    for batch in loader:
        seen += batch.index.tolist()
        assert_joined(batch, expected, batch.index.tolist())
    assert seen == [*EVERYTHING]


def test_native_loader(path: Path, expected: CacheFixture, cache: Any) -> None:
    dataset = apt.AtpDataset(path, cache=cache, num_threads=1)
    for batch in apt.Loader(dataset, 4, shuffle=True, num_threads=2):
        assert_joined(batch, expected, batch.index.tolist())
    batches = [dataset.batch([k]) for k in EVERYTHING]
    assert_joined(apt.collate(batches), expected, [*EVERYTHING])


def test_other_numbers_of_molecules(new_path: NewPath, expected: CacheFixture, cache: Any) -> None:
    for entries in (range(10), [*EVERYTHING, 0]):
        path = write(new_path(), expected, entries)
        with pytest.raises(apt.FieldError, match=f"each of {len(entries)} molecules, got 11"):
            apt.AtpDataset(path, cache=cache)


def test_other_numbers_of_atoms(new_path: NewPath, expected: CacheFixture, cache: Any) -> None:
    path = write(new_path(), expected, [0, 2, 1, *range(3, 11)])
    dataset = apt.AtpDataset(path, cache=cache)
    dataset.batch([0, 3])
    with pytest.raises(apt.FieldError, match=r"entry of 4 atoms, got 3 .*molecule 1\b"):
        dataset.batch([0, 1])
    with pytest.raises(apt.FieldError, match="got 3"):
        list(DataLoader(dataset, batch_size=11, num_workers=1))


def test_a_file_that_grew(new_path: NewPath, expected: CacheFixture, cache: Any) -> None:
    path = write(new_path(), expected, EVERYTHING)
    dataset = apt.AtpDataset(path, cache=cache)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.Molecule(np.zeros((1, 3)), [1]))
    assert_joined(dataset.batch(EVERYTHING), expected, [*EVERYTHING])
    dataset.refresh()
    with pytest.raises(apt.FieldError, match="each of 12 molecules, got 11"):
        dataset.batch([0])


def test_what_is_no_cache(path: Path) -> None:
    with pytest.raises(TypeError, match="expected a TorchCache, got str"):
        apt.AtpDataset(path, cache=str(path))  # type: ignore[arg-type]
