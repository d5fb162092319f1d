"""``apt.open``, ``info``, ``head``, ``verify`` and ``statistics`` for bytes: as for files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt

BUFFERS = [bytes, bytearray, lambda data: memoryview(b"x" + data)[1:]]


def write_molecules(path: Path) -> bytes:
    with apt.AtpWriter(path, codec="zstd") as writer:
        for k in range(9):
            writer.write_arrays(
                positions=np.arange(15.0).reshape(5, 3) + k,
                atomic_numbers=[1, 8, 1, 8, 1],
                n_atoms=[3, 2],
                energy=[-1.0 * k, -2.0],
                forces=np.full((5, 3), 0.1 * k),
            )
    return path.read_bytes()


def write_array_file(path: Path) -> bytes:
    with apt.ArrayFile(path, "x") as file:
        file.define("x", "int64", (7,))
        file.write("x", np.arange(7))
        file.compact()  # into the base file
    return path.read_bytes()


def write_store(path: Path) -> dict[str, bytes]:
    with apt.AtlasStore(path, "x") as store:
        for name in "ab":
            store.create_dataset(name)
            store.set_attr(name, "rank", ord(name))
            store.define_array(name, "x", "float32", (4,))
            store.write(name, "x", np.arange(4, dtype="float32") + ord(name))
    with apt.AtlasStore(path, "a") as store:
        store.write("a", "x", np.float32([9.0]), [0])
    return {f.relative_to(path).as_posix(): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def as_lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: as_lists(v) for k, v in value.items()}
    if isinstance(value, list):
        return [as_lists(v) for v in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def without_paths(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return {k: without_paths(v, path) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(v, path) for v in value]
    return value.replace(path, "PATH") if isinstance(value, str) else value


@pytest.mark.parametrize("buffer_of", BUFFERS)
def test_molecules(tmp_path: Path, buffer_of: Callable[[bytes], Any]) -> None:
    path = tmp_path / "data.atp"
    data = buffer_of(write_molecules(path))
    opened = apt.open(data, fields=["energy"])
    assert type(opened) is apt.AtpDataset
    assert torch.equal(opened[:].energy, apt.AtpDataset(path)[:].energy)
    assert "forces" not in opened[0]
    for full in (False, True):
        described = without_paths(apt.info(data, full=full), "<memory>")
        assert described == without_paths(apt.info(path, full=full), str(path))
    assert [m.positions.tolist() for m in apt.head(data, 3)] == [
        m.positions.tolist() for m in apt.head(path, 3)
    ]
    checked = without_paths(apt.verify(data).as_dict(), "<memory>")
    assert checked == without_paths(apt.verify(path).as_dict(), str(path))
    found, expected = apt.statistics(data), apt.statistics(path)
    assert str(found.as_dict()) == str(expected.as_dict())


@pytest.mark.parametrize("buffer_of", BUFFERS)
def test_array_files(tmp_path: Path, buffer_of: Callable[[bytes], Any]) -> None:
    path = tmp_path / "data.af"
    data = buffer_of(write_array_file(path))
    described = without_paths(apt.info(data), "<memory>.af")
    assert described == without_paths(apt.info(path), str(path))
    assert described["file_bytes"] == path.stat().st_size
    assert as_lists(apt.head(data)) == as_lists(apt.head(path))
    checked = without_paths(apt.verify(data).as_dict(), "<memory>.af")
    assert checked == without_paths(apt.verify(path).as_dict(), str(path))
    path.with_suffix(".stats").unlink()  # a file of its own, which no buffer holds
    found = without_paths(apt.statistics(data), "<memory>.af")
    assert found == without_paths(apt.statistics(path), str(path))
    for options in ({}, {"arrays": ["x"]}):
        with pytest.raises(apt.UnsupportedFormatError, match="ArrayFile opens it"):
            apt.open(data, **options)


def test_stores(tmp_path: Path) -> None:
    path = tmp_path / "store"
    files = write_store(path)
    assert any(name.endswith(".1.af") for name in files)
    described = without_paths(apt.info(files), "<memory>")
    assert described == without_paths(apt.info(path), str(path))
    assert described["file_bytes"] == sum(map(len, files.values()))
    assert as_lists(apt.head(files)) == as_lists(apt.head(path))
    checked = without_paths(apt.verify(files).as_dict(), "<memory>")
    assert checked == without_paths(apt.verify(path).as_dict(), str(path))
    found = without_paths(apt.statistics(files), "<memory>")
    assert found == without_paths(apt.statistics(path), str(path))
    opened = apt.open(files, arrays=["x"])
    assert type(opened) is apt.AtlasDataset
    assert as_lists(opened[:]) == as_lists(apt.open(path, arrays=["x"])[:])
    with pytest.raises(TypeError, match=r"names of arrays of the store \('x'\), got none"):
        apt.open(files)


@pytest.mark.parametrize("call", [apt.open, apt.info, apt.head, apt.verify, apt.statistics])
def test_what_is_refused(tmp_path: Path, call: Callable[..., Any]) -> None:
    foreign = {
        "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(600),
        "an extended XYZ file": b"1\nenergy=1\nH 0 0 0\n",
        "a text file": b"some words",
    }
    for title, data in foreign.items():
        with pytest.raises(apt.UnsupportedFormatError, match=f"^<memory>: .*got {title}"):
            call(data)
    for names, title in ((["meta.json"], "Atlas shards"), (["a/b.atp"], r"\.atp files")):
        with pytest.raises(apt.UnsupportedFormatError, match=f"^<memory>: .*a folder of {title}"):
            call(dict.fromkeys(names, b""))
    with pytest.raises(FileNotFoundError, match="no ATLAS store"):
        call({})
    with pytest.raises(ValueError, match="expected relative paths"):
        call({"/atlas.json": b""})
    with pytest.raises(TypeError, match="expected a list of paths, got bytes in it"):
        call([b"ATPK"])
    with pytest.raises(BufferError):
        call(memoryview(b"ATPK" * 2000)[::2])


def test_damage(tmp_path: Path) -> None:
    whole = write_molecules(tmp_path / "data.atp")
    for data in (whole[:5000], b"", bytes(9000)):
        with pytest.raises((apt.CorruptFileError, apt.UnsupportedFormatError)):
            apt.open(data)
        assert apt.info(data)["errors"]
    with pytest.raises(TypeError, match="path: expected a path or a list of paths, got bytes"):
        apt.compact(whole, tmp_path / "b.atp")  # type: ignore[arg-type]


def test_what_is_no_path() -> None:
    for wrong in (5, None, np.zeros((1, 2))):
        got = type(wrong).__name__
        with pytest.raises(TypeError, match=f"path: expected a path or a list of paths, got {got}"):
            apt.open(wrong)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="path: expected a path, got an empty string"):
        apt.open("")


def test_local_names_that_look_like_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_molecules(Path("<memory>"))
    assert len(apt.open("<memory>")) == 18
    assert apt.verify("<memory>").ok
    write_array_file(Path("<memory>.af"))
    assert apt.info("<memory>.af")["n_datasets"] == 1
    assert apt.head("<memory>.af")[0]["arrays"][""].tolist() == list(range(7))
