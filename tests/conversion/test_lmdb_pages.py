"""LMDB without a mapping: what the library wrote, cut files, damage."""

from __future__ import annotations

import os
import random
import struct
import threading
from pathlib import Path

import ase
import ase.db
import lmdb
import numpy as np
import pytest
from ase.calculators.singlepoint import SinglePointCalculator

import atompack_torch as apt
from atompack_torch._native import LmdbFile
from atompack_torch.conversion import convert


def write(path: Path, values: dict[bytes, bytes]) -> None:
    with lmdb.open(str(path), subdir=False, map_size=1 << 30, lock=False) as env:
        items = [*values.items()]
        for first in range(0, max(len(items), 1), 500):  # several commits
            with env.begin(write=True) as transaction:
                for key, value in items[first : first + 500]:
                    transaction.put(key, value)


@pytest.mark.parametrize("n", [0, 1, 2, 100, 5000])
def test_every_key_is_found(tmp_path: Path, n: int) -> None:
    source = random.Random(n)
    values = {
        source.randbytes(source.randint(1, 40)): source.randbytes(
            source.choice([0, 10, 1000, 2030, 2040, 5000, 70_000 if n < 500 else 3])
        )
        for _ in range(n)
    }
    write(tmp_path / "x.mdb", values)
    file = LmdbFile(str(tmp_path / "x.mdb"))
    assert file.entries == len(values)
    assert all(file.get(key) == value for key, value in values.items())
    for _ in range(1000):
        key = source.randbytes(source.randint(1, 5))
        assert file.get(key) == values.get(key)


def test_deleted_and_rewritten_keys(tmp_path: Path) -> None:
    values = {str(i).encode(): os.urandom(i) for i in range(3000)}
    write(tmp_path / "x.mdb", values)
    with (
        lmdb.open(str(tmp_path / "x.mdb"), subdir=False, map_size=1 << 30, lock=False) as env,
        env.begin(write=True) as transaction,
    ):
        for i in range(0, 3000, 3):
            transaction.delete(str(i).encode())
            values.pop(str(i).encode())
        for i in range(1, 3000, 3):
            values[str(i).encode()] = bytes(3000 - i)
            transaction.put(str(i).encode(), bytes(3000 - i))
    file = LmdbFile(str(tmp_path / "x.mdb"))
    for i in range(3000):
        assert file.get(str(i).encode()) == values.get(str(i).encode())


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.aselmdb"
    with ase.db.connect(path, use_lock_file=False) as database:
        for i in range(400):
            atoms = ase.Atoms("CHO" * 9, np.random.default_rng(i).normal(size=(27, 3)))
            atoms.calc = SinglePointCalculator(atoms, energy=float(i))
            database.write(atoms)
        database.delete([7])
    whole = path.read_bytes()
    path.unlink()  # a copy without the holes and the lock of the library
    path.write_bytes(whole)
    return path


def test_a_database_cut_anywhere_is_an_error(rows: Path, tmp_path: Path) -> None:
    """The library's mapping kills the process with SIGBUS."""
    whole = rows.read_bytes()
    report = convert(rows, tmp_path / "whole.atp", progress=False)
    assert report.structures_written == 399
    for part in (0.9, 0.5, 0.1, 0.01):
        rows.write_bytes(whole[: int(len(whole) * part)])
        with pytest.raises(apt.CorruptFileError, match=f"^{rows}: .*it was cut"):
            convert(rows, tmp_path / "x.atp", progress=False)
    for size in (0, 10, 100, 4096, 5000):
        rows.write_bytes(whole[:size])
        with pytest.raises(apt.CorruptFileError, match=f"^{rows}: "):
            convert(rows, tmp_path / "x.atp", progress=False)
    assert not (tmp_path / "x.atp").exists()


