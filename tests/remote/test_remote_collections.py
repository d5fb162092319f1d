"""Collections behind URLs: the footer first, then only what is needed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_server import serving
from reference.compare import assert_same
from reference.fixture_files import fixtures_root

import atompack_torch as apt

N_DATASETS = 1000


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remote")
    rng = np.random.default_rng(0)
    with apt.AtlasStore(folder / "store", "x") as store:
        for i in range(N_DATASETS):
            store.create_dataset(f"d{i}")
            store.set_attr(f"d{i}", "number", i)
            for array in ("x", "y"):
                store.define_array(f"d{i}", array, "float32", (5,))
                store.write(f"d{i}", array, rng.normal(size=5))
    apt.AtlasStore(folder / "store").export(folder / "collection", codec="none")
    return folder / "collection"


def test_a_catalogue_needs_three_requests(collection: Path) -> None:
    local = apt.AtlasStore(collection)
    with serving(collection) as server:
        store = apt.AtlasStore(f"{server.url}/data.atlas")
        assert store.datasets == local.datasets
        assert store.arrays == ["x", "y"]
        assert len(server.requests) <= 3
        scan: Any = store.scan("x")
        assert_same(scan.values, local.scan("x").values, "x")
        assert len(server.requests) <= 3 + 3
        assert store.attrs("d7") == {"number": 7}
        assert store.stats("x") == local.stats("x")


@pytest.mark.parametrize("name", ["0.16.0_removed", "0.17.2_removed"])
def test_the_mask_is_behind_the_url_too(name: str) -> None:
    folder = fixtures_root() / "atlas_today" / name
    local = apt.AtlasStore(folder)
    with serving(folder) as server:
        for url in (f"{server.url}/data.atlas", server.url):
            store = apt.AtlasStore(url)
            assert store.datasets == local.datasets
            for array in local.arrays:
                scan, want = store.scan(array, layout="list"), local.scan(array, layout="list")
                for got, value in zip(scan.values, want.values, strict=True):
                    assert_same(got, value, array)


def test_a_folder_with_a_store_and_a_collection(tmp_path: Path) -> None:
    with apt.AtlasStore(tmp_path / "both", "x") as store:
        store.create_dataset("old")
    fixtures = fixtures_root() / "atlas_today"
    shutil.copy(fixtures / "0.17.2_tiny" / "data.atlas", tmp_path / "both")
    with serving(tmp_path / "both") as server:
        with pytest.raises(apt.UnsupportedFormatError, match=r"got both: .*json and data\.atlas"):
            apt.AtlasStore(server.url)
        assert apt.AtlasStore(f"{server.url}/data.atlas").datasets == ["jan", "feb"]
