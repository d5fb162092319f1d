"""Parts of a cache that job arrays build: one file as of a single process, whatever is killed."""

from __future__ import annotations

import json
import random
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from processes.client import ScriptServer
from reference import cache_molecules
from reference.cache_molecules import descriptor

import atompack_torch as apt
from atompack_torch.formats.torch_cache import building
from atompack_torch.formats.torch_cache.building import BuildOptions, build_part

N = 101
OPTIONS = BuildOptions(
    features=True,
    force_derivatives=True,
    dtype="float64",
    num_threads=2,
    progress=False,
    resume=True,
)
BUILD = """
import os, sys
import torch
import atompack_torch as apt
from atompack_torch.formats.torch_cache import building
from atompack_torch.formats.torch_cache.building import BuildOptions

building._FIRST_ATOMS = building._MOST_ATOMS = 24
building._CHECKPOINT_BYTES = 20000
torch.set_num_threads(1)
descriptor = apt.ChebyshevDescriptor(["O", "H", "Si"], 3, 3.4, 2, 2.7)

def tell(n):
    os.write(1, b"%d\\n" % n)

options = BuildOptions(features=True, force_derivatives=True, dtype="float64", num_threads=2,
                       progress=tell, resume=True)
part = int(sys.argv[3]), int(sys.argv[4])
made = building.build_part(apt.AtpDataset(sys.argv[1]), descriptor, sys.argv[2], part, options)
print("missing", made if isinstance(made, list) else [])
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cache_molecules.write(tmp_path_factory.mktemp("molecules") / "m.atp", N)


@pytest.fixture(scope="module")
def whole(path: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    made = tmp_path_factory.mktemp("whole") / "made.h5"
    apt.build_cache(
        apt.AtpDataset(path), descriptor(), made, force_derivatives=True, progress=False
    )
    return made.read_bytes()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "caches").mkdir()
    return tmp_path / "caches" / "made.h5"


def left(target: Path) -> list[str]:
    return sorted(file.name for file in target.parent.iterdir())


def build(path: Path, target: Path, number: int, count: int) -> Any:
    return build_part(apt.AtpDataset(path), descriptor(), target, (number, count), OPTIONS)


@pytest.mark.parametrize("n_parts", [1, 3, 8, N + 5])
def test_the_last_part_joins_all(path: Path, target: Path, whole: bytes, n_parts: int) -> None:
    """Byte by byte what one process builds."""
    order = random.Random(n_parts).sample(range(n_parts), n_parts)
    # Where there are more parts than molecules, those without any are complete from the start.
    for place, number in enumerate(order):
        made = build(path, target, number, n_parts)
        if not isinstance(made, list):
            break
        assert not target.exists()
        assert set(made) <= {*order[place + 1 :]}
        assert n_parts > N or len(made) == n_parts - place - 1
    assert isinstance(made, apt.TorchCache)
    assert target.read_bytes() == whole
    assert left(target) == ["made.h5"]
    for number in range(n_parts):
        assert isinstance(build(path, target, number, n_parts), apt.TorchCache)
    assert left(target) == ["made.h5"]


def test_parts_built_again_take_no_time(
    path: Path, target: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert build(path, target, 1, 3) == [0, 2]
    monkeypatch.setattr(apt.ChebyshevDescriptor, "compute", None)
    assert build(path, target, 1, 3) == [0, 2]
    monkeypatch.undo()
    build(path, target, 0, 3)
    build(path, target, 2, 3)
    assert target.read_bytes() == whole


def test_a_part_begun_after_all_were_joined(
    path: Path, target: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second process with the same part, slow or killed, leaves no files behind."""
    for number in range(3):
        build(path, target, number, 3)
    made = target.read_bytes()
    target.unlink()
    with monkeypatch.context() as slow:  # it looks before the others join, and continues after that
        slow.setattr(building, "_join_if_complete", lambda *_: [0, 2])
        build(path, target, 1, 3)
    assert left(target) == [".made.h5.part1of3.journal.new", ".made.h5.part1of3.new"]
    target.write_bytes(made)
    assert isinstance(build(path, target, 1, 3), apt.TorchCache)
    assert left(target) == ["made.h5"]
    assert target.read_bytes() == whole


