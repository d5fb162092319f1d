"""Feature caches from URLs: downloaded once, shared, and never left behind."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import json
import multiprocessing
import multiprocessing.util
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from file_server import FileServer, serving
from processes.client import ScriptServer
from reading import SECRET, same

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.remote import local_copies
from atompack_torch.remote.files import RemoteFiles
from atompack_torch.remote.local_copies import ObjectVersion, fetch_into, version_of

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "cache" / "water.h5"
PARTS = 40  # requests for a file in the tests of transfers
PART = 64 << 10  # bytes


@pytest.fixture(autouse=True)
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; its name is short, as those of sockets have to be."""
    multiprocessing.util.get_temp_dir()  # the socket of a fork server outlives the test
    made = Path(tempfile.mkdtemp(prefix="at"))
    monkeypatch.setenv("TMPDIR", str(made))
    monkeypatch.setattr("tempfile.tempdir", None)
    yield made
    gc.collect()
    left = list(made.glob("atompack-*"))
    shutil.rmtree(made)
    assert not left


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    shutil.copy(FIXTURE, made / "cache.h5")
    (made / "large.bin").write_bytes(os.urandom(local_copies._PART_BYTES * 3 + 17))
    (made / "empty.bin").touch()
    return made


@pytest.mark.parametrize("keeps", [False, True])
def test_rows_are_those_of_the_file(
    server: FileServer, folder: Path, tmp_path: Path, temporary: Path, *, keeps: bool
) -> None:
    options: Any = {"storage_options": {"cache": tmp_path / "kept"}} if keeps else {}
    url = f"{server.url}/cache.h5"
    local, remote = apt.TorchCache(folder / "cache.h5"), apt.TorchCache(url, **options)
    assert (remote.path, len(remote), remote.info) == (url, len(local), local.info)
    for entry in range(len(local)):
        for name in ("load_features", "load_force_derivatives"):
            found, expected = getattr(remote, name)(entry), getattr(local, name)(entry)
            assert (found is None) == (expected is None)
            if isinstance(expected, dict):
                assert all(torch.equal(found[key], expected[key]) for key in expected)
            elif expected is not None:
                assert torch.equal(found, expected)
    everything, expected = apt.TorchCacheDataset(remote), apt.TorchCacheDataset(local)
    assert same(everything[:], expected[:])
    assert repr(everything) == f"TorchCacheDataset({len(local)} entries of {url!r})"
    assert len(list(temporary.glob("atompack-*"))) == (0 if keeps else 1)
    n_before = len(server.requests)
    apt.TorchCacheDataset(url, **options)
    assert len(server.requests) - n_before == (1 if keeps else 2)


def test_a_pickle_downloads_again_where_the_copy_is_gone(server: FileServer) -> None:
    remote = apt.TorchCache(f"{server.url}/cache.h5")
    held = pickle.dumps(remote)
    expected = remote.load_features(0)
    remote.close()
    assert torch.equal(pickle.loads(held).load_features(0), expected)
    assert torch.equal(remote.load_features(0), expected)  # type: ignore[arg-type]


def test_temporary_copies_go(server: FileServer, temporary: Path) -> None:
    url = f"{server.url}/cache.h5"
    cache = apt.TorchCache(url)
    assert len(list(temporary.glob("atompack-*"))) == 1
    cache.close()
    assert not list(temporary.glob("atompack-*"))
    script = "import sys; import atompack_torch as apt; kept = apt.TorchCache(sys.argv[1])"
    subprocess.run([sys.executable, "-c", script, url], check=True, timeout=120)
    assert not list(temporary.glob("atompack-*"))


