"""AtlasDataset: batches against the slow reference, subsets, transforms, keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.atlas_fixture import AtlasFixture
from reference.column_scan import scan
from reference.compare import assert_same

import atompack_torch as apt

ARRAYS = ["depth", "quality", "salinity", "label"]


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


@pytest.fixture(scope="module")
def profiles(folder: Path) -> AtlasFixture:
    return AtlasFixture(folder, "profile_zstd_json_lz4")


@pytest.fixture(scope="module")
def sensors(folder: Path) -> AtlasFixture:
    return AtlasFixture(folder, "sensors_lz4_json_zst")


def assert_batch(
    batch: dict[str, Any],
    expected: AtlasFixture,
    numbers: list[int],
    arrays: list[str],
    layout: str = "jagged",
    **options: Any,
) -> None:
    """Keys and values of a batch of the datasets of these numbers."""
    names = [expected.datasets[i] for i in numbers]
    keys = {"name"}
    assert batch["name"] == names
    for array in arrays:
        want = scan(expected.column(array, names) if names else [], layout=layout, **options)
        assert_same(batch[array], want.values, array)
        assert_same(batch[f"{array}_mask"], want.mask, f"mask of {array}")
        keys |= {array, f"{array}_mask"}
        if want.offsets is not None:
            assert_same(batch[f"{array}_offsets"], want.offsets, f"offsets of {array}")
            keys.add(f"{array}_offsets")
    assert set(batch) == keys


@pytest.mark.parametrize("layout", ["jagged", "list"])
def test_batches(profiles: AtlasFixture, layout: Any) -> None:
    dataset = apt.AtlasDataset(profiles.path, ARRAYS, layout=layout)
    assert len(dataset) == len(profiles.datasets)
    rng = np.random.default_rng(1)
    for _ in range(8):
        numbers = [0, *rng.integers(0, len(dataset), rng.integers(1, 12)).tolist()]
        for indices in (numbers, torch.tensor(numbers), np.array(numbers)):
            assert_batch(dataset.batch(indices), profiles, numbers, ARRAYS, layout)
        behind = [i - len(dataset) for i in numbers]
        assert_batch(dataset.batch(behind), profiles, numbers, ARRAYS, layout)
    (batch,) = dataset.__getitems__([2, 0])
    assert_batch(batch, profiles, [2, 0], ARRAYS, layout)


def test_slices_and_single_datasets(profiles: AtlasFixture) -> None:
    dataset = apt.AtlasDataset(profiles.path, ARRAYS, layout="jagged", start=[2], shape=[5])
    options = {"start": [2], "shape": [5]}
    assert_batch(dataset[:11:5], profiles, [0, 5, 10], ARRAYS, **options)
    for number in (0, 4, -1):
        single, name = dataset[number], profiles.datasets[number]
        want = [scan([profiles.value(name, a)], **options, layout="list").values[0] for a in ARRAYS]
        assert list(single) == [*ARRAYS, "name"]
        assert_same([single[a] for a in ARRAYS], want, name)
        assert single["name"] == name
    assert (dataset.arrays, dataset.store.path) == (tuple(ARRAYS), profiles.path)
    assert repr(dataset) == f"AtlasDataset({dataset.store!r}, {', '.join(ARRAYS)})"


def test_stacked_scalars_and_casts(sensors: AtlasFixture) -> None:
    arrays = ["value", "count", "code", "t0"]
    numbers = [3, 0, 59, 7]
    dataset = apt.AtlasDataset(apt.AtlasStore(sensors.path), arrays)
    assert_batch(dataset.batch(numbers), sensors, numbers, arrays, "stacked")
    cast = apt.AtlasDataset(sensors.path, arrays, dtype=torch.float32)
    assert_batch(cast.batch(numbers), sensors, numbers, arrays, "stacked", dtype=torch.float32)
    storages = {cast.batch(numbers)[a].untyped_storage().nbytes() for a in arrays}
    assert len(storages) == 1
    with pytest.raises(apt.FieldError, match="cannot be cast to int16"):
        apt.AtlasDataset(sensors.path, arrays, dtype=torch.int16).batch([0])


def test_keys_that_clash(tmp_path: Path, folder: Path) -> None:
    path = str(folder / "tiny_json")
    for arrays in (["t", "t"], ["name", "t"], ["t", "t_mask"]):
        with pytest.raises(ValueError, match="two keys of a batch would be called"):
            apt.AtlasDataset(path, arrays)
    with pytest.raises(ValueError, match="t_offsets"):
        apt.AtlasDataset(path, ["t", "t_offsets"], layout="jagged")
    with pytest.raises(TypeError, match="expected a list of names, got 't'"):
        apt.AtlasDataset(path, "t")
    with pytest.raises(apt.FieldError, match="no dataset has an array 'x'"):
        apt.AtlasDataset(path, ["t", "x"])
    with pytest.raises(ValueError, match="layout: expected one of"):
        apt.AtlasDataset(path, ["t"], layout="flat")  # type: ignore[arg-type]


def test_batches_that_cannot_be_joined(profiles: AtlasFixture) -> None:
    dataset = apt.AtlasDataset(profiles.path, ["depth"])
    with pytest.raises(apt.FieldError, match="shapes in a stacked column"):
        dataset.batch(range(len(dataset)))


def test_block_sizes(folder: Path, sensors: AtlasFixture) -> None:
    """Consecutive datasets in the same block; random order reads those together."""
    small = apt.AtlasDataset(sensors.path, ["value"])
    assert small.block_sizes.tolist() == [60]
    wide = apt.AtlasDataset(folder / "blocks_zstd", ["wide"])
    assert wide.block_sizes.sum() == len(wide)
    assert len(wide.block_sizes) > 1
    sampler = apt.BlockShuffleSampler(wide.block_sizes, window=1, seed=1)
    assert sorted(sampler) == [*range(len(wide))]
    part = wide.subset([2, 0])
    assert part.block_sizes.sum() == 2
