"""AtpDataset(features=...): labels from .atp files, features and derivatives from an HDF5 file."""

from __future__ import annotations

import pickle
import shutil
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
from atompack_torch.fields import FieldSpec

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
    """The file's own labels next to the rows of the cache."""
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
    dataset = apt.AtpDataset(path, features=cache)
    for entries in ([*EVERYTHING], [10, 0, 10], [4]):
        assert_joined(dataset.batch(entries), expected, entries)
        alone = cache.batch(entries)
        for name in (*DERIVATIVES, "features"):
            assert_same(dataset.batch(entries)[name], alone[name], name)
    assert dataset.schema["features"] == FieldSpec(torch.float64, "atom", (14,))
    assert_same(dataset[7].features, cache.load_features(7), "features")
    rows = cache.load_force_derivatives(7)
    for name, value in rows.items():
        assert_same(dataset[7][name], value, name)
    assert dataset[1].radial_dG_drij is None


def test_choice_of_fields(path: Path, cache: Any) -> None:
    chosen = apt.AtpDataset(path, features=cache, fields=["energy", "features"]).batch([0])
    assert {"energy", "features"} <= set(chosen.keys())
    assert not {"forces", "gap", *DERIVATIVES} & set(chosen.keys())
    without = apt.AtpDataset(path, features=cache, exclude=["force_derivatives"]).batch([0])
    assert "features" in without
    assert not set(DERIVATIVES) & set(without.keys())
    narrow = apt.AtpDataset(path, features=cache, dtype=torch.float32).batch([0])
    assert narrow.features.dtype == narrow.radial_dG_drij.dtype == torch.float32
    with pytest.raises(apt.FieldError, match="features"):
        apt.AtpDataset(path, fields=["features"])


def test_missing(path: Path, expected: CacheFixture, cache: Any) -> None:
    fields = ["energy", "features", "force_derivatives"]
    there = [0, 2, 3, 4, 5, 6, 7, 9, 10]
    dropped = apt.AtpDataset(path, features=cache, fields=fields, missing="drop").batch(EVERYTHING)
    assert dropped.index.tolist() == there
    expected.assert_rows(dropped, there, dropped.ptr.numpy())
    strict = apt.AtpDataset(path, features=cache, fields=fields, missing="error")
    expected.assert_rows(strict.batch(there), there, dropped.ptr.numpy())
    with pytest.raises(apt.FieldError, match="molecule 8"):
        strict.batch([0, 8])


def test_several_shards(tmp_path: Path, expected: CacheFixture, cache: Any) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, entries in enumerate((range(4), range(4, 5), range(5, 11))):
        codec = ("none", "lz4", "zstd")[number]
        write(folder / f"{number}.atp", expected, entries, codec=codec)
    dataset = apt.AtpDataset(folder, features=cache)
    assert_joined(dataset.batch(EVERYTHING), expected, [*EVERYTHING])
    assert_joined(dataset.batch([9, 3, 4]), expected, [9, 3, 4])
    batch = dataset.subset([9, 3, 4]).batch([2, 0])
    assert_joined(batch, expected, [4, 9])


def test_with_neighbors(path: Path, expected: CacheFixture, cache: Any) -> None:
    neighbors = apt.NeighborList(3.0, vectors=True)
    batch = apt.AtpDataset(path, features=cache, neighbors=neighbors).batch(EVERYTHING)
    assert_joined(batch, expected, [*EVERYTHING])
    alone = apt.AtpDataset(path, neighbors=neighbors).batch(EVERYTHING)
    for name in ("edge_index", "edge_shift", "edge_vector"):
        assert_same(batch[name], alone[name], name)
    assert batch.edge_index.shape[1] > 0


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.exhaustive)])
def test_workers(path: Path, expected: CacheFixture, cache: Any, method: str) -> None:
    dataset = apt.AtpDataset(path, features=cache)
    assert len(pickle.dumps(dataset)) < 1500
    assert_joined(dataset.batch(EVERYTHING), expected, [*EVERYTHING])
    loader = DataLoader(dataset, batch_size=4, num_workers=2, multiprocessing_context=method)
    seen = []
    for batch in loader:
        seen += batch.index.tolist()
        assert_joined(batch, expected, batch.index.tolist())
    assert seen == [*EVERYTHING]


def test_native_loader(path: Path, expected: CacheFixture, cache: Any) -> None:
    dataset = apt.AtpDataset(path, features=cache, num_threads=1)
    for batch in apt.Loader(dataset, 4, shuffle=True, num_threads=2):
        assert_joined(batch, expected, batch.index.tolist())
    batches = [dataset.batch([k]) for k in EVERYTHING]
    assert_joined(apt.collate(batches), expected, [*EVERYTHING])


def test_other_numbers_of_molecules(new_path: NewPath, expected: CacheFixture, cache: Any) -> None:
    for entries in (range(10), [*EVERYTHING, 0]):
        path = write(new_path(), expected, entries)
        with pytest.raises(apt.FieldError, match=f"each of {len(entries)} molecules, got 11"):
            apt.AtpDataset(path, features=cache)


def test_other_numbers_of_atoms(new_path: NewPath, expected: CacheFixture, cache: Any) -> None:
    path = write(new_path(), expected, [0, 2, 1, *range(3, 11)])
    dataset = apt.AtpDataset(path, features=cache)
    dataset.batch([0, 3])
    with pytest.raises(apt.FieldError, match=r"entry of 4 atoms, got 3 .*molecule 1\b"):
        dataset.batch([0, 1])
    with pytest.raises(apt.FieldError, match="got 3"):
        list(DataLoader(dataset, batch_size=11, num_workers=1))


