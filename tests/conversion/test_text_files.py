"""Extended XYZ from compressed files, FIFOs and standard input."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from reference.extxyz import COLUMNS, one_atom, read
from reference.frames import assert_same

import atompack_torch as apt
from atompack_torch.conversion import convert
from atompack_torch.formats.extxyz.text_files import Text

# Types that widen and keys that come late: one look at the stream would not do.
TEXT = "".join(
    one_atom(
        f"{COLUMNS}:forces:R:3 energy={i / 7} step={i if i < 2500 else i + 0.5}", "H 0 0 0 1 2 3"
    )
    for i in range(3000)
).encode()
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.extxyz"
    path.write_bytes(TEXT)
    return path


def assert_converted(target: Path, report: object) -> None:
    batch = apt.AtpDataset(target)[:]
    assert len(batch) == 3000
    assert batch.energy.tolist() == [i / 7 for i in range(3000)]
    assert batch["step"][-1].item() == 2999.5
    assert batch.forces[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_files(plain: Path, tmp_path: Path, suffix: str) -> None:
    source = tmp_path / f"a.extxyz{suffix}"
    source.write_bytes(PACKERS[suffix](TEXT))
    report = convert(source, tmp_path / "a.atp", progress=False)
    assert_converted(tmp_path / "a.atp", report)
    assert report.bytes_read == source.stat().st_size
    frames = read(source)
    for got, want in zip(frames, read(plain), strict=True):
        assert_same(got, want)


@pytest.mark.parametrize("suffix", PACKERS)
def test_several_members_and_a_name_that_does_not_tell(tmp_path: Path, suffix: str) -> None:
    """As ``cat a.gz b.gz`` makes them."""
    half = TEXT.index(b"\n1\n", len(TEXT) // 2) + 1
    source = tmp_path / "a.xyz"
    source.write_bytes(PACKERS[suffix](TEXT[:half]) + PACKERS[suffix](TEXT[half:]))
    assert_converted(tmp_path / "a.atp", convert(source, tmp_path / "a.atp", progress=False))


@pytest.mark.parametrize("suffix", PACKERS)
def test_damage_of_compressed_files(tmp_path: Path, suffix: str) -> None:
    packed = PACKERS[suffix](TEXT)
    source = tmp_path / f"a.extxyz{suffix}"
    flipped = bytearray(packed)
    flipped[len(packed) // 2] ^= 0x55
    for damaged in (packed[:-3], packed[: len(packed) // 2], bytes(flipped), packed + b"rubbish"):
        source.write_bytes(damaged)
        with pytest.raises(apt.CorruptFileError, match=f"^{source}: compressed data: "):
            convert(source, tmp_path / "a.atp", progress=False)
    assert not (tmp_path / "a.atp").exists()


def feed(path: Path, data: bytes) -> threading.Thread:
    """A writer to a FIFO, in pieces of odd sizes."""

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for first in range(0, len(data), 30_011):
                file.write(data[first : first + 30_011])

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("packed", [False, True])
def test_a_fifo(tmp_path: Path, packed: bool) -> None:
    source = tmp_path / "pipe"
    os.mkfifo(source)
    writer = feed(source, gzip.compress(TEXT) if packed else TEXT)
    report = convert(source, tmp_path / "a.atp", progress=False)
    writer.join(60)
    assert_converted(tmp_path / "a.atp", report)


def test_errors_of_a_pipe_name_it(tmp_path: Path) -> None:
    source = tmp_path / "pipe"
    os.mkfifo(source)
    feed(source, one_atom("a=1").encode() + b"2\n\nH 0 0 0\n")
    with pytest.raises(apt.CorruptFileError, match=rf"^{source}: frame: .*molecule 1"):
        convert(source, tmp_path / "a.atp", progress=False)


def test_standard_input(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "atompack_torch", "convert", "-", tmp_path / "a.atp"]
    subprocess.run([*command, "--quiet"], input=TEXT, check=True, timeout=300)
    assert_converted(tmp_path / "a.atp", None)


def test_process_substitution(tmp_path: Path) -> None:
    """A shell passes the reading end of a pipe, by the name of its descriptor."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(TEXT)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    report = convert(f"/dev/fd/{reading}", tmp_path / "a.atp", progress=False)
    writer.join(60)
    os.close(reading)
    assert_converted(tmp_path / "a.atp", report)


@pytest.mark.parametrize("name", ["a.atp", "a.npz", "a.h5", "a.db", "a.aselmdb"])
def test_other_formats_refuse_pipes_at_once(tmp_path: Path, name: str) -> None:
    """Nobody writes: whoever opened the FIFO would wait forever."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(apt.UnsupportedFormatError, match="expected a regular file, got a pipe"):
        convert(tmp_path / name, tmp_path / "x.atp", progress=False)
    with pytest.raises(apt.UnsupportedFormatError, match="not format ase:vasp"):
        convert(tmp_path / name, tmp_path / "x.atp", format="ase:vasp", progress=False)


def test_sockets_devices_and_files_of_proc(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.extxyz"))
        with pytest.raises(apt.UnsupportedFormatError, match="got a socket"):
            convert(tmp_path / "s.extxyz", tmp_path / "x.atp", progress=False)
    with pytest.raises(apt.UnsupportedFormatError, match="got a device"):
        convert("/dev/zero", tmp_path / "x.atp", format="extxyz", progress=False)
    (tmp_path / "link").symlink_to("/proc/kmsg")  # a regular file to stat; reading it waits
    with pytest.raises(apt.UnsupportedFormatError, match="got one of /proc"):
        convert(tmp_path / "link", tmp_path / "x.atp", progress=False)


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    feed(tmp_path / "pipe", b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(apt.UnsupportedFormatError, match="got an HDF5 file"):
        convert(tmp_path / "pipe", tmp_path / "x.atp", progress=False)


def test_the_copy_has_no_name_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    source = tmp_path / "a.extxyz.gz"
    source.write_bytes(gzip.compress(TEXT))
    text = Text(source)
    assert Path(text.path).read_bytes() == TEXT
    assert [*(tmp_path / "tmp").iterdir()] == []
    text.close()
    assert not Path(text.path).exists()


def test_a_full_temporary_folder_is_named(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plain.with_suffix(".gz")
    source.write_bytes(gzip.compress(TEXT))
    full = Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full)
    with pytest.raises(OSError, match="TMPDIR names another folder"):
        read(source)
