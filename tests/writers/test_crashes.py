"""A writer that is killed, and a disk that is full: commits are whole or not there."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.client import AtompackProcess
from processes.client import ScriptServer
from reference.atp_file import AtpFile

import atompack_torch as apt

NewPath = Callable[[], Path]

# What both sides know: molecule k, from its number alone. The writers write runs of them.
NUMBERED = """
import numpy as np

def counts(first, last):
    return np.arange(first, last) % 7

def run(first, last, wide=1):
    '''Molecules first..last as arguments of write_arrays; ``wide``: values of each atom's q.'''
    n_atoms = counts(first, last)
    numbers = np.repeat(np.arange(first, last), n_atoms)
    positions = np.stack([numbers, numbers + 0.25, -numbers], 1).astype("f4")
    return dict(
        positions=positions, atomic_numbers=numbers % 100, n_atoms=n_atoms,
        energy=np.arange(first, last) / 3, name=[str(k) for k in range(first, last)],
        atom_properties={"q": np.repeat(numbers[:, None] * 0.5, wide, 1)},
    )
"""
numbered: dict[str, Callable[..., dict[str, np.ndarray]]] = {}
exec(NUMBERED, numbered)

KILLED = (
    NUMBERED
    + """
import os, sys
import atompack_torch as apt

path, codec, seed, first = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = np.random.default_rng(seed)
writer = apt.AtpWriter(path, mode="a", codec=codec)
assert len(writer) == first
n, wide = first, (1, 30, 400)[seed % 3]
os.write(1, b"open\\n")
while True:
    for _ in range(rng.integers(1, 4)):
        last = n + int(rng.choice([1, 7, 60]))
        os.write(1, b"sent %d\\n" % last)     # before: some of it may be there after a kill
        writer.write_arrays(**run(n, last, wide))
        n = last
    writer.flush()
    os.write(1, b"done %d\\n" % n)
"""
)


def told(output: str, word: str, at_first: int) -> int:
    """The last number that a killed script told; a line may be cut."""
    lines = [line.split() for line in output.split("\n")[:-1]]
    return max([at_first, *(int(line[1]) for line in lines if line[0] == word)])


def assert_holds_run(batch: apt.MoleculeBatch, last: int) -> None:
    """Molecules 0 to ``last``, each with all that belongs to it."""
    want = numbered["run"](0, last)
    assert np.array_equal(batch.n_atoms.numpy(), want["n_atoms"])
    assert np.array_equal(batch.positions.numpy(), want["positions"])
    assert np.array_equal(batch.atomic_numbers.numpy(), want["atomic_numbers"])
    assert np.array_equal(batch.energy.numpy(), want["energy"])
    assert batch.name == want["name"]


def assert_holds_widths(batch: apt.MoleculeBatch) -> None:
    """The long property repeats one number in each row."""
    number = batch.positions[:, 0].double() * 0.5
    columns = batch.q if isinstance(batch.q, list) else [batch.q]
    rows = 0
    for values in columns:
        if values is not None and len(values):
            assert (values == number[rows : rows + len(values), None]).all()
            rows += len(values)
    assert rows == len(number)


def survived(path: Path, first: int, sent: int, done: int) -> int:
    """Checks what a killed writer left; returns how many molecules there are."""
    dataset = apt.AtpDataset(path)
    n = len(dataset)
    assert done <= n <= sent, "lost, or never sent"
    if n > 0:
        batch = dataset.batch(range(n))
        assert_holds_run(batch, n)
        assert_holds_widths(batch)
    return n


def test_killed_at_any_moment(
    scripts: ScriptServer, atompack: AtompackProcess, new_path: NewPath
) -> None:
    """200 kills; after each the file opens, with all that was acknowledged, and is gone on with."""
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    codecs = ("none", "lz4", "zstd")
    paths: dict[str, Path] = {}
    held = dict.fromkeys(codecs, 0)
    longer = 0  # kills that fell between a commit and its acknowledgement, or left a tail
    for kill in range(200):
        codec = codecs[kill % 3]
        if held[codec] == 0 or held[codec] > 3000:
            paths[codec], held[codec] = new_path(), 0
        path, first = paths[codec], held[codec]
        script = scripts.start(KILLED, path, codec, str(kill), str(first))
        if rng.random() < 0.9:
            script.wait_for("open\n")
        time.sleep(rng.choice([0.001, 0.004, 0.015]) * rng.random())
        ended = script.kill()
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        if not path.exists():  # before it was made
            assert "open" not in ended.stdout
            continue
        done = told(ended.stdout, "done", first)
        held[codec] = survived(path, first, told(ended.stdout, "sent", first), done)
        slot = AtpFile.open(path).slot
        longer += path.stat().st_size > slot.index_offset + slot.index_length
        if kill % 10 == 0 and held[codec]:
            theirs = atompack.flat(path, range(held[codec]))
            assert np.array_equal(theirs["energy"], numbered["run"](0, held[codec])["energy"])
    assert longer > 0, "no kill fell into a write: they come too early or too late"
    for codec, path in paths.items():
        if not held[codec]:
            continue
        with apt.AtpWriter(path, mode="a") as writer:
            writer.write(apt.AtpDataset(path)[0])
        assert len(apt.AtpDataset(path)) == held[codec] + 1


FULL = (
    NUMBERED
    + """
import errno, os, resource, sys
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
    writer = apt.AtpWriter(path, mode="w", codec=codec, level=1)
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
)


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
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
