"""Mean, spread and range of stored features, next to NumPy's."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.datasets.statistics import Spread

N = 5000  # more than two chunks of the pass


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("features")
    rng = np.random.default_rng(0)
    with apt.AtpWriter(folder / "a.atp") as writer:
        for _ in range(N):
            n = int(rng.integers(1, 6))
            positions = rng.uniform(0, 3, (n, 3))
            writer.write(apt.Molecule(positions, rng.choice([1, 6, 8], n), energy=1.0))
    descriptor = apt.ChebyshevDescriptor(["O", "H", "C"], 3, 3.5, 2, 2.5)
    dataset = apt.AtpDataset(folder / "a.atp")
    apt.build_cache(dataset, descriptor, folder / "a.h5", progress=False)
    return folder / "a.atp", folder / "a.h5"


def _expect(found: Any, features: torch.Tensor) -> None:
    rows = features.double().numpy()
    assert len(found) == rows.shape[1]
    for column, spread in enumerate(found):
        values = rows[:, column]
        assert spread.count == len(values)
        assert spread.n_non_finite == 0
        assert (spread.min, spread.max) == (values.min(), values.max())
        scale = np.abs(values).max()
        assert abs(spread.mean - values.mean()) <= 1e-12 * scale
        assert abs(spread.std - values.std()) <= 1e-12 * scale


def test_equal_to_numpy(files: tuple[Path, Path]) -> None:
    atp, cache = files
    whole = apt.TorchCacheDataset(cache)
    part = whole.subset(range(10, N, 3))
    joined = apt.AtpDataset(atp, features=apt.TorchCache(cache))
    kept = apt.TorchCacheDataset(cache, features=apt.Features(keep="all"))
    plain = apt.TorchCacheDataset(cache, fields=["energy"])
    for dataset in (whole, part, joined, kept):
        found = dataset.statistics(features=True)
        _expect(found.features, dataset[:].features)
        assert dataclasses.replace(found, features=None) == dataset.statistics()
    _expect(plain.statistics(features=True).features, whole[:].features)


def test_any_number_of_threads(files: tuple[Path, Path]) -> None:
    found = [
        apt.TorchCacheDataset(files[1], num_threads=n).statistics(features=True)
        for n in (1, 2, 3, 7)
    ]
    assert all(one == found[0] for one in found), "bit for bit"


def test_without_features(files: tuple[Path, Path]) -> None:
    descriptor = apt.ChebyshevDescriptor(["O", "H", "C"], 1, 3.5, 1, 2.5)
    for options in ({}, {"features": descriptor}):
        dataset = apt.AtpDataset(files[0], **options)
        with pytest.raises(apt.FieldError, match="features: expected stored ones"):
            dataset.statistics(features=True)
    empty = apt.TorchCacheDataset(files[1]).subset([])
    assert empty.statistics(features=True).features == ()


def test_columns_without_a_finite_number(files: tuple[Path, Path]) -> None:
    found = apt.TorchCacheDataset(files[1]).statistics(features=True)
    nothing = Spread(0, 3, *(math.nan,) * 5)
    document = dataclasses.replace(found, features=(nothing,)).as_dict()
    assert json.loads(json.dumps(document, allow_nan=False))["features"][0]["mean"] is None


def test_command(files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["stats", "--features", "--json", str(files[1])]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = apt.statistics(files[1], features=True).as_dict()["features"]
    assert document["features"] == expected
    assert cli.main(["stats", "--features", str(files[1])]) == 0
    assert "feature 0: " in capsys.readouterr().out
    assert cli.main(["stats", "--features", str(files[0])]) == 1
