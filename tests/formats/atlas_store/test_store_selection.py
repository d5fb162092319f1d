"""Datasets chosen by stored statistics, against a look at every value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.atlas_fixture import FIXTURES, AtlasFixture

import atompack_torch as apt
from atompack_torch.formats.atlas_store.array_schema import ArrayStatistics


@pytest.fixture(scope="module")
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


def bounds(expected: AtlasFixture, array: str) -> list[tuple[Any, Any]]:
    """Pairs around stored values."""
    seen = [v for v in flat(expected, array) if v == v]
    low, high = min(seen), max(seen)
    middle = sorted(seen, key=str)[len(seen) // 2]
    return [(None, None), (middle, None), (None, middle), (middle, middle), (high, low), (low, low)]


def flat(expected: AtlasFixture, array: str) -> list[Any]:
    return [
        v for value in expected.column(array) if value is not None for v in stored_values(value)
    ]


def stored_values(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return value.flatten().tolist()
    return np.array(value, object).reshape(-1).tolist()


def holds(value: Any, fill: Any, least: Any, most: Any) -> bool:
    """Whether any stored value lies between; values equal to the fill value count as missing."""
    return any(
        (least is None or v >= least) and (most is None or v <= most)
        for v in stored_values(value)
        if v != fill
    )


@pytest.mark.parametrize("name", FIXTURES)
def test_no_dataset_that_matches_is_left_out(folder: Path, name: str) -> None:
    """And one whose extremes lie outside is omitted, exactly when they do."""
    expected = AtlasFixture(folder, name)
    store = apt.AtlasStore(expected.path)
    for array in store.arrays:
        having = [d for d in store.datasets if array in expected.arrays_of(d)]
        assert store.select(array) == having
        if not any(v == v for v in flat(expected, array)):
            continue
        statistics = store.stats(array)
        for least, most in bounds(expected, array):
            chosen = store.select(array, min=least, max=most)
            assert chosen == [d for d in having if d in chosen]
            for dataset in having:
                fill = expected.facts(dataset, array)["fill"]
                if holds(expected.value(dataset, array), fill, least, most):
                    assert dataset in chosen, f"{array} of {dataset} for {least} to {most}"
                elif dataset in statistics and (least, most) != (None, None):
                    assert (dataset in chosen) == overlaps(statistics[dataset], least, most)


def overlaps(found: ArrayStatistics, least: Any, most: Any) -> bool:
    low, high = found.min, found.max
    if low is None or high is None:
        return False
    if isinstance(low, bytes):
        least, most = (None if b is None else b.encode() for b in (least, most))
    return not ((least is not None and high < least) or (most is not None and low > most))


def test_moments(folder: Path) -> None:
    store = apt.AtlasStore(folder / "gridded_zstd_json")
    first = np.datetime64(1_700_000_000, "s")
    assert store.select("time", max=first) == store.datasets
    assert store.select("time", max=first - np.timedelta64(1, "s")) == []
    assert store.select("time", min=first + np.timedelta64(1, "D")) == []


def test_moments_beyond_nanoseconds(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "time", "timestamp_ns", (1,))
        store.write("d", "time", np.array(["2262-04-11"], "M8[ns]"))
    store = apt.AtlasStore(tmp_path / "store")
    for least, most, names in (
        (None, "9999-01-01", ["d"]),
        ("1000", "9999", ["d"]),
        ("2262-04-12", None, []),
        ("9999", None, []),
        (None, "1000-01-01T00:00:00.000", []),
        (np.datetime64("NaT", "s"), None, ["d"]),
    ):
        bounds = (None if bound is None else np.datetime64(bound) for bound in (least, most))
        assert store.select("time", *bounds) == names


def test_arrays_never_written_may_match(folder: Path) -> None:
    store = apt.AtlasStore(folder / "empty_arrays")
    assert store.select("never", min=5.0) == ["unwritten"]
    assert store.stats("never") == {}


def test_wrong_selections(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "store", "x") as store:
        store.create_dataset("jan")
        store.define_array("jan", "t", "float32", (1,))
        store.write("jan", "t", [1.0])
    store = apt.AtlasStore(tmp_path / "store")
    for mixed in (["jan", 0], [0, "jan"]):
        with pytest.raises(TypeError, match="datasets: expected names or indices, got names and 0"):
            store.scan("t", mixed)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="datasets: expected a list of names, got the string 'jan'"):
        store.scan("t", "jan")
    assert store.scan("t", np.array(["jan"])).values.tolist() == [[1.0]]
    with pytest.raises(apt.FieldError, match="array 't': min, max: expected numbers, got 'a'"):
        store.select("t", min="a")
