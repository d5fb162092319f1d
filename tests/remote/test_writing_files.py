"""Conversion, compaction and building of caches to and from URLs."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from object_server import ObjectServer, Stored

import atompack_torch as apt
from atompack_torch import cli as command
from atompack_torch.conversion import pipeline

FOLDER = "s3://bucket/folder"


def molecules(path: Path, n: int = 5) -> Path:
    rng = np.random.default_rng(0)
    with apt.AtpWriter(path) as writer:
        for i in range(n):
            writer.write_arrays(
                positions=rng.random((1, 3, 3)) * 3,
                atomic_numbers=np.array([[1, 8, 1]]),
                energy=np.array([float(i)]),
            )
            writer.flush()
    return path


def upload(server: ObjectServer, path: Path, name: str) -> str:
    server.objects[f"folder/{name}"] = Stored(path.read_bytes())
    return f"{FOLDER}/{name}"


def energies(url: str, server: ObjectServer) -> list[float]:
    with apt.AtpDataset(url, storage_options=server.options()) as dataset:
        found: list[float] = dataset[:]["energy"].tolist()
    return found


def temporary_folders(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("atompack-*"))


def run(server: ObjectServer, *arguments: str) -> int:
    options = [f"--storage-option={name}={value}" for name, value in server.options().items()]
    try:
        return command.main([*arguments, *options])
    except SystemExit as error:
        return int(error.code or 0)


def test_compaction(objects: ObjectServer, tmp_path: Path) -> None:
    url = upload(objects, molecules(tmp_path / "a.atp"), "a.atp")
    options = objects.options()
    size = len(objects.objects["folder/a.atp"].data)
    target = f"{FOLDER}/b.atp"
    apt.compact(url, target, storage_options=options, order=[3, 1])
    assert energies(target, objects) == [3.0, 1.0]
    with pytest.raises(FileExistsError, match="only the source itself is replaced"):
        apt.compact(url, target, storage_options=options)
    apt.compact(url, url, storage_options=options)
    assert len(objects.objects["folder/a.atp"].data) < size
    assert energies(url, objects) == [0.0, 1.0, 2.0, 3.0, 4.0]
    apt.compact([url, target], tmp_path / "c.atp", storage_options=options)
    assert len(apt.AtpDataset(tmp_path / "c.atp")) == 7
    apt.compact(tmp_path / "c.atp", f"{FOLDER}/d.atp", "zstd", storage_options=options)
    assert len(energies(f"{FOLDER}/d.atp", objects)) == 7
    assert temporary_folders(tmp_path) == []


def test_a_source_that_changes_during_compaction_is_kept(
    objects: ObjectServer, tmp_path: Path
) -> None:
    url = upload(objects, molecules(tmp_path / "a.atp"), "a.atp")
    other = molecules(tmp_path / "b.atp", 2).read_bytes()

    def replace(method: str, key: str) -> None:
        if method == "PUT":
            objects.objects[key] = Stored(other)

    objects.before = replace
    with pytest.raises(OSError, match="another writer") as caught:
        apt.compact(url, url, storage_options=objects.options())
    assert caught.value.errno == errno.ESTALE
    assert energies(url, objects) == [0.0, 1.0]


def test_compaction_of_stores(objects: ObjectServer) -> None:
    options = objects.options()
    url = f"{FOLDER}/s.atlas"
    with apt.AtlasStore(url, "x", storage_options=options) as store:
        store.create_dataset("d")
        store.define_array("d", "t", "float64", (3,))
        store.write("d", "t", np.ones(3))
    with apt.ArrayFile(f"{FOLDER}/v.af", "x", storage_options=options) as file:
        file.define("t", "float64", (3,))
        file.write("t", np.ones(3))
    assert "folder/s.atlas/t/data.1.af" in objects.objects
    assert "folder/v.1.af" in objects.objects
    apt.compact(url, url, storage_options=options)
    apt.compact(f"{FOLDER}/v.af", f"{FOLDER}/v.af", storage_options=options)
    assert "folder/s.atlas/t/data.1.af" not in objects.objects
    assert "folder/v.1.af" not in objects.objects


def test_other_formats_are_not_compacted(objects: ObjectServer, tmp_path: Path) -> None:
    options = objects.options()
    url = upload(objects, molecules(tmp_path / "a.atp"), "a.atp")
    shards = f"{FOLDER}/shards"
    with apt.ShardWriter(shards, 4, 2, storage_options=options) as writer:
        writer.write(1)
    objects.objects["frames/run.extxyz"] = Stored(XYZ.encode())
    objects.objects["folder/unnamed"] = objects.objects["folder/a.atp"]
    before = {*objects.objects}
    for source, target in (
        (shards, shards),
        (shards, url),
        ("s3://bucket/frames/run.extxyz", f"{FOLDER}/b.atp"),
    ):
        with pytest.raises(apt.UnsupportedFormatError, match=r"expected \.atp files.* got a"):
            apt.compact(source, target, storage_options=options)
    with pytest.raises(ValueError, match=r"got a folder of \.atp files"):
        apt.compact(FOLDER, FOLDER, storage_options=options)
    with pytest.raises(FileNotFoundError):
        apt.compact(f"{FOLDER}/none", f"{FOLDER}/none", storage_options=options)
    apt.compact(f"{FOLDER}/unnamed", f"{FOLDER}/unnamed", storage_options=options)
    assert {*objects.objects} == before
    assert len(apt.ShardDataset(shards, storage_options=options)) == 1


XYZ = """2
Properties=species:S:1:pos:R:3:forces:R:3 energy=-1.5
H 0 0 0 0 0 0.5
O 0 0 1 0 0 -0.5
"""


def convert(server: ObjectServer, *ends: Any, **others: Any) -> Any:
    return pipeline.convert(*ends, progress=False, storage_options=server.options(), **others)


def test_conversion_between_urls(objects: ObjectServer, tmp_path: Path) -> None:
    objects.objects["folder/run.extxyz"] = Stored(XYZ.encode())
    target = f"{FOLDER}/run.atp"
    report = convert(objects, f"{FOLDER}/run.extxyz", target)
    assert report.structures_written == 1
    assert energies(target, objects) == [-1.5]
    convert(objects, [f"{FOLDER}/run.extxyz", target], target.replace("run.", "two."))
    assert energies(f"{FOLDER}/two.atp", objects) == [-1.5, -1.5]
    convert(objects, f"{FOLDER}/run.extxyz", target, mode="a")
    assert energies(target, objects) == [-1.5, -1.5]
    convert(objects, f"{FOLDER}/run.extxyz", target, mode="w")
    assert energies(target, objects) == [-1.5]
    convert(objects, target, f"{FOLDER}/back.extxyz")
    assert b"energy=-1.5" in objects.objects["folder/back.extxyz"].data
    with pytest.raises(FileExistsError, match="mode='w' replaces it"):
        convert(objects, f"{FOLDER}/run.extxyz", target)
    with pytest.raises(ValueError, match="is a source itself"):
        convert(objects, target, target, mode="w")
    with pytest.raises(FileNotFoundError, match="no such object or folder"):
        convert(objects, f"{FOLDER}/none.extxyz", f"{FOLDER}/new.atp")
    assert "folder/new.atp" not in objects.objects
    assert temporary_folders(tmp_path) == []


def test_conversion_to_and_from_shards(objects: ObjectServer, tmp_path: Path) -> None:
    url = upload(objects, molecules(tmp_path / "a.atp"), "a.atp")
    convert(objects, url, f"{FOLDER}/shards", target="shards", shards=(2, 1, 1))
    assert objects.written()[-1] == ("PUT", "folder/shards/meta.json")
    convert(objects, f"{FOLDER}/shards", f"{FOLDER}/b.atp")
    assert energies(f"{FOLDER}/b.atp", objects) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert temporary_folders(tmp_path) == []


def test_damaged_sources_upload_nothing(objects: ObjectServer, tmp_path: Path) -> None:
    objects.objects["folder/run.extxyz"] = Stored(XYZ[:-20].encode())
    with pytest.raises(apt.CorruptFileError, match=f"{FOLDER}/run.extxyz"):
        convert(objects, f"{FOLDER}/run.extxyz", f"{FOLDER}/run.atp")
    assert objects.written() == []
    assert temporary_folders(tmp_path) == []


def descriptor() -> apt.ChebyshevDescriptor:
    return apt.ChebyshevDescriptor(["H", "O"], 3, 4.0, 2, 3.0)


def test_caches_are_built_from_urls(objects: ObjectServer, tmp_path: Path) -> None:
    url = upload(objects, molecules(tmp_path / "a.atp"), "a.atp")
    dataset = apt.AtpDataset(url, storage_options=objects.options())
    made = apt.build_cache(dataset, descriptor(), tmp_path / "made.h5", progress=False)
    local = apt.build_cache(
        apt.AtpDataset(tmp_path / "a.atp"), descriptor(), tmp_path / "a.h5", progress=False
    )
    for i in range(5):
        expected = local.load_features(i)
        assert expected is not None
        assert expected.equal(made.load_features(i))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="path: expected a local path, got a URL"):
        apt.build_cache(dataset, descriptor(), f"{FOLDER}/a.h5", progress=False)


def test_commands(
    objects: ObjectServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects.objects["folder/run.extxyz"] = Stored(XYZ.encode())
    url = f"{FOLDER}/run.atp"
    assert run(objects, "convert", f"{FOLDER}/run.extxyz", url, "--quiet") == 0
    assert energies(url, objects) == [-1.5]
    assert run(objects, "convert", f"{FOLDER}/run.extxyz", url, "--quiet") == 2
    assert run(objects, "compact", url, url) == 0
    settings = ["--rad-order=3", "--rad-cutoff=4", "--ang-order=2", "--ang-cutoff=3"]
    assert run(objects, "cache", "build", url, str(tmp_path / "run.h5"), *settings) == 0
    assert run(objects, "cache", "build", url, f"{FOLDER}/run.h5", *settings) == 2
    shown = capsys.readouterr()
    assert "SECRET" not in shown.out + shown.err
    assert run(objects, "compact", url, url, "--storage-option=SECRETKEY") == 2
    shown = capsys.readouterr()
    assert "SECRET" not in shown.out + shown.err
