"""Handles: pickles, forks, threads, descriptors, newer generations, files that change."""

from __future__ import annotations

import gc
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from oracle.client import AtompackProcess
from processes.client import ScriptServer
from reference import strategies
from reference.atp_file import AtpFile
from reference.collate import ReferenceDataset
from reference.compare import assert_batch, same_bits
from reference.names import reserved_names

import atompack_torch as apt

NewPath = Callable[[], Path]
RECIPE = strategies.Recipe("f4", {"energy": "f8", "forces": "f4", "cell": "f8"})


def molecules(n: int, seed: int, n_atoms: int = 20) -> list[dict[str, object]]:
    """Some molecules with all labels."""
    rng = np.random.default_rng(seed)
    return [strategies.molecule(rng, RECIPE, n_atoms) for _ in range(n)]


@pytest.fixture
def path(atompack: AtompackProcess, new_path: NewPath) -> Path:
    """Two hundred molecules, enough for a batch on several threads."""
    return atompack.write(new_path(), molecules(200, 1), "lz4")


def reference_of(path: Path) -> ReferenceDataset:
    """The reference's reading of the newest generation."""
    return ReferenceDataset([AtpFile.open(path)], reserved_names())


def test_pickle_is_small_and_reads_the_same(path: Path) -> None:
    dataset = apt.AtpDataset(path, fields=["energy", "forces"], exclude=["cell"])
    want = reference_of(path).batch([3, 1], fields=["energy", "forces"])
    for _ in range(2):  # before and after the first read
        pickled = pickle.dumps(dataset)
        assert len(pickled) < 1000
        assert_batch(pickle.loads(pickled).batch([3, 1]), want)
        assert_batch(dataset.batch([3, 1]), want)


FORK = """
import os, signal, sys, torch
import atompack_torch as apt

dataset = apt.AtpDataset(sys.argv[1], num_threads=2)
want = dataset.batch(range(200))       # wakes the thread pool of the parent
torch.ones(1 << 20).sum()              # and that of torch's own operators
bits = want.positions.numpy().tobytes()
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(20)               # a hang ends here and not in a stray process
        # Compared by NumPy: torch's own parallel operators hang here.
        got = dataset.batch(range(200))
        fresh = apt.AtpDataset(sys.argv[1]).batch(range(200))
        alone = dataset[7].forces.numpy().tobytes() == want[7].forces.numpy().tobytes()
        same = [b.positions.numpy().tobytes() == bits for b in (got, fresh)]
        os._exit(0 if alone and all(same) else 3)
    status = os.waitpid(child, 0)[1]
    if status:
        sys.exit(f"child ended with {status}")
dataset.batch(range(200))              # and the parent reads on
print("done")
"""


@pytest.mark.parametrize("codec", strategies.CODECS)
def test_parent_reads_forks_child_reads(
    atompack: AtompackProcess, new_path: NewPath, scripts: ScriptServer, codec: str
) -> None:
    path = atompack.write(new_path(), molecules(200, 2, n_atoms=100), codec)
    done = scripts.run(FORK, path)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_kib() -> int:
    """Resident memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS in /proc/self/status")


@pytest.mark.parametrize("close", [True, False])
def test_opening_and_closing_leaks_nothing(path: Path, close: bool) -> None:
    def cycle() -> None:
        dataset = apt.AtpDataset(path)
        assert len(dataset.batch(range(200))) == 200
        if close:
            dataset.close()

    for _ in range(20):
        cycle()
    gc.collect()
    open_files, memory = descriptors(), resident_kib()
    for _ in range(200):
        cycle()
    gc.collect()
    assert descriptors() <= open_files
    assert str(path) not in Path("/proc/self/maps").read_text()
    # 200 leaked batches or mappings of this file would be some 40 MiB.
    assert resident_kib() - memory < 8 * 1024


def test_open_files_while_reading(path: Path) -> None:
    """One dataset holds at most one descriptor a file."""
    before = descriptors()
    datasets = [apt.AtpDataset(path) for _ in range(20)]
    for dataset in datasets:
        dataset.batch([0])
    assert descriptors() - before <= 20


def test_eight_threads_on_one_dataset(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    reference = reference_of(path)
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(20):
                indices = rng.integers(0, 200, 30).tolist()
                batch = dataset.batch(indices)
                single = dataset[indices[0]]
                assert batch.index.tolist() == indices
                assert same_bits(single.positions, batch[0].positions)
            assert_batch(batch, reference.batch(indices))
        except BaseException as error:  # handed to the main thread below
            failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_refresh_takes_up_a_newer_generation(atompack: AtompackProcess, path: Path) -> None:
    dataset, unread = apt.AtpDataset(path), apt.AtpDataset(path)
    dataset.batch([0])
    old = reference_of(path)
    pickled = pickle.dumps(dataset)
    for seed in (2, 3):  # two commits overwrite both header slots
        atompack.append(path, molecules(3, seed, n_atoms=4))
    new = reference_of(path)
    for snapshot in (dataset, unread, pickle.loads(pickled)):
        assert len(snapshot) == 200
        assert_batch(snapshot.batch([0, -1]), old.batch([0, -1]))
        with pytest.raises(IndexError):
            snapshot.batch([200])
        snapshot.refresh()
        assert len(snapshot) == len(new) == 206
        assert_batch(snapshot.batch([0, -1, 200]), new.batch([0, -1, 200]))
        assert snapshot.n_atoms.tolist()[-6:] == [4] * 6


SHRINK = """
import os, sys
import atompack_torch as apt

dataset = apt.AtpDataset(sys.argv[1])
dataset.batch(range(100))
os.truncate(sys.argv[1], int(sys.argv[2]))
for read in (lambda: dataset.batch(range(200)), lambda: dataset[199], lambda: dataset.n_atoms):
    try:
        read()
    except (apt.AtompackError, OSError) as error:
        print(type(error).__name__)
    else:
        print("no error")
"""


@pytest.mark.parametrize("size", [0, 5000, 8192, 20000])
def test_a_file_that_shrinks_is_an_error(
    path: Path, new_path: NewPath, scripts: ScriptServer, size: int
) -> None:
    copy = new_path()
    shutil.copy(path, copy)
    assert size < copy.stat().st_size
    done = scripts.run(SHRINK, copy, str(size))
    assert done.returncode != -signal.SIGBUS, "SIGBUS"
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["CorruptFileError"] * 2, done.stdout


def test_a_file_that_is_deleted_stays_readable_once_open(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    want = reference_of(path).batch([0, 7])
    assert_batch(dataset.batch([0, 7]), want)
    path.unlink()
    assert_batch(dataset.batch([0, 7]), want)
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickle.dumps(dataset)).batch([0])


FRESH_INTEGERS = """
import sys
import numpy as np
import atompack_torch as apt
path, n = sys.argv[1], 1000
with apt.AtpWriter(path) as writer:
    writer.write_arrays(positions=np.zeros((n, 1, 3)), atomic_numbers=np.ones((n, 1), int))
dataset = apt.AtpDataset(path)
for indices in (range(n), range(n - 1, -1, -2)):
    assert dataset.batch(indices).index.tolist() == list(indices)
assert dataset[300:].index.tolist() == list(range(300, n))
print("done")
"""


def test_integers_that_only_the_batch_holds(tmp_path: Path) -> None:
    """The items of a range are made on demand; freed memory is marked, so that using it shows."""
    command = [sys.executable, "-c", FRESH_INTEGERS, str(tmp_path / "x.atp")]
    environment = os.environ | {"PYTHONMALLOC": "debug"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-500:]
