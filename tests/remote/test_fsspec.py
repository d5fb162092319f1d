"""URLs that fsspec opens."""

from __future__ import annotations

import errno
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from folder_system import FolderFileSystem
from molecule_files import write
from reading import same
from torch.utils.data import DataLoader

import atompack_torch as apt

COUNT = 3000
SECRET = "wJalrXUtnFEMI"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "a.atp", COUNT)
    for i in range(3):
        write(tmp_path / "shards" / f"{'xyz'[i]}/{i}.atp", seed=i)
    return tmp_path


@pytest.fixture
def memory(folder: Path) -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    for path in folder.rglob("*.atp"):
        system.pipe(f"/{path.relative_to(folder)}", path.read_bytes())
    yield system
    system.store.clear()


def options(folder: Path, **others: Any) -> dict[str, Any]:
    return {"root": str(folder), "secret": SECRET, **others}


@pytest.mark.usefixtures("memory")
def test_files_and_folders_in_memory(folder: Path) -> None:
    remote, local = apt.AtpDataset("memory://a.atp"), apt.AtpDataset(folder / "a.atp")
    loader = apt.Loader(remote, 50, shuffle=True, seed=1, num_threads=2)
    expected = apt.Loader(local, 50, shuffle=True, seed=1)
    for batch, wanted in zip(loader, expected, strict=True):
        assert same(batch, wanted)
    shards = apt.AtpDataset(folder / "shards")
    for url in ("memory://shards", "memory://shards/"):
        assert same(apt.AtpDataset(url)[:], shards[:])
        assert same(apt.open(url)[:], shards[:])
    assert apt.info("memory://a.atp")["n_molecules"] == COUNT
    assert apt.verify("memory://").ok
    with pytest.raises(FileNotFoundError, match=r"memory://none\.atp"):
        apt.AtpDataset("memory://none.atp")
    with pytest.raises(FileNotFoundError, match="memory://none"):
        apt.AtpDataset("memory://none")
    with pytest.raises(FileNotFoundError, match="memory://none"):
        apt.open("memory://none")


def test_a_changed_file_is_stale_until_refresh(memory: Any, folder: Path) -> None:
    remote = apt.AtpDataset("memory://a.atp", storage_options={"cache_bytes": 1 << 16})
    remote.batch([0])
    write(folder / "b.atp", COUNT, seed=9)  # of the same size
    memory.pipe("/a.atp", (folder / "b.atp").read_bytes())
    with pytest.raises(OSError, match=r"memory://a\.atp") as error:
        remote.batch(range(0, COUNT, 3))
    assert error.value.errno == errno.ESTALE
    assert remote.refresh()
    assert same(remote[:], apt.AtpDataset(folder / "b.atp")[:])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers(folder: Path, start: str) -> None:
    local = apt.AtpDataset(folder / "a.atp")
    remote = apt.AtpDataset("folder://a.atp", storage_options=options(folder))
    remote.batch([0])
    order = torch.randperm(COUNT, generator=torch.Generator().manual_seed(3))[:600].view(-1, 50)
    loader = DataLoader(
        remote,
        batch_sampler=order.tolist(),
        num_workers=2,
        collate_fn=apt.collate_identity,
        multiprocessing_context=start,
        worker_init_fn=_register,
        timeout=60,
    )
    for indices, batch in zip(order, loader, strict=True):
        assert same(batch, local.batch(indices))


def _register(_: int) -> None:
    fsspec.register_implementation("folder", FolderFileSystem, clobber=True)


@pytest.mark.parametrize(
    ("fault", "kind", "code"),
    [
        ("value", OSError, errno.EIO),
        ("denied", PermissionError, errno.EACCES),
        ("late", TimeoutError, errno.ETIMEDOUT),
        ("short", OSError, errno.EIO),
    ],
)
def test_errors_have_class_and_address_and_no_secret(
    folder: Path, fault: str, kind: type[OSError], code: int
) -> None:
    remote = apt.AtpDataset("folder://a.atp", storage_options=options(folder))
    remote.batch([0])
    assert SECRET.encode() in pickle.dumps(remote)
    (folder / "FAULT").write_text(fault)
    with pytest.raises(kind, match=r"folder://a\.atp") as error:
        remote.batch(range(0, COUNT, 50))
    assert error.value.errno == code
    shown = [repr(remote), repr(remote._remote), str(error.value)]
    if fault != "short":
        with pytest.raises(kind, match=r"folder://a\.atp") as opening:
            apt.AtpDataset("folder://a.atp", storage_options=options(folder))
        shown.append(str(opening.value))
    assert not [text for text in shown if SECRET in text]
    (folder / "FAULT").unlink()
    assert len(remote.batch(range(0, COUNT, 50))) == 60


