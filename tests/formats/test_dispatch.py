"""``apt.open``, ``info``, ``head``, ``verify`` and ``statistics`` for every format."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import formats, options
from atompack_torch.cli import main
from atompack_torch.datasets.statistics import Statistics
from atompack_torch.formats import recognition
from atompack_torch.formats.atlas_shards.statistics import ShardStatistics


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A small file of each format, under names that say nothing."""
    places = {name: tmp_path / name for name in ("atp", "folder", "store", "shards", "cache")}
    places["array"] = tmp_path / "array.af"
    arrays = {
        "positions": np.arange(15.0).reshape(5, 3),
        "atomic_numbers": np.array([1, 8, 1, 8, 1]),
        "n_atoms": [3, 2],
        "energy": [-1.0, -2.0],
        "forces": np.zeros((5, 3)),
    }
    places["folder"].mkdir()
    for path in (places["atp"], places["folder"] / "a.atp"):
        with apt.AtpWriter(path) as writer:
            writer.write_arrays(**arrays)
    with apt.AtlasStore(places["store"], "x") as store:
        store.create_dataset("d")
        store.define_array("d", "x", "int64", (2,))
        store.write("d", "x", np.arange(2))
    with apt.ArrayFile(places["array"], "x") as file:
        file.define("x", "int64", (2,))
        file.write("x", np.arange(2))
    with apt.ShardWriter(places["shards"], 2, 1) as shards:
        shards.write({"y": 1})
    descriptor = apt.ChebyshevDescriptor(["H", "O"], 2, 3.0, 1, 2.0)
    apt.build_cache(apt.AtpDataset(places["atp"]), descriptor, places["cache"], progress=False)
    return places


def test_open(files: dict[str, Path]) -> None:
    classes = {
        "atp": apt.AtpDataset,
        "folder": apt.AtpDataset,
        "shards": apt.ShardDataset,
        "cache": apt.TorchCacheDataset,
    }
    for name, kind in classes.items():
        opened = apt.open(files[name])
        assert type(opened) is kind
        assert len(opened) == (1 if name == "shards" else 2)
    assert len(apt.open([files["atp"], files["atp"]])) == 4
    chosen = apt.open(str(files["atp"]), fields=["energy"])
    assert "forces" not in chosen[0]
    store = apt.open(files["store"], arrays=["x"])
    assert isinstance(store, apt.AtlasDataset)
    assert store[0]["x"].tolist() == [0, 1]
    frames = files["atp"].with_name("a.xyz")
    frames.write_text("1\nenergy=1\nH 0 0 0\n")
    assert isinstance(apt.open(frames), apt.ExtxyzDataset)


@pytest.mark.parametrize("suffix", ["xyz", "extxyz", "atp", "aselmdb", "parquet"])
def test_hidden_files_of_folders_are_no_data(
    files: dict[str, Path], tmp_path: Path, suffix: str
) -> None:
    folder, inner = tmp_path / "mixed", tmp_path / "mixed" / ".trash"
    inner.mkdir(parents=True)
    apt.convert(files["atp"], folder / f"a.{suffix}", progress=False)
    content = (folder / f"a.{suffix}").read_bytes()
    own = "a.atp" if suffix == "atp" else f"A.{suffix.upper()}"  # shards in lower case alone
    (folder / f"a.{suffix}").rename(folder / own)
    for name in (f"._A.{suffix}", f".A.{suffix.upper()}", f".trash/A.{suffix}"):
        (folder / name).write_bytes(b"left by the system")
    if suffix == "parquet":
        apt.convert(folder, tmp_path / "out.atp", progress=False)
        assert len(apt.AtpDataset(tmp_path / "out.atp")) == 2
    else:
        assert len(apt.open(folder)) == 2
    (folder / f".A.{suffix}").write_bytes(content)
    (folder / own).unlink()
    with pytest.raises(apt.UnsupportedFormatError):
        apt.open(folder)


@pytest.mark.parametrize("name", ["a.xyz", "raw/a.extxyz.gz", "system/type.raw"])
def test_folders_of_several_formats_are_ambiguous(files: dict[str, Path], name: str) -> None:
    other = files["folder"] / name
    other.parent.mkdir(exist_ok=True)
    other.write_text("1\nenergy=1\nH 0 0 0\n")
    for read in (apt.open, apt.info, apt.statistics):
        with pytest.raises(apt.UnsupportedFormatError, match=r"expected one format.*\.atp files"):
            read(files["folder"])
    assert len(apt.open([files["folder"] / "a.atp"])) == 2


