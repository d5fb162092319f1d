"""Builds that are killed, and how much memory they take."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes.client import Done, ScriptServer
from reference import cache_molecules
from reference.cache_file import Contents, read_with_h5py
from reference.cache_molecules import descriptor

import atompack_torch as apt

N = 400
# Many chunks and checkpoints though there are few atoms.
SETTINGS = """
import json, os, resource, sys
import torch
import atompack_torch as apt

from atompack_torch.formats.torch_cache import building as module
module._FIRST_ATOMS = module._MOST_ATOMS = 24
module._CHECKPOINT_BYTES = 50000
torch.set_num_threads(1)
descriptor = apt.ChebyshevDescriptor(["O", "H", "Si"], 3, 3.4, 2, 2.7)
path, target = sys.argv[1:3]
dataset = apt.AtpDataset(path)

def tell(n):
    os.write(1, b"%d\\n" % n)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cache_molecules.write(tmp_path_factory.mktemp("molecules") / "m.atp", N)


@pytest.fixture(scope="module")
def undisturbed(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Contents:
    made = tmp_path_factory.mktemp("undisturbed") / "made.h5"
    apt.build_cache(
        apt.AtpDataset(path), descriptor(), made, force_derivatives=True, progress=False
    )
    return read_with_h5py(made)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    folder = tmp_path / "caches"
    folder.mkdir()
    return folder / "made.h5"


def left(target: Path) -> list[str]:
    return sorted(file.name for file in target.parent.iterdir())


RANK = (
    SETTINGS
    + """
from datetime import timedelta
import torch.distributed as dist

meeting, rank, world, bad = sys.argv[3], *map(int, sys.argv[4:7])
dist.init_process_group("gloo", f"file://{meeting}", timedelta(seconds=1000), world, rank)
if rank == bad:
    descriptor = apt.ChebyshevDescriptor(["O"], 3, 3.4, 2, 2.7)
    class Known:
        compat = apt.ChebyshevDescriptor(["O", "H", "Si"], 3, 3.4, 2, 2.7).compat
        compute = descriptor.compute
    descriptor = Known()
try:
    cache = apt.build_cache(dataset, descriptor, target, force_derivatives=True, progress=tell)
    print("built", len(cache))
except (apt.AtompackError, OSError) as error:
    print(f"{type(error).__name__}: {error}")
dist.destroy_process_group()
"""
)


def run_ranks(
    scripts: ScriptServer, path: Path, target: Path, world: int, bad: int = -1
) -> list[Done]:
    meeting = target.parent.parent / f"meeting-{world}-{bad}"
    running = [
        scripts.start(RANK, path, target, meeting, str(rank), str(world), str(bad))
        for rank in range(world)
    ]
    ended = [script.wait() for script in running]
    assert [done.returncode for done in ended] == [0] * world, ended
    return ended


@pytest.mark.parametrize("world", [1, 3])
def test_ranks_make_one_file(
    scripts: ScriptServer, path: Path, target: Path, undisturbed: Contents, world: int
) -> None:
    for done in run_ranks(scripts, path, target, world):
        assert f"built {N}" in done.stdout
    assert left(target) == ["made.h5"]
    assert read_with_h5py(target).same_as(undisturbed)


def test_what_fails_on_one_rank_fails_on_all(
    scripts: ScriptServer, path: Path, target: Path, undisturbed: Contents
) -> None:
    """And soon: nobody waits for who is gone. What the others made is used the next time."""
    began = time.monotonic()
    good, bad, other = run_ranks(scripts, path, target, 3, bad=1)
    assert time.monotonic() - began < 180, "that long before the time limit of the group"
    assert "FieldError" in bad.stdout
    for done in (good, other):
        assert "AtompackError: build_cache: rank 1 failed: FieldError" in done.stdout
    assert not target.exists()
    first, *_ = run_ranks(scripts, path, target, 3)
    assert int(first.stdout.split("\n")[0]) == N // 3  # all of its part was there
    assert left(target) == ["made.h5"]
    assert read_with_h5py(target).same_as(undisturbed)


def test_ranks_that_do_not_see_the_same_folder(
    scripts: ScriptServer, path: Path, target: Path
) -> None:
    apart = target.parent.parent / "elsewhere" / "made.h5"
    apart.parent.mkdir()
    meeting = target.parent.parent / "meeting"
    running = [
        scripts.start(RANK, path, folder, meeting, str(rank), "2", "-1")
        for rank, folder in enumerate((target, apart))
    ]
    first, second = [script.wait() for script in running]
    for done in (first, second):
        assert "FileNotFoundError" in done.stdout
        assert "all ranks must see the same folder" in done.stdout
    assert not target.exists()


MEMORY = (
    SETTINGS
    + """
module._CHECKPOINT_BYTES = 1 << 20
last = int(sys.argv[3])
apt.build_cache(
    dataset.subset(range(last)), descriptor, target, force_derivatives=True, progress=False,
    num_threads=2,
)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([peak, os.path.getsize(target)]))
"""
)


def test_memory_does_not_grow(scripts: ScriptServer, tmp_path: Path) -> None:
    """A file that is larger by tens of megabytes takes a few more at most."""
    path = cache_molecules.write(tmp_path / "m.atp", 9000)
    found: list[tuple[int, int]] = []
    for n in (1500, 9000):
        done = scripts.run(MEMORY, path, tmp_path / f"{n}.h5", str(n))
        assert done.returncode == 0, done
        found.append(tuple(json.loads(done.stdout)))
    (small, short), (large, long) = found
    assert long - short > 25 << 20, found
    assert large - small < (long - short) // 4, found


ALTERNATELY = """
import {0}
import {1}
import {2}
import sys
import time
import h5py, numpy, tables
import atompack_torch as apt

path, folder, broken = sys.argv[1:]
dataset = apt.AtpDataset(path).subset(range(5))
descriptor = apt.ChebyshevDescriptor(["O", "H", "Si"], 3, 3.4, 2, 2.7)
for k in range(3):
    with h5py.File(f"{{folder}}/theirs{{k}}.h5", "w") as theirs:
        apt.build_cache(dataset, descriptor, f"{{folder}}/{{k}}.h5", progress=False)
        with h5py.File(f"{{folder}}/{{k}}.h5") as file:
            found = file["torch_cache/features/values"][0]
            theirs["features"] = found
    with tables.open_file(f"{{folder}}/tables{{k}}.h5", "w") as other:
        other.create_array("/", "features", found)
        with tables.open_file(f"{{folder}}/{{k}}.h5") as file:
            numpy.testing.assert_array_equal(file.root.torch_cache.features.values[0], found)
        ours = apt.TorchCache(f"{{folder}}/{{k}}.h5").load_features(0)
        numpy.testing.assert_array_equal(ours.ravel(), found)
    for fail in (apt.TorchCache, h5py.File):
        try:
            fail(broken)
        except (OSError, ValueError):
            continue
        raise AssertionError
print("same")
"""


@pytest.mark.parametrize(
    "order", [("h5py", "tables", "atompack_torch"), ("tables", "atompack_torch", "h5py")]
)
def test_beside_other_copies_of_libhdf5(
    path: Path, fixtures: Path, tmp_path: Path, order: tuple[str, ...]
) -> None:
    """In an interpreter of its own, which has imported nothing before."""
    broken = fixtures.parent / "torch_cache" / "damaged" / "truncated.h5"
    script = ALTERNATELY.format(*order)
    command = [sys.executable, "-c", script, str(path), str(tmp_path), str(broken)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (0, "same\n"), done.stderr
    assert "HDF5-DIAG" not in done.stderr
