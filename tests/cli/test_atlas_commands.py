"""The commands on ATLAS stores and array files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import xarray
from reference.commands import Command

import atompack_torch as apt


@pytest.fixture
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


def test_info(folder: Path, run: Command) -> None:
    path = folder / "gridded_zstd_json"
    (found,) = run("info", path, "--json").document
    assert found["n_datasets"] == 3
    arrays = {array["name"]: array for array in found["arrays"]}
    assert arrays["elevation"]["n_datasets"] == 2
    assert (arrays["lon"]["dtype"], arrays["lon"]["shape"]) == ("float32", [7])
    assert arrays["temperature"]["shape"] is None
    text = run("info", path).out
    assert "3 datasets" in text
    assert "differs" in text


def test_head(folder: Path, run: Command) -> None:
    documents = run("head", folder / "tiny_json", "-n", "1", "--json").document
    assert documents[0]["dataset"] == "jan"
    assert documents[0]["attributes"]["n"] == 7
    assert documents[0]["attributes"]["ts"].startswith("2023-11-15T07:33:20")
    assert documents[0]["arrays"]["t"] == [[0, 1, 2], [3, 4, 5]]
    text = run("head", folder / "tiny_json").out
    assert "'cat' '' 'elephant'" in text
    assert "1 of 1 datasets" in text
    assert run(
        "head", folder / "dtypes_none", "-n", "30", "--json"
    ).document  # NaN and infinity too


def test_stats(folder: Path, run: Command) -> None:
    found = {d["array"]: d for d in run("stats", folder / "gridded_zstd_json", "--json").document}
    store = apt.AtlasStore(folder / "gridded_zstd_json").stats("temperature").values()
    assert found["temperature"]["missing"] == sum(one.null_count for one in store)
    assert found["temperature"]["max"] == max(one.max for one in store)  # type: ignore[type-var]
    assert "temperature" in run("stats", folder / "gridded_zstd_json").out
    assert run("stats", folder / "dtypes_none").out


def test_verify(folder: Path, tmp_path: Path, run: Command) -> None:
    assert run("verify", folder / "overlay_zstd", "--json").document["n_faults"] == 0
    assert "0 faults" in run("verify", folder / "blocks_zstd", folder / "attrs_msgpack").out
    assert (
        "chunk bytes: expected 8, got 4"
        in run("verify", folder / "reject" / "chunk_size_short", status=1).out
    )
    assert "atlas.json" in run("verify", folder / "reject" / "json_trailing", status=1).err


def test_array_files(folder: Path, tmp_path: Path, run: Command) -> None:
    path = folder / "tiny_json" / "t" / "data.af"
    (found,) = run("info", path, "--json").document
    assert found["n_datasets"] == 1
    assert run("head", path, "--json").document[0]["arrays"] == {"": [[0, 1, 2], [3, 4, 5]]}
    assert run("verify", path, "--json").document == {
        "ok": True,
        "files": [str(path)],
        "n_datasets": 1,
        "n_arrays": 1,
        "n_faults": 0,
        "faults": [],
        "warnings": [],
    }
    assert run("stats", path, "--json").document[0]["max"] == 5


def test_a_store_beside_others(folder: Path, run: Command) -> None:
    assert "got several" in run("info", folder / "tiny_json", "nothing.atp", status=2).err


def test_commands_for_other_files(folder: Path, tmp_path: Path, run: Command) -> None:
    assert (
        "stores and array files are compacted in place"
        in run("compact", folder / "tiny_json", tmp_path / "out", status=2).err
    )
    with apt.ShardWriter(tmp_path / "set", 2, 1) as writer:
        writer.write(1)
    assert (
        "statistics of Atlas shards have no options"
        in run("stats", "--cutoff", "3", tmp_path / "set", status=2).err
    )


def test_convert(tmp_path: Path, run: Command) -> None:
    for name in ("a", "b"):
        xarray.Dataset({"v": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / f"{name}.nc")
    target = tmp_path / "store.atlas"
    sources = [tmp_path / "a.nc", tmp_path / "b.nc"]
    report = run("convert", *sources, target, "--json").document
    assert (report["datasets"], report["variables"]) == (2, {"v": 2})
    assert apt.AtlasStore(target).read("b", "v").tolist() == [1, 2]
    assert "--overwrite replaces it" in run("convert", sources[0], target, status=2).err
    assert "wrote 1 datasets" in run("convert", sources[0], target, "--overwrite").out
    shutil.copyfile(sources[0], tmp_path / "c.nc")
    run("convert", tmp_path / "c.nc", target, "--append", "--quiet")
    assert apt.AtlasStore(target).datasets == ["a", "c"]
    assert (
        "--dtype: is not for NetCDF and Zarr"
        in run("convert", *sources, tmp_path / "s", "--dtype", "float32", status=2).err
    )
