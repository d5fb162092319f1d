"""Compression levels: writers take those of the codec's library and refuse others immediately."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.atp_file import SLOT_BYTES, AtpFile

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import convert, convert_datasets

LEVELS = {"zstd": (-131072, 22), "lz4": (0, 12)}
Make = Callable[[Path, str, int], Any]


def molecule(k: int = 0) -> apt.Molecule:
    return apt.Molecule(np.full((3, 3), k, "f4"), [8, 1, 1], energy=float(k))


def source(folder: Path) -> Path:
    path = folder / "source.atp"
    if not path.exists():
        with apt.AtpWriter(path) as writer:
            writer.write([molecule(k) for k in range(3)])
    return path


def atp(path: Path, codec: Any, level: int) -> None:
    with apt.AtpWriter(path, codec=codec, level=level) as writer:
        writer.write(molecule())
    assert len(apt.AtpDataset(path)) == 1


def compacted(path: Path, codec: Any, level: int) -> None:
    apt.compact(source(path.parent), path, codec, level=level)
    assert len(apt.AtpDataset(path)) == 3


def array_file(path: Path, codec: Any, level: int) -> None:
    path = path.with_suffix(".af")
    with apt.ArrayFile(path, "x", codec, level=level) as file:
        file.define("d", "int32", (4,))
        file.write("d", np.arange(4, dtype="i4"))
    assert apt.ArrayFile(path).read("d").tolist() == [0, 1, 2, 3]


def store(path: Path, codec: Any, level: int) -> None:
    with apt.AtlasStore(path, "x", codec, level=level) as made:
        made.create_dataset("d")
        made.define_array("d", "a", "int32", (4,))
        made.write("d", "a", np.arange(4, dtype="i4"))
    assert apt.AtlasStore(path).read("d", "a").tolist() == [0, 1, 2, 3]


def shards(path: Path, _: str, level: int) -> None:
    with apt.ShardWriter(path, 10, 2, level=level) as writer:
        for i in range(4):
            writer.write({"x": i})
    assert len(apt.ShardDataset(path)) == 4


def converted(path: Path, codec: Any, level: int) -> None:
    convert(source(path.parent), path.with_suffix(".atp"), codec=codec, level=level, progress=False)
    assert len(apt.AtpDataset(path.with_suffix(".atp"))) == 3


def converted_to_shards(path: Path, _: str, level: int) -> None:
    convert(source(path.parent), path, target="shards", level=level, progress=False)
    assert len(apt.ShardDataset(path)) == 3


BOTH = [atp, compacted, array_file, store, converted]
CASES = [(make, codec) for make in BOTH for codec in LEVELS]
OF_ONE_LEVEL = [(array_file, "lz4"), (store, "lz4")]
CASES += [(make, "zstd") for make in (shards, converted_to_shards)]
IDS = [f"{make.__name__}-{codec}" for make, codec in CASES]


@pytest.mark.parametrize(("make", "codec"), CASES, ids=IDS)
def test_levels_at_the_ends(tmp_path: Path, make: Make, codec: str) -> None:
    if (make, codec) in OF_ONE_LEVEL:
        make(tmp_path / "out", codec, 3)
        for level in LEVELS[codec]:
            with pytest.raises(ValueError, match=f"level: expected 3, the default, .* got {level}"):
                make(tmp_path / f"out{level}", codec, level)
        return
    for level in LEVELS[codec]:
        make(tmp_path / f"out{level}", codec, level)


@pytest.mark.parametrize(("make", "codec"), CASES, ids=IDS)
def test_others_are_refused_before_anything_is_made(tmp_path: Path, make: Make, codec: str) -> None:
    source(tmp_path)
    low, high = LEVELS[codec]
    before = sorted(tmp_path.iterdir())
    for level in (low - 1, high + 1, 2**31, -(2**80)):
        message = rf"level: expected {low} to {high} for codec {codec}, got {level}$"
        with pytest.raises(ValueError, match=message):
            make(tmp_path / "out", codec, level)
    for wrong in (3.0, "3", None if make is not compacted else 1.5, True):
        with pytest.raises(TypeError, match="level: expected an int, got"):
            make(tmp_path / "out", codec, wrong)  # type: ignore[arg-type]
    assert sorted(tmp_path.iterdir()) == before


def test_without_a_codec(tmp_path: Path) -> None:
    """A level without a codec would have no effect; that of a file's codec still has to be one."""
    uncompressed = "level: expected a codec, lz4 or zstd, for level 9, got none"
    for codec in (None, "none"):
        with pytest.raises(ValueError, match=uncompressed):
            apt.AtpWriter(tmp_path / "a.atp", codec=codec, level=9)
    for kind in (apt.AtlasStore, apt.ArrayFile):
        with pytest.raises(ValueError, match=uncompressed):
            kind(tmp_path / "store", "x", "none", level=9)
    with pytest.raises(ValueError, match=uncompressed):
        apt.ShardWriter(tmp_path / "shards", 10, 2, codec="none", level=9)
    with pytest.raises(ValueError, match="level: expected -131072 to 22, got 23"):
        apt.AtlasStore(tmp_path / "store", "x", level=23)
    with pytest.raises(ValueError, match="level: expected -131072 to 22, got 23"):
        convert_datasets([], tmp_path / "store", level=23)
    assert [*tmp_path.iterdir()] == []


def test_appending_without_a_codec(tmp_path: Path) -> None:
    """The file's codec decides: 19 is a level of zstd, and none of lz4."""
    for codec in ("lz4", "zstd"):
        atp(tmp_path / f"{codec}.atp", codec, 3)
    with pytest.raises(apt.FieldError, match="level: expected 0 to 12 for codec lz4, got 19"):
        apt.AtpWriter(tmp_path / "lz4.atp", mode="a", level=19)
    with apt.AtpWriter(tmp_path / "zstd.atp", mode="a", level=19) as writer:
        writer.write(molecule(1))
    assert AtpFile.open(tmp_path / "zstd.atp").slot.level == 3, "it continues with the file's"


def test_the_level_of_a_header_is_not_ours_to_judge(tmp_path: Path) -> None:
    """Another writer may have put any number there; compacting continues with the nearest level."""
    path = tmp_path / "a.atp"
    atp(path, "zstd", 3)
    content = bytearray(path.read_bytes())
    for slot in (0, SLOT_BYTES):
        struct.pack_into("<i", content, slot + 52, 500)
        struct.pack_into("<I", content, slot + 4092, zlib.adler32(content[slot : slot + 4092]))
    path.write_bytes(content)
    assert AtpFile.open(path).slot.level == 500
    assert len(apt.AtpDataset(path)) == 1
    apt.compact(path, tmp_path / "b.atp")
    assert AtpFile.open(tmp_path / "b.atp").slot.level == 22


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(source(tmp_path))
    for codec, level in (("zstd", "23"), ("lz4", "13")):
        for command in (["convert"], ["compact"]):
            arguments = [*command, path, str(tmp_path / "out.atp"), "--codec", codec]
            assert main([*arguments, f"--level={level}"]) == 2
            assert f"for codec {codec}, got {level}" in capsys.readouterr().err
    assert main(["convert", path, str(tmp_path / "out.atp"), "--level", "9"]) == 2
    assert "expected a codec" in capsys.readouterr().err
    assert main(["convert", path, str(tmp_path / "out.xyz"), "--codec", "zstd"]) == 2
    assert "out.xyz: codec: expected none for extxyz, got zstd" in capsys.readouterr().err
    assert not (tmp_path / "out.atp").exists()
