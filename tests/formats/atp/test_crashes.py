"""A disk that is full: commits are whole or not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from processes.client import ScriptServer

import atompack_torch as apt

NewPath = Callable[[], Path]

FULL = """
import errno, os, resource, sys
import numpy as np
from soak.numbered import molecules as run
import atompack_torch as apt

path, codec, n_limits = sys.argv[1], sys.argv[2], int(sys.argv[3])
wide = np.random.default_rng(1).normal(size=(2000, 400))   # nothing to compress in it

def run_of(first, last):
    made = run(first, last)
    made["atom_properties"]["q"] = wide[: len(made["positions"])] + first
    return made

def limit(n_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))

def refused(use):
    try:
        use()
    except OSError as error:
        assert error.errno == errno.EFBIG and error.filename == path, error
        return True
    return False

def check(n_molecules):
    dataset = apt.AtpDataset(path)
    assert len(dataset) == n_molecules, (len(dataset), n_molecules)
    batch, want = dataset.batch(range(n_molecules)), run(0, n_molecules)
    assert np.array_equal(batch.energy.numpy(), want["energy"])
    assert np.array_equal(batch.positions.numpy(), want["positions"])
    assert batch.name == want["name"]
    firsts = np.arange(0, n_molecules, 40)
    for first, last in zip(firsts, [*firsts[1:], n_molecules]):
        rows = slice(*batch.ptr.numpy()[[first, last]])
        assert np.array_equal(batch.q.numpy()[rows], run_of(first, last)["atom_properties"]["q"])

def begin():
    writer = apt.AtpWriter(path, mode="w", codec=codec)
    writer.write_arrays(**run_of(0, 40))
    writer.flush()
    return writer

calls = [(first, first + 40) for first in range(40, 640, 40)]
with begin() as writer:
    start = os.stat(path).st_size
    for call in calls:
        writer.write_arrays(**run_of(*call))
end = os.stat(path).st_size
check(640)
places = {*np.linspace(start, end - 1, n_limits).astype(int).tolist()}
header = apt.AtpDataset(path)._snapshots[0].__getstate__()
index_at, schema_at = header[5], header[11]
places |= {schema_at - 1, schema_at, schema_at + 1, index_at, index_at + 1, end - 1}

in_write = in_flush = 0
for place in sorted(places):
    limit(resource.RLIM_INFINITY)
    writer = begin()
    n_committed, waiting = 40, list(calls)
    limit(place)
    while waiting:
        if refused(lambda: writer.write_arrays(**run_of(*waiting[0]))):
            in_write += 1
            assert refused(writer.flush)               # still full
            break
        assert len(writer) == waiting.pop(0)[1]        # accepted
    else:
        assert refused(writer.flush)
        in_flush += 1
    check(n_committed)                                 # for everybody else nothing happened
    assert len(writer) == (waiting[0][0] if waiting else 640)
    if place % 2:
        assert refused(writer.close)
    if place % 5 == 0:
        writer.discard()                               # gives up: stays at the last commit
        check(n_committed)
        limit(resource.RLIM_INFINITY)
        with apt.AtpWriter(path, mode="a") as writer:
            for call in calls:
                writer.write_arrays(**run_of(*call))
    else:
        limit(resource.RLIM_INFINITY)                  # there is room again
        for call in waiting:
            writer.write_arrays(**run_of(*call))
        writer.close()
    check(640)
print("in write", in_write, "in flush", in_flush)
assert in_write > 0 and in_flush > 0
"""


@pytest.mark.parametrize(
    "codec",
    ["zstd", *(pytest.param(codec, marks=pytest.mark.exhaustive) for codec in ("none", "lz4"))],
)
def test_full_disk(scripts: ScriptServer, new_path: NewPath, codec: str) -> None:
    """An OSError; the file stays at its last commit; with room again, nothing is lost or twice."""
    done = scripts.run(FULL, new_path(), codec, "30")
    assert done.returncode == 0, done.stderr + done.stdout


FULL_AT_FIRST = """
import os, resource, sys
import numpy as np
import atompack_torch as apt

path, mode = sys.argv[1:]
there = os.path.exists(path)
before = there and open(path, "rb").read()
for n_bytes in (0, 1, 4096, 8191):
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
    try:
        apt.AtpWriter(path, mode=mode)
    except OSError as error:
        assert error.filename == path, error
    else:
        raise AssertionError("opened")
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
writer = apt.AtpWriter(path, mode=mode)
writer.write(apt.Molecule(np.zeros((2, 3)), [1, 1]))
try:
    writer.flush()
except OSError as error:
    writer.discard()
assert (open(path, "rb").read() if there else None) == (before if there else None) or mode == "x"
print(sorted(os.listdir(os.path.dirname(path))))
"""


@pytest.mark.parametrize(
    ("mode", "there", "left"),
    [("x", False, []), ("w", False, []), ("w", True, ["a.atp"])],
)
def test_no_room_for_the_header(
    scripts: ScriptServer, tmp_path: Path, mode: str, there: bool, left: list[str]
) -> None:
    path = tmp_path / "a.atp"
    if there:
        apt.AtpWriter(path).close()
    done = scripts.run(FULL_AT_FIRST, path, mode)
    assert (done.returncode, done.stdout.strip()) == (0, str(left)), done.stderr
    assert not left or len(apt.AtpDataset(path)) == 0