def test_folders_are_listed_once(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at all where a file of a fixed name decides, next to any number of others."""
    depths: list[bool] = []

    def names_below(folder: Path, *, is_deep: bool) -> Iterator[str]:
        depths.append(is_deep)
        return options.names_below(folder, is_deep=is_deep)

    monkeypatch.setattr(recognition, "names_below", names_below)
    for name in ("store", "shards"):
        assert formats.recognize(files[name]) is not None
    assert depths == []
    assert formats.recognize(files["folder"]) is not None
    assert sorted(depths) == [False, True]


def test_hidden_folders_are_no_shards(files: dict[str, Path]) -> None:
    (shard,) = (path for path in files["shards"].iterdir() if path.is_dir())
    shutil.copytree(shard, files["shards"] / ".old")
    assert len(apt.ShardDataset(files["shards"])) == 1


def test_what_open_refuses(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"arrays: expected names of arrays of the store \('x'\)"):
        apt.open(files["store"])
    with pytest.raises(TypeError, match="nonsense"):
        apt.open(files["atp"], nonsense=1)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        apt.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="at least one path"):
        apt.open([])
    with pytest.raises(apt.UnsupportedFormatError, match="one format, got several"):
        apt.open([files["atp"], files["cache"]])
    strange = tmp_path / "strange"
    strange.write_bytes(b"\x00\x01\x02\x03" * 10)
    with pytest.raises(
        apt.UnsupportedFormatError, match=r"expected an \.atp file, .* none of them"
    ):
        apt.open(strange)
    for content, got in ((b"", "an empty file"), (b"\0" * 40, "none of them")):
        strange.with_suffix(".atp").write_bytes(content)
        with pytest.raises(apt.UnsupportedFormatError, match=f"got {got}"):
            apt.open(strange.with_suffix(".atp"))
    rows = tmp_path / "a.json"
    rows.write_text('{"1": {}}')
    with pytest.raises(apt.UnsupportedFormatError, match="atompack-torch convert"):
        apt.open(rows, convert=False)


def test_files_that_nothing_reads(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,energy\n1,2,3\n")
    torch.save({"a": torch.ones(2)}, tmp_path / "b.pt")
    torch.save([1], tmp_path / "b.npz")
    np.save(tmp_path / "c.npy", np.ones(3))
    (tmp_path / "d.pkl").write_bytes(pickle.dumps([1]))
    for name, advice in {
        "a.csv": "table of comma-separated values: read it with pandas",
        "b.pt": "file of torch.save: load it with torch.load",
        "b.npz": "file of torch.save: load it with torch.load",
        "c.npy": "one array without names: numpy.savez",
        "d.pkl": "pickle: pickles run code",
    }.items():
        for read in (apt.open, lambda path: apt.convert(path, tmp_path / "o.atp", progress=False)):
            with pytest.raises(apt.UnsupportedFormatError, match=advice):
                read(tmp_path / name)
    np.savez(tmp_path / "e.npz", a=np.ones(2))
    assert formats.detect(tmp_path / "e.npz") == formats.by_suffix("e.npz")


def test_info(files: dict[str, Path]) -> None:
    counts = {
        "atp": ("n_molecules", 2),
        "folder": ("n_molecules", 2),
        "store": ("n_datasets", 1),
        "array": ("n_datasets", 1),
        "shards": ("n_examples", 1),
    }
    for name, (key, n) in counts.items():
        described = apt.info(files[name])
        assert described[key] == n
        assert described["errors"] == []
        json.dumps(described, allow_nan=False)
    assert apt.info(files["cache"])["files"][0]["n_entries"] == 2
    assert apt.info(files["atp"], full=True)["labels"]["molecules"]["energy"] == 2


def test_info_names_the_format(files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "atp": "atp",
        "folder": "atp-folder",
        "store": "atlas-store",
        "array": "array-file",
        "shards": "shards",
        "cache": "hdf5",
    }
    for name, expected in names.items():
        assert next(iter(apt.info(files[name]).items())) == ("format", expected)
    assert main(["info", str(files["array"])]) == 0
    assert capsys.readouterr().out.startswith("format: array file\n")


def test_info_of_an_array_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with apt.ArrayFile(tmp_path / "x.af", "x") as file:
        file.define("depth", "float32", (4,))
        file.define("names", "string", (2, 3))
    found: Any = apt.info(tmp_path / "x.af")
    arrays = [(each["name"], each["dtype"], list(each["shape"])) for each in found["arrays"]]
    assert arrays == [("depth", "float32", [4]), ("names", "string", [2, 3])]
    assert main(["info", str(tmp_path / "x.af")]) == 0
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("depth", "float32", "(4,)", "names", "(2, 3)"))


def test_help_of_open_names_every_format() -> None:
    classes = "Atp Extxyz AseLmdb TorchCache Shard Atlas"
    for name in (*(f"{kind}Dataset" for kind in classes.split()), ".xyz", ".aselmdb", "HDF5"):
        assert name in str(apt.open.__doc__)


def test_info_of_a_damaged_file(files: dict[str, Path]) -> None:
    data = bytearray(files["atp"].read_bytes())
    data[0] ^= 0xFF
    data[4096] ^= 0xFF
    files["atp"].write_bytes(data)
    with pytest.raises(apt.AtompackError):
        apt.AtpDataset(files["atp"])
    assert apt.info(files["atp"])["errors"]


def test_head(files: dict[str, Path]) -> None:
    first: Any = apt.head(files["atp"], 1)
    assert len(first) == 1
    assert float(first[0].energy) == -1.0
    assert len(apt.head(files["folder"])) == 2
    assert apt.head(files["shards"]) == [{"y": 1}]
    assert "features" in apt.head(files["cache"], 1)[0]
    (dataset,) = apt.head(files["store"])
    assert dataset["dataset"] == "d"
    assert dataset["arrays"]["x"].tolist() == [0, 1]
    assert apt.head(files["array"])[0]["arrays"][""].tolist() == [0, 1]
    with pytest.raises(ValueError, match="-1"):
        apt.head(files["atp"], -1)
    with pytest.raises(TypeError, match=r"n: expected an int, got 2\.5"):
        apt.head(files["atp"], 2.5)
    with pytest.raises(TypeError, match=r"n: expected an int, got 2\.5"):
        apt.conversion.sample(files["atp"], "never.atp", 2.5, progress=False)


def test_verify(files: dict[str, Path]) -> None:
    for path in files.values():
        done: list[int] = []
        found = apt.verify(path, progress=done.append)
        assert found.ok
        assert found.n_faults == 0
        assert found.as_dict()["faults"] == []
        assert sum(done) >= 1
    block = next(files["store"].glob("x/*.af"))
    block.write_bytes(b"\xff" * 8 + block.read_bytes()[8:])
    damaged = apt.verify(files["store"])
    assert not damaged.ok
    assert damaged.n_faults == 1


def test_statistics(files: dict[str, Path]) -> None:
    for name in ("atp", "folder", "cache"):
        found = apt.statistics(files[name])
        assert isinstance(found, Statistics)
        assert found.n_molecules == 2
    with_neighbors = apt.statistics(files["atp"], cutoff=3.0, fields=["energy"])
    assert isinstance(with_neighbors, Statistics)
    assert with_neighbors.mean_neighbors is not None
    (array,) = apt.statistics(files["store"])  # type: ignore[misc]
    assert (array["array"], array["max"]) == ("x", 1)
    examples = apt.statistics(files["shards"])
    assert isinstance(examples, ShardStatistics)
    assert examples.n_examples == len(apt.ShardDataset(files["shards"]))
    with pytest.raises(apt.FieldError, match="nothing"):
        apt.statistics(files["atp"], fields=["nothing"])


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_an_array_file_is_known_whatever_its_first_block_holds(codec: str, tmp_path: Path) -> None:
    for name, value in (("zeros", 0), ("gzip", 0x088B1F), ("zstd", -47205080)):
        path = tmp_path / f"{name}.af"
        with apt.ArrayFile(path, "x", codec=codec) as file:
            file.define("v", "int32", (1000,), chunk_shape=(1000,))
            file.write("v", np.full(1000, value, dtype=np.int32))
        found = formats.detect(path)
        assert found is not None
        assert found.name == "array-file"
        assert apt.verify(path).ok
