"""Legacy caches written in schema 2: the same entries and derivatives, to the bit."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
import torch

import atompack_torch as apt
from atompack_torch.fields import DERIVATIVES
from atompack_torch.formats.torch_cache.upgrade import upgrade_cache
from atompack_torch.formats.torch_cache.verification import verify_cache

FORCES = "force_derivatives"


@pytest.fixture
def legacy(fixtures: Path, tmp_path: Path) -> Path:
    path = tmp_path / "old.h5"
    shutil.copyfile(fixtures.parent / "torch_cache" / "legacy_v1_f64_two.h5", path)
    return path


def columns(file: h5py.File, group: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for part in ("radial", "angular"):
        for name, dataset in file[f"{group}/{part}"].items():
            found[f"{part}/{name}"] = [dataset[row] for row in range(len(dataset))]
    return found


@pytest.mark.parametrize("features", [False, True])
def test_entries_and_derivatives_are_the_same(legacy: Path, tmp_path: Path, features: bool) -> None:
    new = tmp_path / "new.h5"
    cache = upgrade_cache(legacy, new, features=features, progress=False)
    old = apt.TorchCache(legacy)
    assert cache.has_features == features
    assert cache.info["schema_version"] == 2
    for name in ("descriptor_compat_json", "descriptor_compat_sha256", "storage_dtype"):
        assert cache.info[name] == old.info[name]
    ours, theirs = apt.TorchCacheDataset(new)[:], apt.TorchCacheDataset(legacy)[:]
    assert set(ours.keys()) - set(theirs.keys()) == ({"features"} if features else set())
    for name in theirs.keys():
        if isinstance(theirs[name], torch.Tensor):
            assert torch.equal(torch.nan_to_num(ours[name]), torch.nan_to_num(theirs[name])), name
            assert ours[name].dtype == theirs[name].dtype
        else:
            assert ours[name] == theirs[name]
    for name in ("energy", "forces", "cell", "name", *DERIVATIVES):
        if name in theirs:
            assert torch.equal(ours.mask(name), theirs.mask(name)), name
    if features:
        descriptor = cache.descriptor
        assert descriptor is not None
        assert torch.equal(ours.features, descriptor.compute(ours).features)
    found = verify_cache(new)
    assert (found.ok, found.warnings) == (True, [])
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["new.h5", "old.h5"]


def test_read_by_h5py(legacy: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.h5"
    upgrade_cache(legacy, new, progress=False)
    with h5py.File(legacy) as old, h5py.File(new) as file:
        ours, theirs = columns(file, f"torch_cache/{FORCES}"), columns(old, FORCES)
        assert list(ours) == list(theirs)
        for name, rows in theirs.items():
            assert [row.tobytes() for row in ours[name]] == [row.tobytes() for row in rows], name
        index = file[f"torch_cache/{FORCES}/index"][:]
        expected = old[f"{FORCES}/index"][:]
        for column in expected.dtype.names:
            assert index[column].tolist() == expected[column].tolist()
        for column in ("energy", "has_forces", "n_atoms", "name"):
            ours_, theirs_ = (f["entries/meta"][column].tolist() for f in (file, old))
            np.testing.assert_equal(ours_, theirs_)
        assert file["descriptor_manifest"].attrs["schema_version"] == 1


def test_read_by_pytables(legacy: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.h5"
    upgrade_cache(legacy, new, features=True, progress=False)
    ours = apt.TorchCache(new)
    with tables.open_file(str(new)) as file:
        cache = file.root.torch_cache
        assert cache._v_attrs.cache_format == "aenet.torch_training.cache.v2"
        assert bool(cache._v_attrs.contains_features)
        assert bool(cache._v_attrs.contains_force_derivatives)
        for row, entry in enumerate(cache.force_derivatives.index.col("entry_idx")):
            rows = ours.load_force_derivatives(int(entry))
            assert rows is not None
            stored = cache.force_derivatives.angular.grads_k[row]
            assert stored.tobytes() == rows["angular_grads_k"].numpy().tobytes()
        for entry in range(len(ours)):
            features = ours.load_features(entry)
            assert features is not None
            assert cache.features["values"][entry].tobytes() == features.numpy().tobytes()


def test_single_precision_stays(legacy: Path, tmp_path: Path) -> None:
    with h5py.File(legacy, "r+") as file:
        file[FORCES].attrs["storage_dtype"] = "float32"
        for part in ("radial", "angular"):
            group = file[f"{FORCES}/{part}"]
            for name in [n for n in group if group[n].dtype.metadata["vlen"] == np.float64]:
                rows = [group[name][row].astype(np.float32) for row in range(len(group[name]))]
                del group[name]
                made = group.create_dataset(
                    name, (len(rows),), h5py.vlen_dtype(np.float32), chunks=(4,), maxshape=(None,)
                )
                for row, values in enumerate(rows):
                    made[row] = values
    cache = upgrade_cache(legacy, tmp_path / "new.h5", features=True, progress=False)
    assert cache.info["storage_dtype"] == "float32"
    features = cache.load_features(0)
    assert features is not None
    assert features.dtype == torch.float32
    with h5py.File(legacy) as old, h5py.File(tmp_path / "new.h5") as file:
        ours, theirs = columns(file, f"torch_cache/{FORCES}"), columns(old, FORCES)
        for name, rows in theirs.items():
            assert [row.tobytes() for row in ours[name]] == [row.tobytes() for row in rows], name
    assert verify_cache(tmp_path / "new.h5").ok


def drop_last_row(file: h5py.File) -> None:
    index = file[f"{FORCES}/index"][:-1]
    del file[f"{FORCES}/index"]
    file.create_dataset(f"{FORCES}/index", data=index, chunks=(2,), maxshape=(None,))
    for part in ("radial", "angular"):
        for dataset in file[f"{FORCES}/{part}"].values():
            dataset.resize((len(index),))


def another_class(file: h5py.File) -> None:
    attributes = file[FORCES].attrs
    text = json.dumps({"descriptor_class": "some.Other"})
    attributes["descriptor_compat_json"] = text
    attributes["descriptor_compat_sha256"] = hashlib.sha256(text.encode()).hexdigest()


def other_counts(file: h5py.File) -> None:
    attributes = file[FORCES].attrs
    attributes["n_radial_features"] = attributes["n_radial_features"] - 1
    attributes["n_angular_features"] = attributes["n_angular_features"] + 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            drop_last_row,
            apt.FieldError,
            r"expected a row for an entry with forces, got none \(molecule 2, ",
        ),
        (another_class, apt.UnsupportedFormatError, "settings of a ChebyshevDescriptor"),
        (other_counts, apt.CorruptFileError, "expected 5 radial and 4 angular .*, got 4 and 5"),
    ],
)
def test_what_is_refused(
    legacy: Path, tmp_path: Path, change: Any, error: type[Exception], message: str
) -> None:
    with h5py.File(legacy, "r+") as file:
        change(file)
    with pytest.raises(error, match=message) as caught:
        upgrade_cache(legacy, tmp_path / "new.h5", progress=False)
    assert str(caught.value).startswith(f"{legacy}: ")
    assert not (tmp_path / "new.h5").exists()


@pytest.mark.parametrize(
    ("name", "got"), [("v2_both_f64_two", "got schema 2"), ("plain_no_cache", "got no cache")]
)
def test_other_files_are_refused(fixtures: Path, tmp_path: Path, name: str, got: str) -> None:
    source = fixtures.parent / "torch_cache" / f"{name}.h5"
    with pytest.raises(apt.UnsupportedFormatError, match=got):
        upgrade_cache(source, tmp_path / "new.h5")
    assert not (tmp_path / "new.h5").exists()