@pytest.mark.timeout(500)
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment(
    scripts: ScriptServer, path: Path, target: Path, whole: bytes, seed: int
) -> None:
    """All parts immediately, killed and started again, even while they are joined."""
    rng = random.Random(seed)
    for _ in range(30):
        running = [scripts.start(BUILD, path, target, str(k), "3") for k in range(3)]
        time.sleep(rng.random() * 0.4)
        for script in running:
            script.kill()
        if target.exists():
            break
    for number in range(3):
        done = scripts.run(BUILD, path, target, str(number), "3")
        assert done.returncode == 0, done
    assert target.read_bytes() == whole
    assert set(left(target)) <= {"made.h5", ".made.h5.journal.new"}


def test_an_interrupted_join_is_resumed(
    path: Path, target: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With parts that are gone already, those that are there still, and one of each."""
    job = building.BuildJob.of(apt.AtpDataset(path), descriptor(), OPTIONS, target)
    for number in (0, 1):
        build(path, target, number, 3)
    copies = target.parent.parent / "copies"
    shutil.copytree(target.parent, copies)
    with job.open(target, resume=True) as builder:  # joins one and a bit
        builder.absorb(job.part(0, 3).path, job.fingerprint)
        builder.absorb(job.part(1, 3).path, job.fingerprint)
    for file in copies.glob("*part1of3*"):  # as if the process had died before it removed them
        shutil.copy(file, target.parent)
    assert not [*target.parent.glob(".*part0of3*")]
    assert build(path, target, 0, 3) == [2]
    assert isinstance(build(path, target, 2, 3), apt.TorchCache)
    assert target.read_bytes() == whole
    assert left(target) == ["made.h5"]


def test_a_part_in_progress(
    scripts: ScriptServer, path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = BUILD.replace("% n)", "% n); time.sleep(300)").replace("import os,", "import time, os,")
    running = scripts.start(stuck, path, target, "0", "2")
    running.wait_for("0\n")
    assert build(path, target, 1, 2) == [0]
    monkeypatch.setattr(building, "_PATIENCE", 0.5)
    with pytest.raises(apt.WriterLockedError):
        build(path, target, 0, 2)
    running.kill()
    assert isinstance(build(path, target, 0, 2), apt.TorchCache)


def test_wrong_parts(path: Path, target: Path) -> None:
    for part in ((2, 2), (-1, 2)):
        with pytest.raises(ValueError, match=r"part: expected"):
            build(path, target, *part)
    with pytest.raises(ValueError, match="got a URL"):
        build_part(apt.AtpDataset(path), descriptor(), "s3://a/b.h5", (0, 2), OPTIONS)
    assert left(target) == []


def test_the_command(path: Path, target: Path, scripts: ScriptServer) -> None:
    command = partial(scripts.command, "cache", "build")
    settings = ["--rad-order", 3, "--rad-cutoff", 3.4, "--ang-order", 2, "--ang-cutoff", 2.7]
    given = [path, target, *settings]
    first = command(*given, "--part", "1/2")
    assert first.returncode == 0, first.stderr
    assert first.stdout.endswith("made.h5: part 1 of 2 is complete, missing parts: 0\n")
    again = command(*given, "--part", "1/2", "--json")
    assert json.loads(again.stdout) == {
        "path": str(target),
        "part": [1, 2],
        "missing_parts": [0],
    }
    last = command(*given, "--part", "0/2")
    assert "101 entries, features in float64" in last.stdout
    assert "101 entries" in command(*given, "--part", "0/2").stdout
    assert command(path, "s3://x/y.h5", *settings, "--part", "0/2").returncode == 2
