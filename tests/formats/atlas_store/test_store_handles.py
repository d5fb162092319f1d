"""Handles of stores: pickles, forks, threads, descriptors, and writers next to them."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.atlas_client import AtlasProcess
from processes.client import ScriptServer

import atompack_torch as apt

N_DATASETS, N_VALUES = 40, 500


def session(number: float) -> list[Any]:
    """Overwrites both arrays of all datasets with this number."""
    values = np.full(N_VALUES, number, "f4")
    return [("write", f"d{i}", array, values, [0]) for i in range(N_DATASETS) for array in "ab"]


@pytest.fixture
def path(atlas_python: AtlasProcess, tmp_path: Path) -> Path:
    """Arrays a and b of forty datasets, all values 0."""
    operations: list[Any] = []
    for i in range(N_DATASETS):
        operations.append(("create_dataset", f"d{i}"))
        operations += [
            ("define_array", f"d{i}", array, "float32", [N_VALUES], ["x"], [100], None)
            for array in "ab"
        ]
    return atlas_python.create(tmp_path / "store", operations + session(0))


def values_of(store: apt.AtlasStore, array: str = "a") -> set[float]:
    values = store.scan(array).values
    assert isinstance(values, torch.Tensor)
    return set(values.flatten().tolist())


def test_a_handle_shows_old_values_or_says_so(atlas_python: AtlasProcess, path: Path) -> None:
    """Never a mix: variables opened before a flush stay as they were, others are refused."""
    store, unread = apt.AtlasStore(path), apt.AtlasStore(path)
    assert values_of(store) == {0}
    atlas_python.apply(path, session(1))
    for _ in range(2):
        assert values_of(store) == {0}
        for handle, array in ((store, "b"), (unread, "a")):
            with pytest.raises(apt.FieldError, match="written to since it was opened"):
                handle.scan(array)
    for handle in (store, unread):
        assert handle.refresh()
        assert not handle.refresh()
        assert values_of(handle) == values_of(handle, "b") == {1}
    atlas_python.apply(path, [("compact",)])
    assert values_of(store) == values_of(unread, "b") == {1}  # from the files that are gone
    store.refresh()
    assert values_of(store) == values_of(apt.AtlasStore(path), "b") == {1}


def test_datasets_of_later_flushes(atlas_python: AtlasProcess, path: Path) -> None:
    store = apt.AtlasStore(path)
    assert len(store) == N_DATASETS
    atlas_python.apply(path, [("create_dataset", "late"), ("delete_dataset", "d0")])
    assert len(store.datasets) == N_DATASETS
    assert "late" not in store.datasets
    assert store.refresh()
    assert store.datasets == [*(f"d{i}" for i in range(1, N_DATASETS)), "late"]
    with pytest.raises(apt.FieldError, match="no dataset 'd0'"):
        store.read("d0", "a")


READ_ON = """
import sys
import atompack_torch as apt
n_good = n_refused = 0
while n_good + n_refused < 400:
    try:
        scans = apt.AtlasStore(sys.argv[1]).scan_many(["a", "b"])
        for scan in scans.values():
            assert len(scan.values.unique()) == 1, scan
        n_good += 1
    except apt.FieldError as error:
        assert "written to since" in str(error), error
        n_refused += 1
print(n_good, n_refused)
"""


def test_reading_while_the_original_writes(
    atlas_python: AtlasProcess, path: Path, scripts: ScriptServer
) -> None:
    """A column is of one flush, or refused; its flush is several files, so two columns may differ.

    Its metadata come last, and nothing tells which layers belong to them.
    """
    reading = scripts.start(READ_ON, path)
    for number in range(1, 9):
        atlas_python.apply(path, session(number))
    done = reading.wait()
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 0


def test_pickles_are_small(path: Path) -> None:
    store = apt.AtlasStore(path)
    for _ in range(2):  # before and after the first read
        pickled = pickle.dumps(store)
        assert len(pickled) < 1000 + len(str(path))
        assert values_of(pickle.loads(pickled)) == {0}
        values_of(store)


def test_a_pickle_of_an_older_store(atlas_python: AtlasProcess, path: Path) -> None:
    pickled = pickle.dumps(apt.AtlasStore(path))
    atlas_python.apply(path, session(1))
    with pytest.raises(apt.FieldError, match="written to since"):
        pickle.loads(pickled).scan("a")
    store = pickle.loads(pickled)
    store.refresh()
    assert values_of(store) == {1}


def n_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_descriptors_are_given_back(path: Path) -> None:
    values_of(apt.AtlasStore(path))
    before = n_descriptors()
    for _ in range(20):
        values_of(apt.AtlasStore(path))
    assert n_descriptors() <= before
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_eight_threads_on_one_store(path: Path) -> None:
    store = apt.AtlasStore(path)
    failures: list[BaseException] = []

    def read(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            for _ in range(20):
                names = [f"d{i}" for i in rng.integers(0, N_DATASETS, 10)]
                scans = store.scan_many(["a", "b"], names, [int(rng.integers(N_VALUES))])
                assert all(bool((s.values == 0).all()) for s in scans.values())
        except BaseException as error:  # handed to the main thread below
            failures.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


FORK = """
import os, signal, sys, threading, torch
import atompack_torch as apt

