"""Anything that is not a regular file is refused immediately by everything that opens files."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch._native import check_regular_file
from atompack_torch.cli import main
from atompack_torch.conversion import convert

pytestmark = pytest.mark.timeout(60)

Make = Callable[[Path], None]


def make_socket(path: Path) -> None:
    """Bound by a short name: there is little room for one."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


KINDS: dict[str, Make] = {
    "a pipe": os.mkfifo,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "one of a virtual file system": lambda path: path.symlink_to("/proc/self/environ"),
    "Is a directory": Path.mkdir,
}


def read_store(folder: Path, name: str, make: Make) -> None:
    with apt.AtlasStore(folder / "s", "x") as store:
        store.create_dataset("d")
        store.define_array("d", "v", "int32", (2,))
        store.write("d", "v", [1, 2])
    file = next(file for file in (folder / "s").rglob(name))
    file.unlink()
    make(file)
    apt.AtlasStore(folder / "s").read("d", "v")


def read_shards(folder: Path, name: str, make: Make) -> None:
    with apt.ShardWriter(folder / "s", 10, 1, 1) as writer:
        writer.write(1)
    file = next((folder / "s").glob(f"*/{name}")) if name != "root" else folder / "s" / "meta.json"
    file.unlink()
    make(file)
    apt.ShardDataset(folder / "s")[0]


def opened(suffix: str, use: Callable[[Path], Any]) -> Callable[[Path, Make], Any]:
    """Uses a path at which there is no regular file."""

    def open_it(folder: Path, make: Make) -> Any:
        path = folder / f"it{suffix}"
        make(path)
        return use(path)

    return open_it


def converted(path: Path) -> Any:
    return convert(path, path.with_name("out.atp"))


OPENERS: dict[str, Callable[[Path, Make], Any]] = {
    "AtpDataset": opened("", lambda path: apt.AtpDataset([path])),
    "AtpWriter": opened(".atp", lambda path: apt.AtpWriter(path, mode="a")),
    "compact": opened(".atp", lambda path: apt.compact([path], path.with_name("out"))),
    "ArrayFile": opened(".af", apt.ArrayFile),
    "ArrayFile a": opened(".af", lambda path: apt.ArrayFile(path, "a")),
    "TorchCache": opened(".h5", apt.TorchCache),
    "convert npz": opened(".npz", converted),
    "convert h5": opened(".h5", converted),
    "convert db": opened(".db", converted),
    "convert cif": opened(".cif", converted),
    "convert ?": opened(".unknown", converted),
    "store metadata": lambda folder, make: read_store(folder, "atlas.json", make),
    "store base": lambda folder, make: read_store(folder, "data.af", make),
    "store layer": lambda folder, make: read_store(folder, "data.1.af", make),
    "shards": lambda folder, make: read_shards(folder, "root", make),
    "shard": lambda folder, make: read_shards(folder, "meta.json", make),
    "shard index": lambda folder, make: read_shards(folder, "index.npy", make),
    "shard data": lambda folder, make: read_shards(folder, "data.bin", make),
}


@pytest.mark.parametrize("opener", OPENERS)
def test_openers_refuse_at_once(tmp_path: Path, opener: str) -> None:
    for kind in KINDS:
        if kind == "Is a directory" and opener in ("convert cif", "convert ?"):
            continue  # some formats of ASE are folders, and so are shards
        folder = tmp_path / kind
        folder.mkdir()
        assert_refused(folder, kind, opener)


def assert_refused(folder: Path, kind: str, opener: str) -> None:
    refusals = (OSError, apt.CorruptFileError, apt.UnsupportedFormatError)
    with pytest.raises(refusals) as caught:
        OPENERS[opener](folder, KINDS[kind])
    said = kind
    if kind == "Is a directory":
        said = "no .atp file in this folder" if opener == "compact" else said
        said = "expected a folder of" if opener.startswith("convert") else said
    if opener.startswith("convert") and kind == "one of a virtual file system":
        said = "of /proc"
    assert said in str(caught.value), caught.value


@pytest.mark.parametrize("command", ["info", "verify", "head", "stats"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Is a directory"])
def test_commands_refuse_at_once(
    tmp_path: Path, kind: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    KINDS[kind](tmp_path / "a.atp")
    assert main([command, str(tmp_path / "a.atp")]) in (1, 2)
    said = capsys.readouterr()
    assert kind in said.err + said.out


def test_links_are_followed(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "real.atp") as writer:
        writer.write_arrays(positions=np.zeros((1, 1, 3)), atomic_numbers=[[1]])
    link = tmp_path / "link.atp"
    link.symlink_to(tmp_path / "real.atp")
    (tmp_path / "twice.atp").symlink_to(link)
    assert len(apt.AtpDataset(tmp_path / "twice.atp")) == 1
    check_regular_file(str(tmp_path / "twice.atp"))


def test_empty_files_are_regular(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    check_regular_file(str(tmp_path / "a"))
    with pytest.raises(FileNotFoundError):
        check_regular_file(str(tmp_path / "b"))