def test_archives(folder: Path, tmp_path: Path) -> None:
    def pack(name: str) -> None:
        with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted((folder / "shards").rglob("*.atp")):
                archive.write(path, f"{name}/{path.relative_to(folder / 'shards')}")

    pack("inside")
    local = apt.AtpDataset(folder / "shards")
    remote = apt.AtpDataset(f"zip://inside::file://{tmp_path}/set.zip")
    assert same(remote[:], local[:])
    one = f"zip://inside/x/0.atp::file://{tmp_path}/set.zip"
    single = apt.open(one)
    assert same(single[:], local[:60])
    write(folder / "shards/x/0.atp", 75, seed=4)
    pack("inside")
    single.close()
    with pytest.raises(OSError, match=re.escape(one)) as error:
        single.batch([1])
    assert error.value.errno == errno.ESTALE
    assert single.refresh()
    assert same(single[:], apt.AtpDataset(folder / "shards/x/0.atp")[:])


def test_copies_of_fsspec_itself(folder: Path, tmp_path: Path) -> None:
    given = {"cache_storage": str(tmp_path / "copies")}
    url = f"simplecache::file://{folder}/a.atp"
    remote = apt.AtpDataset(url, storage_options=given)
    assert same(remote[:], apt.AtpDataset(folder / "a.atp")[:])
    assert list((tmp_path / "copies").iterdir())


def test_block_caches_are_for_files_with_versions(folder: Path, tmp_path: Path) -> None:
    local, cache = apt.AtpDataset(folder / "a.atp"), tmp_path / "cache"
    for _ in range(2):
        remote = apt.AtpDataset(
            "folder://a.atp", storage_options={**options(folder), "cache": cache}
        )
        assert same(remote[:], local[:])
    assert remote._remote.stats()["fsspec"]["pages_from_disk"] > 0  # type: ignore[operator]
    time.sleep(0.01)
    write(folder / "a.atp", COUNT, seed=5)
    again = apt.AtpDataset("folder://a.atp", storage_options={**options(folder), "cache": cache})
    assert same(again[:], apt.AtpDataset(folder / "a.atp")[:])


def test_schemes_and_options_are_checked(folder: Path) -> None:
    with pytest.raises(ValueError, match="expected a scheme that fsspec knows, got 'nothing'"):
        apt.AtpDataset("nothing://a.atp")
    with pytest.raises(TypeError, match="storage_options: expected a mapping"):
        apt.AtpDataset("memory://a.atp", storage_options=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="storage_options: expected"):  # not for the other one
        apt.AtpDataset(["folder://a.atp", "s3://b/c.atp"], storage_options=options(folder))


def test_ctrl_c_ends_a_wait(folder: Path) -> None:
    remote = apt.AtpDataset("folder://a.atp", storage_options=options(folder))
    remote.batch([0])
    slow = apt.AtpDataset("folder://a.atp", storage_options=options(folder, delay=3))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        slow.batch([COUNT - 1])
    assert time.monotonic() - start < 2.5


@pytest.mark.timeout(60)
def test_forks_and_ends_of_processes_do_not_hang(folder: Path) -> None:
    script = f"""
import os, sys, threading, time
sys.path.insert(0, {str(Path(__file__).parent)!r})
import folder_system
import atompack_torch as apt
remote = apt.AtpDataset("folder://a.atp", storage_options={{"root": {str(folder)!r}}})
other = remote.batch([0])
child = os.fork()
if child == 0:
    remote.batch([2500])
    raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
slow = apt.AtpDataset("folder://a.atp", storage_options={{"root": {str(folder)!r}, "delay": 0.7}})
slow.batch([0])
folder_system.FolderFileSystem._fault = lambda self: time.sleep(1000)
threading.Thread(target=lambda: slow.batch([2000]), daemon=True).start()
time.sleep(0.5)  # the request is on its way
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "end\n"), done.stderr
