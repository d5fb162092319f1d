"""Files of other formats, where an opener expects its own: what they are, and what to do."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import re
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.build
import ase.db
import h5py
import lmdb
import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.formats import FORMATS, STORE_METADATA, recognize

FRAMES = """\
2
Lattice="4 0 0 0 4 0 0 0 4" Properties=species:S:1:pos:R:3 energy=-1.5
H 0.0 0.0 0.0
O 0.0 0.0 1.0
"""
PLAIN_FRAMES = "1\ncomment\nHe 0.0 0.0 0.0\n"


def make_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["positions"] = np.zeros((3, 2, 3))
        file["atomic_numbers"] = np.ones((3, 2), int)


def make_hdf5_with_a_user_block(path: Path) -> None:
    with h5py.File(path, "w", userblock_size=1024) as file:
        file["positions"] = np.zeros((3, 2, 3))
        file["atomic_numbers"] = np.ones((3, 2), int)


def make_ase_db(path: Path) -> None:
    with ase.db.connect(path, type="db") as database:
        database.write(ase.build.molecule("H2O"))


def make_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("create table t (x)")


def make_lmdb(path: Path) -> None:
    with lmdb.open(str(path), subdir=False) as database, database.begin(write=True) as change:
        change.put(b"1", b"x")
    path.with_name(path.name + "-lock").unlink(missing_ok=True)


def make_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, positions=np.zeros((1, 2, 3)), atomic_numbers=np.ones(2, int))


# Name -> what makes one, what it is called, its usual suffix, whether `convert` is advised.
CASES: dict[str, tuple[Callable[[Path], Any], str, str, bool]] = {
    "hdf5": (make_hdf5, "an HDF5 file", ".h5", True),
    "user block": (make_hdf5_with_a_user_block, "an HDF5 file", ".hdf5", True),
    "extxyz": (
        lambda p: p.write_text(FRAMES),
        "an extended XYZ",
        ".extxyz",
        True,
    ),
    "xyz": (lambda p: p.write_text(PLAIN_FRAMES), "extended XYZ", ".xyz", True),
    "ase db": (make_ase_db, "an SQLite file", ".db", True),
    "sqlite": (make_sqlite, "an SQLite file", ".db", True),
    "lmdb": (make_lmdb, "an LMDB file", ".aselmdb", True),
    "npz": (make_npz, "a ZIP archive, such as an NPZ", ".npz", True),
    "npy": (
        lambda p: p.write_bytes(b"\x93NUMPY\1\0" + bytes(40)),
        "an NPY file",
        ".npy",
        False,
    ),
    "pickle": (lambda p: p.write_bytes(pickle.dumps({"a": 1})), "a pickle", ".pkl", False),
    "old pickle": (
        lambda p: p.write_bytes(pickle.dumps([1], protocol=2)),
        "a pickle",
        ".pkl",
        False,
    ),
    "json": (lambda p: p.write_text(json.dumps({"1": {}})), "a JSON file", ".json", True),
    "gz": (lambda p: p.write_bytes(gzip.compress(FRAMES.encode())), "a gzip file", ".gz", True),
    "xz": (lambda p: p.write_bytes(lzma.compress(FRAMES.encode())), "an xz file", ".xz", True),
    "text": (
        lambda p: p.write_text("data_cif\n_cell_length_a 3\n"),
        "a text file",
        ".cif",
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("named", ["as .atp", "by its suffix"])
def test_opened_as_atp(case: str, named: str, tmp_path: Path) -> None:
    make, title, suffix, converts = CASES[case]
    path = tmp_path / f"my data{'.atp' if named == 'as .atp' else suffix}"
    make(path)
    with pytest.raises(apt.UnsupportedFormatError) as caught:
        apt.AtpDataset(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: expected an .atp file, got ")
    assert title in message
    assert ("atompack-torch convert" in message) == converts
    assert "--from" not in message


@pytest.mark.parametrize("case", ["hdf5", "extxyz", "xyz", "ase db", "npz"])
def test_the_command_in_the_message_works(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, *_ = CASES[case]
    path = tmp_path / "it's data.atp"
    make(path)
    with pytest.raises(apt.UnsupportedFormatError) as caught:
        apt.AtpDataset(path)
    command = re.search(r"`(atompack-torch convert .*)`", str(caught.value))
    assert command is not None
    program, *arguments = shlex.split(command[1])
    assert program == "atompack-torch"
    assert cli.main([*arguments, "--quiet"]) == 0, capsys.readouterr().err
    assert len(apt.AtpDataset(arguments[2])) > 0


def test_every_way_in_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.atp"
    make_hdf5(path)
    expected = "expected an .atp file, got an HDF5 file"
    for call in (
        lambda: apt.AtpDataset([path]),
        lambda: apt.AtpDataset(tmp_path),
        lambda: apt.AtpWriter(path, mode="a"),
        lambda: apt.compact(path, tmp_path / "y.atp"),
    ):
        with pytest.raises(apt.UnsupportedFormatError, match=expected):
            call()
    before = path.read_bytes()
    assert path.read_bytes() == before
    with pytest.raises(apt.UnsupportedFormatError, match=expected):
        apt.verify(path)
    for command in ("info", "head", "stats", "verify"):
        assert cli.main([command, str(path)]) == 1
        captured = capsys.readouterr()
        assert expected in captured.out + captured.err
        assert cli.main([command, "--json", str(path)]) == 1
        assert "HDF5" in json.dumps(json.loads(capsys.readouterr().out))


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """One of each kind that the package opens."""
    made = {
        "atp": tmp_path / "a.atp",
        "atp-folder": tmp_path / "atps",
        "hdf5": tmp_path / "a.h5",
        "array-file": tmp_path / "a.af",
        "atlas-store": tmp_path / "store",
        "shards": tmp_path / "shards",
        "nothing": tmp_path / "empty",
    }
    made["nothing"].mkdir()
    made["atp-folder"].mkdir()
    for path in (made["atp"], made["atp-folder"] / "part.atp"):
        with apt.AtpWriter(path) as writer:
            writer.write_arrays(positions=np.zeros((1, 2, 3)), atomic_numbers=[[1, 1]])
    make_hdf5(made["hdf5"])
    with apt.ArrayFile(made["array-file"], "x") as file:
        file.define("t", "float32", (3,))
        file.write("t", np.ones(3, np.float32))
    with apt.AtlasStore(made["atlas-store"], "x") as store:
        store.create_dataset("d")
    with apt.ShardWriter(made["shards"], 4, 2) as writer:
        writer.write({"x": 1})
    return made


def test_kinds_are_recognized(places: dict[str, Path]) -> None:
    for name, path in places.items():
        found = recognize(path)
        assert (None if name == "nothing" else name) == (found and found.name)


OPENERS: dict[str, tuple[Callable[[Path], Any], set[str]]] = {
    "AtpDataset": (apt.AtpDataset, {"atp", "atp-folder"}),
    "TorchCache": (apt.TorchCache, set()),
    "ArrayFile": (apt.ArrayFile, {"array-file"}),
    "AtlasStore": (apt.AtlasStore, {"atlas-store"}),
    "ShardDataset": (apt.ShardDataset, {"shards"}),
    "AtlasDataset": (lambda path: apt.AtlasDataset(path, []), {"atlas-store"}),
}


@pytest.mark.parametrize("opener", OPENERS)
def test_every_pair(opener: str, places: dict[str, Path]) -> None:
    opens, own = OPENERS[opener]
    for name, path in places.items():
        if name in own or (opener, name) == ("TorchCache", "hdf5"):
            continue
        with pytest.raises((apt.AtompackError, OSError)) as caught:
            opens(path)
        message = str(caught.value)
        assert str(path) in message, (name, message)
        if name == "nothing":
            continue
        found = recognize(path)
        assert found is not None
        assert found.title in message, (name, message)
        assert found.opens.split()[0] in message, (name, message)


def test_stores_and_array_files_are_not_written_into_something_else(
    places: dict[str, Path], tmp_path: Path
) -> None:
    for make in (lambda p: apt.AtlasStore(p, "a"), lambda p: apt.ArrayFile(p, "a")):
        for name in ("atp", "hdf5"):
            before = places[name].read_bytes()
            with pytest.raises((apt.AtompackError, OSError)) as caught:
                make(places[name])
            assert str(places[name]) in str(caught.value)
            assert places[name].read_bytes() == before


def test_a_folder_with_arrays_but_no_metadata_is_no_store(places: dict[str, Path]) -> None:
    with apt.AtlasStore(places["atlas-store"], "a") as store:
        store.define_array("d", "t", "float32", (3,))
    (places["atlas-store"] / "atlas.json").unlink()
    with pytest.raises(FileNotFoundError, match="expected one of atlas") as caught:
        apt.AtlasStore(places["atlas-store"])
    assert all(name in str(caught.value) for name in STORE_METADATA)


def test_damaged_files_stay_damaged(places: dict[str, Path], tmp_path: Path) -> None:
    """Neither an empty file, nor one of our own with a wrong byte, is a different format."""
    data = bytearray(places["atp"].read_bytes())
    for damage in (b"", bytes(100), bytes(data[:5000]), b"XTPK" + bytes(data[4:])):
        path = tmp_path / "damaged.atp"
        path.write_bytes(damage)
        with pytest.raises(apt.CorruptFileError):
            apt.AtpDataset(path)


def test_nothing_is_opened_that_would_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert recognize(tmp_path / "pipe") is None
    assert recognize(tmp_path / "nowhere") is None


def test_names_are_unique() -> None:
    names = [known.name for known in FORMATS]
    assert len(set(names)) == len(names)