def test_a_file_that_is_cut_while_it_is_read(rows: Path) -> None:
    file = LmdbFile(str(rows))
    assert file.get(b"1")
    os.truncate(rows, rows.stat().st_size // 3)
    with pytest.raises(apt.CorruptFileError, match=f"^{rows}: the file shrank while it was open"):
        [file.get(b"%d" % i) for i in range(1, 401)]


def test_a_file_that_is_cut_at_any_moment(rows: Path) -> None:
    whole = rows.read_bytes()
    done, messages = threading.Event(), list[str]()

    def cut() -> None:
        sizes = random.Random(1)
        while not done.is_set():
            os.truncate(rows, sizes.randrange(len(whole)))
            rows.write_bytes(whole)

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        for _ in range(100):
            try:
                file = LmdbFile(str(rows))
                [file.get(b"%d" % i) for i in range(1, 401)]
            except apt.CorruptFileError as error:
                messages.append(str(error))
    finally:
        done.set()
        thread.join()
    assert all(message.startswith(f"{rows}: ") for message in messages)


def test_damaged_bytes_give_errors_or_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.mdb"
    values = {str(i).encode(): os.urandom(i * 10) for i in range(300)}
    write(path, values)
    whole = path.read_bytes()
    source, messages = random.Random(2), list[str]()
    for _ in range(300):
        damaged = bytearray(whole)
        page = source.randrange(len(whole) // 4096) * 4096
        damaged[page + source.randrange(200)] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        try:
            file = LmdbFile(str(path))
            for key in values:
                file.get(key)
        except (apt.CorruptFileError, apt.UnsupportedFormatError) as error:
            messages.append(str(error))
    assert messages
    assert all(message.startswith(f"{path}: ") for message in messages)


def test_pages_that_name_others_many_times(tmp_path: Path) -> None:
    """Eight pages of ten nodes each, so that there are 10^8 ways to the last one."""
    size, n_pages = 256, 10
    branches = [struct.pack("<QHHHH", number, 0, 1, 36, 36) for number in range(2, n_pages)]
    pages = [head + struct.pack("<10H", *[40] * 10) for head in branches]
    nodes = [struct.pack("<4xHHHH", number + 3, 0, 0, 0) for number in range(n_pages - 2)]
    pages = [(page + node).ljust(size, b"\0") for page, node in zip(pages, nodes, strict=True)]
    pages[-1] = struct.pack("<QHHHH", n_pages - 1, 0, 2, 16, size).ljust(size, b"\0")
    header = struct.pack("<QHHHHIIQQ", 0, 0, 8, 0, 0, 0xBEEFC0DE, 1, 0, 1 << 30)
    header += struct.pack("<IHHQQQQQ", size, *[0] * 7)
    header += struct.pack("<IHHQQQQQ", 0, 0, 8, 0, 0, 0, 1, 2) + struct.pack("<QQ", 2**60, 1)
    path = tmp_path / "x.aselmdb"
    path.write_bytes(b"".join([header.ljust(size, b"\0")] * 2 + pages))
    with pytest.raises(apt.CorruptFileError, match="expected a tree of pages, got more"):
        apt.AseLmdbDataset(path)
    pages[-1] = struct.pack("<Q", n_pages - 1) + pages[0][8:]  # names one of those above it
    path.write_bytes(b"".join([header.ljust(size, b"\0")] * 2 + pages))
    with pytest.raises(apt.CorruptFileError, match="expected at most 32 levels, got more"):
        LmdbFile(str(path)).get(b"1")


def test_keys_that_the_file_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "x.lmdb"
    write(path, {b"0": b"\x80\x04N.", b"1": b"\x80\x04N."})
    data = bytearray(path.read_bytes())
    for header in (0, 4096):  # entries of the main database
        struct.pack_into("<Q", data, header + 16 + 24 + 48 + 32, 2**60)
    path.write_bytes(data)
    with pytest.raises(apt.CorruptFileError, match=r"x\.lmdb: expected keys in the file, got 1152"):
        LmdbFile(str(path))