def test_damage_is_reported_with_the_url(folder: Path, tmp_path: Path) -> None:
    data = (folder / "cache.h5").read_bytes()
    (tmp_path / "cache.h5").write_bytes(data[: len(data) // 2])
    with serving(tmp_path) as server:
        url = f"{server.url}/cache.h5"
        with pytest.raises(apt.CorruptFileError, match=re.escape(url)):
            apt.TorchCache(url)


def download(url: str, path: Path, report: Any = None) -> ObjectVersion:
    source = RemoteFiles().open_object(url)
    with path.open("w+b") as file:
        fetch_into(file.fileno(), source, url, report)
    return version_of(source)


@pytest.mark.parametrize("name", ["large.bin", "empty.bin"])
def test_downloads_are_whole(server: FileServer, folder: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "copy"
    target.write_bytes(b"the former one")
    done: list[int] = []
    version = download(f"{server.url}/{name}", target, report=done.append)
    assert target.read_bytes() == (folder / name).read_bytes()
    assert version.size == sum(done) == target.stat().st_size


def test_an_object_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_copies, "_PART_BYTES", PART)
    (tmp_path / "a").write_bytes(bytes(PARTS * PART))
    with serving(tmp_path) as server:

        def change(_: int) -> None:
            if (tmp_path / "a").stat().st_size == PARTS * PART:
                (tmp_path / "a").write_bytes(bytes(PARTS * PART + 1))

        with pytest.raises(OSError, match=re.escape(server.url)) as error:
            download(f"{server.url}/a", tmp_path / "copy", report=change)
    assert error.value.errno == errno.ESTALE


def test_the_limit_of_the_folder_holds(folder: Path, tmp_path: Path) -> None:
    size = (folder / "cache.h5").stat().st_size
    for number in range(4):
        shutil.copy(folder / "cache.h5", tmp_path / f"{number}.h5")
    with serving(tmp_path) as server:
        kept = tmp_path / "kept"
        first = None
        for number in range(4):
            limit = 2 * size + size // 2
            url = f"{server.url}/{number}.h5"
            cache = apt.TorchCache(url, storage_options={"cache": kept, "cache_bytes": limit})
            first = first or cache
            assert sum(path.stat().st_size for path in kept.iterdir()) <= limit
            assert first.load_features(0) is not None  # it is open, though removed
        with pytest.raises(OSError, match="cache_bytes") as error:
            apt.TorchCache(
                f"{server.url}/0.h5", storage_options={"cache": kept, "cache_bytes": size - 1}
            )
        assert error.value.errno == errno.ENOSPC
        assert not list(kept.glob(".*"))


def test_a_process_that_hangs_is_not_waited_for(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor one of another container that has the id of this process."""
    monkeypatch.setattr(local_copies, "_SECONDS_WITHOUT_PROGRESS", 0.1)
    kept, url = tmp_path / "kept", f"{server.url}/cache.h5"
    n_entries = len(apt.TorchCache(url, storage_options={"cache": kept}))
    (path,) = kept.iterdir()
    path.unlink()
    names = [f".{path.name}.part", f".{path.name}.{os.getpid()}.part"]
    with contextlib.ExitStack() as stack:
        for name in names:
            file = stack.enter_context((kept / name).open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        assert len(apt.TorchCache(url, storage_options={"cache": kept})) == n_entries
    assert {each.name for each in kept.iterdir()} == {path.name, *names}


OPENING = """
import os, sys
import atompack_torch as apt

url, kept, start = sys.argv[1:]
while not os.path.exists(start):
    pass
print(len(apt.TorchCache(url, storage_options={"cache": kept})))
"""


def test_processes_download_once(
    server: FileServer, folder: Path, tmp_path: Path, scripts: ScriptServer
) -> None:
    kept, start = tmp_path / "kept", tmp_path / "start"
    url = f"{server.url}/cache.h5"
    processes = [scripts.start(OPENING, url, kept, start) for _ in range(4)]
    start.touch()
    expected = f"{len(apt.TorchCache(folder / 'cache.h5'))}\n"
    assert [process.wait() for process in processes] == [(0, expected, "")] * 4
    assert len(list(kept.iterdir())) == 1
    assert len(server.requests) <= 4 + 1  # each asks for the version, and one for the bytes


def test_another_process_finishes_just_before_the_lock(
    server: FileServer, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, url = tmp_path / "kept", f"{server.url}/cache.h5"
    lock = local_copies._Folder._lock

    def lock_late(self: local_copies._Folder, staged: Path) -> int | None:
        monkeypatch.setattr(local_copies._Folder, "_lock", lock)
        apt.TorchCache(url, storage_options={"cache": kept})
        server.requests.clear()
        return lock(self, staged)

    monkeypatch.setattr(local_copies._Folder, "_lock", lock_late)
    n_entries = len(apt.TorchCache(url, storage_options={"cache": kept}))
    assert n_entries == len(apt.TorchCache(folder / "cache.h5"))
    assert server.requests == []
    assert len(list(kept.iterdir())) == 1


def test_the_downloader_may_still_hold_its_lock(server: FileServer, tmp_path: Path) -> None:
    kept, url = tmp_path / "kept", f"{server.url}/cache.h5"
    n_entries = len(apt.TorchCache(url, storage_options={"cache": kept}))
    (path,) = kept.iterdir()
    server.requests.clear()
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert len(apt.TorchCache(url, storage_options={"cache": kept})) == n_entries
    assert len(server.requests) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
import atompack_torch as apt
from atompack_torch.remote import local_copies

local_copies._PART_BYTES = 1 << 10
written = []
write = local_copies._write

def write_and_die(file, data, offset):
    write(file, data, offset)
    written.append(offset)
    if len(written) == 5:
        os.kill(os.getpid(), signal.SIGKILL)

local_copies._write = write_and_die
apt.TorchCache(sys.argv[1], storage_options={"cache": sys.argv[2]})
"""


def test_a_killed_process_leaves_no_half_file(
    server: FileServer, folder: Path, tmp_path: Path, scripts: ScriptServer
) -> None:
    kept = tmp_path / "kept"
    url = f"{server.url}/cache.h5"
    assert scripts.run(KILLED, url, kept).returncode == -signal.SIGKILL
    assert [path.name[0] for path in kept.iterdir()] == ["."]
    local = apt.TorchCacheDataset(folder / "cache.h5")
    assert same(apt.TorchCacheDataset(url, storage_options={"cache": kept})[:], local[:])
    assert [path.name[0] != "." for path in kept.iterdir()] == [True]


def test_progress_is_shown_on_terminals_only(server: FileServer, tmp_path: Path) -> None:
    script = (
        "import sys; from atompack_torch.remote import local_copies; "
        "from atompack_torch.remote.files import RemoteFiles; "
        "local_copies._SECONDS_UNSEEN = float(sys.argv[3]); "
        "file, url = open(sys.argv[2], 'w+b'), sys.argv[1]; "
        "local_copies.fetch_into(file.fileno(), RemoteFiles().open_object(url), url)"
    )
    for is_terminal, seconds, is_shown in ((1, "0", True), (1, "60", False), (0, "0", False)):
        reader, writer = os.openpty() if is_terminal else os.pipe()
        command = [sys.executable, "-c", script, f"{server.url}/large.bin", str(tmp_path / "copy")]
        subprocess.run([*command, seconds], stderr=writer, check=True, timeout=120)
        os.set_blocking(reader, False)
        os.write(writer, b"!")
        time.sleep(0.1)
        assert (b"downloading large.bin" in os.read(reader, 1 << 16)) == is_shown
        os.close(reader)
        os.close(writer)


def test_inspection(server: FileServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, path = f"{server.url}/cache.h5?sig={SECRET}", folder / "cache.h5"
    shown = url.partition("?")[0]
    assert apt.info(url)["files"] == [{**apt.info(path)["files"][0], "path": shown}]
    for one, other in zip(apt.head(url, 2), apt.head(path, 2), strict=True):
        assert torch.equal(one.positions, other.positions)
    assert apt.verify(url).faults == apt.verify(path).faults
    assert apt.statistics(url).as_dict() == apt.statistics(path).as_dict()
    assert isinstance(apt.open(url), apt.TorchCacheDataset)
    assert main(["info", url, "--json"]) == 0
    assert SECRET not in capsys.readouterr().out


def test_faults_name_the_url(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / "cache.h5").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4000] = bytes(4000)
    (tmp_path / "cache.h5").write_bytes(data)
    with serving(tmp_path) as damaged:
        url = f"{damaged.url}/cache.h5"
        with pytest.raises(apt.AtompackError, match=re.escape(url)):
            apt.open(url)[:]
        document = apt.verify(url).as_dict()
    assert document["faults"]
    assert "/atompack-" not in json.dumps(document)