path, busy = sys.argv[1], sys.argv[2] == "busy"
store = apt.AtlasStore(path)
want = store.scan("a", num_threads=2).values.numpy().tobytes()
torch.ones(1 << 20).sum()              # wakes the pool of torch's own operators
stop = threading.Event()

def scan_on():
    while not stop.is_set():
        store.scan_many(["a", "b"])

threads = [threading.Thread(target=scan_on) for _ in range(2 if busy else 0)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        signal.alarm(20)               # a hang ends here and not in a stray process
        same = [s.scan("a").values.numpy().tobytes() == want for s in (store, apt.AtlasStore(path))]
        os._exit(0 if all(same) and store.read("d3", "b").shape == (500,) else 3)
    status = os.waitpid(child, 0)[1]
    if status:
        stop.set()
        sys.exit(f"child ended with {status}")
stop.set()
for thread in threads:
    thread.join()
store.scan("a")                        # and the parent reads on
print("done")
"""


@pytest.mark.parametrize("how", ["idle", "busy"])
def test_forks_read(path: Path, scripts: ScriptServer, how: str) -> None:
    """After the parent has read, and while its other threads are scanning."""
    done = scripts.run(FORK, path, how)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


SHRINK = """
import os, sys
import atompack_torch as apt
store = apt.AtlasStore(sys.argv[1])
store.scan("a", ["d0"])
file = sys.argv[1] + "/a/data.1.af"
os.truncate(file, os.path.getsize(file) // 3)
for call in (lambda: store.scan("a"), lambda: store.read("d39", "a"),
             lambda: apt.AtlasStore(sys.argv[1]).scan("a")):
    try:
        call()
    except apt.CorruptFileError as error:
        assert "a/data.1.af" in str(error), error
    else:
        raise AssertionError("read a file that was cut")
print("refused")
"""


def test_a_file_that_was_cut_while_it_was_open(path: Path, scripts: ScriptServer) -> None:
    """A named error, in a separate process, which SIGBUS would end."""
    done = scripts.run(SHRINK, path)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr


def test_last_flush(tmp_path: Path) -> None:
    """A handle for reading that neither pending changes nor later flushes reach."""
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        store.create_dataset("a")
        store.flush()
        store.create_dataset("pending")
        view = store.last_flush()
        assert view.datasets == ["a"]
        assert store.datasets == ["a", "pending"]
        store.flush()
        assert view.datasets == ["a"]
        assert store.last_flush().datasets == ["a", "pending"]
        assert pickle.loads(pickle.dumps(view)).path == tmp_path / "s"
        with pytest.raises(ValueError, match='opened with mode "a" or "x", got "r"'):
            view.create_dataset("b")
    assert view.refresh()
    assert view.datasets == ["a", "pending"]


def test_names_follow_changes(tmp_path: Path) -> None:
    """They are looked up once, and again after every change, flush, refresh and close."""
    with apt.AtlasStore(tmp_path / "s", "x") as store:
        assert (store.datasets, store.arrays) == ([], [])
        store.create_dataset("a")
        store.define_array("a", "t", "float32", (2,))
        assert (store.datasets, store.arrays, store.arrays_of("a")) == (["a"], ["t"], ["t"])
        store.write("a", "t", np.ones(2, np.float32))
        store.flush()
        reader = apt.AtlasStore(tmp_path / "s")
        assert reader.arrays == ["t"]
        store.delete_array("a", "t")
        assert store.arrays == []
        with pytest.raises(apt.FieldError, match="no dataset has an array 't'"):
            store.schema("t")
        assert store.stats("t")["a"].row_count == 2  # of the last flush
    assert store.datasets == ["a"]
    assert reader.arrays == ["t"]
    assert reader.refresh()
    assert reader.arrays == []


def test_discard_forgets_pending_names(tmp_path: Path) -> None:
    apt.AtlasStore(tmp_path / "s", "x").close()
    store = apt.AtlasStore(tmp_path / "s", "a")
    store.create_dataset("pending")
    assert store.datasets == ["pending"]
    store.discard()
    assert store.datasets == []