def test_a_file_that_grew(new_path: NewPath, expected: CacheFixture, cache: Any) -> None:
    path = write(new_path(), expected, EVERYTHING)
    dataset = apt.AtpDataset(path, features=cache)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.Molecule(np.zeros((1, 3)), [1]))
    assert_joined(dataset.batch(EVERYTHING), expected, [*EVERYTHING])
    dataset.refresh()
    with pytest.raises(apt.FieldError, match="each of 12 molecules, got 11"):
        dataset.batch([0])


# Molecules that the cache was not made of


def small_molecules(edit: str = "none", dtype: Any = np.float64) -> list[apt.Molecule]:
    """Three molecules of three atoms, and what an edit makes of them."""
    made = []
    for k in range(3):
        positions = np.array([[0, 0, 0], [1 + k / 10, 0, 0], [0, 1.1, k / 10]]) + 40
        numbers, labels = [8, 1, 1], {"energy": -1.0 - k, "cell": 9 * np.eye(3), "pbc": [True] * 3}
        if k == 1 and edit == "moved":
            positions[2, 0] += 1e-3
        elif k == 1 and edit == "wrapped":
            positions -= 9
        elif k == 1 and edit == "elements":
            numbers = [1, 8, 1]
        elif k == 1 and edit == "cell":
            labels["cell"] = 9.1 * np.eye(3)
        elif k == 1 and edit in ("energy", "all"):
            labels["energy"] = -7.0
        if k == 1 and edit == "all":
            positions += 0.1
        made.append(apt.Molecule(positions.astype(dtype), numbers, **labels))
    return [made[i] for i in (0, 2, 1)] if edit == "order" else made


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> apt.TorchCache:
    folder = tmp_path_factory.mktemp("own")
    with apt.AtpWriter(folder / "a.atp") as writer:
        writer.write(small_molecules())
    descriptor = apt.ChebyshevDescriptor(["O", "H"], 2, 3.0, 1, 2.0)
    return apt.build_cache(
        apt.AtpDataset(folder / "a.atp"), descriptor, folder / "a.h5", progress=False
    )


def foreign(path: Path, cache: apt.TorchCache) -> apt.TorchCache:
    """The same cache with structures as Python pickles them."""
    h5py = pytest.importorskip("h5py")
    shutil.copy(cache.path, path)
    with h5py.File(path, "r+") as file:
        structures = file["entries/structures"]
        for k in range(len(structures)):
            # A frame, of a length that readers skip, after the number of the protocol.
            old = bytes(structures[k])
            framed = old[:2] + b"\x95" + (len(old) - 2).to_bytes(8, "little") + old[2:]
            structures[k] = np.frombuffer(framed, np.uint8)
    return apt.TorchCache(path)


def joined(path: Path, cache: apt.TorchCache, edit: str, **options: Any) -> apt.AtpDataset:
    with apt.AtpWriter(path) as writer:
        writer.write(small_molecules(edit))
    return apt.AtpDataset(path, features=cache, **options)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        ("moved", "positions"),
        ("wrapped", "positions"),
        ("cell", "cell"),
        ("order", "positions"),
        ("elements", "elements"),
    ],
)
def test_other_molecules(tmp_path: Path, own_cache: Any, edit: str, what: str) -> None:
    dataset = joined(tmp_path / "b.atp", own_cache, edit, fields=["features"])
    assert_same(dataset.batch([0]).features, own_cache.load_features(0), "features")
    message = rf"b\.atp: cache: expected the .*{what}.* of entry 1 of .*a\.h5.*\(molecule 1\b"
    for _ in range(2):
        with pytest.raises(apt.FieldError, match=message):
            dataset.batch([0, 1])
    for read in (lambda: dataset[1], lambda: list(apt.Loader(dataset.subset([1]), 1))):
        with pytest.raises(apt.FieldError, match=message):
            read()


@pytest.mark.parametrize("edit", ["none", "energy"])
def test_the_same_molecules(tmp_path: Path, own_cache: Any, edit: str) -> None:
    """In narrower types, with other labels, in a different format."""
    dataset = joined(tmp_path / "b.atp", own_cache, edit)
    expected = dataset[:].features
    assert len(dataset[:]) == 3
    narrow = tmp_path / "narrow.atp"
    with apt.AtpWriter(narrow, codec="zstd") as writer:
        writer.write(small_molecules(edit, np.float32))
    apt.convert(narrow, tmp_path / "c.xyz", progress=False)
    for other in (
        apt.AtpDataset(narrow, features=own_cache),
        apt.ExtxyzDataset(tmp_path / "c.xyz", features=own_cache),
        apt.AtpDataset(narrow, features=own_cache, dtype=torch.float16),
    ):
        assert_same(other[:].features, expected.to(other[:].features.dtype), "features")


@pytest.mark.parametrize(
    ("edit", "fits"),
    [("none", True), ("wrapped", True), ("energy", True), ("all", False), ("elements", False)],
)
def test_caches_of_other_programs(tmp_path: Path, own_cache: Any, edit: str, fits: bool) -> None:
    """They may hold positions in another form; then the energy has to be the same."""
    dataset = joined(tmp_path / "b.atp", foreign(tmp_path / "f.h5", own_cache), edit)
    if fits:
        assert len(dataset[:]) == 3
        return
    with pytest.raises(apt.FieldError, match=r"cache: expected the .* of entry 1 "):
        dataset[:]


def test_what_is_no_cache(path: Path) -> None:
    with pytest.raises(apt.UnsupportedFormatError, match="expected a feature cache"):
        apt.AtpDataset(path, features=str(path))
    with pytest.raises(TypeError, match=r"features: expected a TorchCache, .* got bytes"):
        apt.AtpDataset(path, features=b"features.h5")  # type: ignore[arg-type]
