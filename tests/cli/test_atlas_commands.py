"""The commands on ATLAS stores and array files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import xarray

import atompack_torch as apt
from atompack_torch.cli import main


@pytest.fixture
def folder(fixtures: Path) -> Path:
    return fixtures.parent / "atlas"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(a) for a in arguments]) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(run(capsys, *arguments, "--json"))


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "gridded_zstd_json"
    (found,) = document(capsys, "info", path)
    assert found["n_datasets"] == 3
    arrays = {array["name"]: array for array in found["arrays"]}
    assert arrays["elevation"]["n_datasets"] == 2
    assert (arrays["lon"]["dtype"], arrays["lon"]["shape"]) == ("float32", [7])
    assert arrays["temperature"]["shape"] is None
    text = run(capsys, "info", path)
    assert "3 datasets" in text
    assert "differs" in text


def test_head(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = document(capsys, "head", folder / "tiny_json", "-n", "1")
    assert documents[0]["dataset"] == "jan"
    assert documents[0]["attributes"]["n"] == 7
    assert documents[0]["attributes"]["ts"].startswith("2023-11-15T07:33:20")
    assert documents[0]["arrays"]["t"] == [[0, 1, 2], [3, 4, 5]]
    text = run(capsys, "head", folder / "tiny_json")
    assert "'cat' '' 'elephant'" in text
    assert "1 of 1 datasets" in text
    assert document(capsys, "head", folder / "dtypes_none", "-n", "30")  # NaN and infinity too


def test_stats(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {d["array"]: d for d in document(capsys, "stats", folder / "gridded_zstd_json")}
    store = apt.AtlasStore(folder / "gridded_zstd_json").stats("temperature").values()
    assert found["temperature"]["missing"] == sum(one.null_count for one in store)
    assert found["temperature"]["max"] == max(one.max for one in store)  # type: ignore[type-var]
    assert "temperature" in run(capsys, "stats", folder / "gridded_zstd_json")
    assert run(capsys, "stats", folder / "dtypes_none")


def test_verify(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "verify", folder / "overlay_zstd")["n_faults"] == 0
    assert "0 faults" in run(capsys, "verify", folder / "blocks_zstd", folder / "attrs_msgpack")
    assert main(["verify", str(folder / "reject" / "chunk_size_short")]) == 1
    assert "chunk bytes: expected 8, got 4" in capsys.readouterr().out
    assert main(["verify", str(folder / "reject" / "json_trailing")]) == 1
    assert "atlas.json" in capsys.readouterr().err


def test_array_files(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "tiny_json" / "t" / "data.af"
    (found,) = document(capsys, "info", path)
    assert found["n_datasets"] == 1
    assert document(capsys, "head", path)[0]["arrays"] == {"": [[0, 1, 2], [3, 4, 5]]}
    assert document(capsys, "verify", path) == {
        "ok": True,
        "files": [str(path)],
        "n_datasets": 1,
        "n_arrays": 1,
        "n_faults": 0,
        "faults": [],
        "warnings": [],
    }
    assert document(capsys, "stats", path)[0]["max"] == 5


def test_a_store_beside_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(folder / "tiny_json"), "nothing.atp"]) == 2
    assert "got several" in capsys.readouterr().err


def test_commands_for_other_files(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compact", str(folder / "tiny_json"), str(tmp_path / "out")]) == 2
    assert "stores and array files are compacted in place" in capsys.readouterr().err
    with apt.ShardWriter(tmp_path / "set", 2, 1) as writer:
        writer.write(1)
    assert main(["stats", "--cutoff", "3", str(tmp_path / "set")]) == 2
    assert "statistics of Atlas shards have no options" in capsys.readouterr().err


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        xarray.Dataset({"v": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / f"{name}.nc")
    target = tmp_path / "store.atlas"
    sources = [tmp_path / "a.nc", tmp_path / "b.nc"]
    report = document(capsys, "convert", *sources, target)
    assert (report["datasets"], report["variables"]) == (2, {"v": 2})
    assert apt.AtlasStore(target).read("b", "v").tolist() == [1, 2]
    assert main(["convert", str(sources[0]), str(target)]) == 2
    assert "--overwrite replaces it" in capsys.readouterr().err
    assert "wrote 1 datasets" in run(capsys, "convert", sources[0], target, "--overwrite")
    shutil.copyfile(sources[0], tmp_path / "c.nc")
    run(capsys, "convert", tmp_path / "c.nc", target, "--append", "--quiet")
    assert apt.AtlasStore(target).datasets == ["a", "c"]
    assert main(["convert", *map(str, sources), str(tmp_path / "s"), "--dtype", "float32"]) == 2
    assert "--dtype: is not for NetCDF and Zarr" in capsys.readouterr().err
