"""Commands as parts under torchrun: together they do what one process does, even after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt

pytestmark = pytest.mark.timeout(400)

N = 60_000
SECONDS = 300
LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
COMMAND = str(Path(sys.executable).with_name("atompack-torch"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Frames of 1 to 3 atoms, numbered."""
    path = tmp_path_factory.mktemp("source") / "x.extxyz"
    rows = np.random.default_rng(0).normal(0, 3, (64, 6)).round(6).tolist()
    with path.open("w") as file:
        for i in range(N):
            n = 1 + i % 3
            file.write(f"{n}\nProperties=species:S:1:pos:R:3:forces:R:3 energy={i / 7} step={i}\n")
            lines = (rows[(i + k) % 64] for k in range(n))
            file.writelines(f"H {' '.join(map(str, line))}\n" for line in lines)
    return path


def started(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LAUNCHER, "--no-python", COMMAND, *map(str, arguments)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(*arguments: object) -> str:
    with started(*arguments) as process:
        output, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    return output


def ranks(launcher: int) -> list[int]:
    """The processes that the launcher has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may end in the meantime
            if int(stat.read_text().rpartition(")")[2].split()[1]) == launcher:
                found.append(int(stat.parent.name))
    return found


def documents(output: str) -> list[dict[str, Any]]:
    """JSON documents that follow each other."""
    decoder, found = json.JSONDecoder(), []
    while output := output.lstrip():
        document, end = decoder.raw_decode(output)
        found.append(document)
        output = output[end:]
    return found


def test_a_killed_conversion_is_completed(source: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    with started("convert", source, folder, "--part", "auto", "--quiet") as process:
        end = time.monotonic() + SECONDS
        while not [*folder.glob(".part-*.atp.new")]:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.001)
        for rank in ranks(process.pid):
            os.kill(rank, signal.SIGKILL)
        process.communicate(timeout=SECONDS)
    assert process.returncode != 0
    assert len([*folder.glob("part-*.atp")]) < 2
    finished("convert", source, folder, "--part", "auto", "--quiet")
    names = ["part-00000-of-00002.atp", "part-00001-of-00002.atp"]
    shown = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    assert shown == [*names, "parts.json"]
    whole = apt.convert(source, tmp_path / "whole.atp", progress=False)
    (report,) = documents(finished("convert", source, folder, "--part", "auto", "--json"))[-1:]
    assert report["structures_written"] == 0
    assert report["whole"]["structures_written"] == whole.structures_written == N
    assert report["whole"]["labels"] == dict(whole.labels)
    ours, one = apt.AtpDataset(folder)[:], apt.AtpDataset(tmp_path / "whole.atp")[:]
    for name in ("positions", "atomic_numbers", "ptr", "energy", "forces", "step"):
        assert torch.equal(ours[name], one[name]), name


def test_caches(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.atp"
    apt.convert(source, path, progress=False)
    some = apt.AtpDataset(path).subset(range(200))
    with apt.AtpWriter(tmp_path / "some.atp") as writer:
        writer.write(some[:])
    settings = ("--species", "H", "--rad-order", "2", "--rad-cutoff", "3")
    settings += ("--ang-order", "1", "--ang-cutoff", "2")
    for name, run in (("x.h5", finished), ("one.h5", alone_with)):
        run("cache", "build", tmp_path / "some.atp", tmp_path / name, *settings)
    ours, one = (apt.TorchCacheDataset(tmp_path / name)[:] for name in ("x.h5", "one.h5"))
    assert torch.equal(ours.features, one.features)


def alone_with(*arguments: object) -> None:
    subprocess.run([COMMAND, *map(str, arguments)], check=True, capture_output=True)
