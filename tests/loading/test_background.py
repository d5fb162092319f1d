"""Batches that a thread moves ahead, as for CUDA devices: in order, errors in place, thread ended.

Streams and events are those of ``fake_cuda``; everything else is what runs on a device.
"""

from __future__ import annotations

import gc
import itertools
import os
import pickle
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fake_cuda
import numpy as np
import pytest
import torch
from processes.programs import run
from reference.compare import assert_same_batch

import atompack_torch as apt
from atompack_torch.loading import transfer
from atompack_torch.loading.batch_iterator import BackgroundPrefetcher

N = 83
NEIGHBORS = apt.NeighborList(2.0, vectors=True)


@pytest.fixture(autouse=True)
def _fake_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_cuda, "DEFAULT", fake_cuda.Stream())
    fake_cuda.install(monkeypatch.setattr)


@pytest.fixture(scope="module")
def path(new_path: Callable[[], Path]) -> Path:
    """Structures of 1 to 6 atoms, every fourth without an energy."""
    made, rng = new_path(), np.random.default_rng(0)
    with apt.AtpWriter(made) as writer:
        for k in range(N):
            labels: dict[str, Any] = {"energy": float(k)} if k % 4 else {}
            if k % 3:
                labels |= {"cell": np.eye(3) * 3, "pbc": [True, True, False]}
            n = int(rng.integers(1, 7))
            writer.write(apt.Molecule(3 * rng.random((n, 3)), np.full(n, 6), name=f"{k}", **labels))
    return made


@pytest.fixture
def dataset(path: Path) -> apt.AtpDataset:
    return apt.AtpDataset(path)


def loader_of(dataset: Any, size: int = 5, **options: Any) -> apt.Loader:
    return apt.Loader(dataset, size, device="cuda", **options)


def names(batches: Any) -> list[list[str]]:
    return [batch.name for batch in batches]


def n_threads() -> int:
    return len([t for t in threading.enumerate() if t.name.startswith("atompack_torch")])


def becomes(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


@pytest.mark.parametrize("neighbors", [None, NEIGHBORS], ids=["plain", "edges"])
@pytest.mark.parametrize("size", [1, 7, 200])
def test_many_passes_in_order(dataset: apt.AtpDataset, size: int, neighbors: Any) -> None:
    own = apt.AtpDataset(dataset.path, neighbors=neighbors)
    loader = loader_of(dataset, size, shuffle=True, num_threads=3, neighbors=neighbors)
    plain = apt.Loader(own, size, shuffle=True)
    for _ in range(10):
        for batch, expected in zip(loader, plain, strict=True):
            assert_same_batch(batch, expected)
        assert n_threads() == 0
    assert loader.state_dict() == plain.state_dict()


def test_other_kinds_of_batches(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "s", 10, 2) as writer:
        for k in range(20):
            writer.write({"a": np.full(3, k), "b": f"{k}"})
    batches = list(loader_of(apt.ShardDataset(tmp_path / "s"), 4))
    assert torch.equal(torch.cat([batch["a"] for batch in batches])[:, 0], torch.arange(20))
    assert len(fake_cuda.DEFAULT.kept) == len(batches)


def test_the_current_stream_waits_and_keeps_the_memory(dataset: apt.AtpDataset) -> None:
    batches = iter(loader_of(dataset))
    mine = fake_cuda.Stream()
    for _ in range(3):
        with fake_cuda.stream(mine):
            batch = next(batches)
        event = mine.waited_for[-1]
        assert isinstance(event, fake_cuda.Event)
        assert event.thread != threading.get_ident()
        assert event.stream.waited_for == [fake_cuda.DEFAULT]  # for what existed before
        assert mine.kept[-1] == batch.positions.untyped_storage().data_ptr()
    assert len(mine.waited_for) == 3
    assert fake_cuda.DEFAULT.waited_for == []


def test_the_search_is_left_to_the_thread(
    dataset: apt.AtpDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[int, bool]] = set()
    search = transfer.neighbor_list

    def recorded(*args: Any, **options: Any) -> Any:
        on_side = fake_cuda.current_stream() is not fake_cuda.DEFAULT
        seen.add((threading.get_ident(), on_side))
        return search(*args, **options)

    monkeypatch.setattr(transfer, "neighbor_list", recorded)
    assert len(list(loader_of(dataset, neighbors=NEIGHBORS))) == 17
    ((thread, on_side),) = seen
    assert thread != threading.get_ident()
    assert on_side


def test_a_transform_is_left_to_the_caller(path: Path) -> None:
    seen = set()

    def transform(batch: apt.MoleculeBatch) -> Any:
        seen.add((threading.get_ident(), fake_cuda.current_stream()))
        return batch.edge_index.shape[1]

    dataset = apt.AtpDataset(path, transform=transform)
    expected = apt.AtpDataset(path, neighbors=NEIGHBORS)[:].edge_index.shape[1]
    assert sum(loader_of(dataset, neighbors=NEIGHBORS)) == expected
    assert seen == {(threading.get_ident(), fake_cuda.DEFAULT)}


def test_errors_of_reading_and_of_the_search_take_the_place_of_their_batch(
    new_path: Callable[[], Path],
) -> None:
    path = new_path()
    with apt.AtpWriter(path) as writer:
        for k in range(40):
            positions = np.zeros((1, 3))
            positions[0, 0] = np.nan if k == 8 else 0
            writer.write(apt.Molecule(positions, [1], energy=float(k)))
    raw = bytearray(path.read_bytes())
    raw[8192 + 22 * (4 + 24 + 1 + 2 + 2 + 6 + 1 + 4 + 8)] = 9  # the number of atoms
    path.write_bytes(raw)
    loader = loader_of(apt.AtpDataset(path), neighbors=NEIGHBORS, num_threads=2)
    batches, found = iter(loader), []
    for _ in range(8):
        try:
            found.append(next(batches).energy[0].item())
        except apt.CorruptFileError as error:
            found.append(f"{error}")
        except apt.FieldError as error:
            found.append(f"{error}")
    assert found[0] == 0
    assert "finite" in found[1]
    assert found[2:4] == [10, 15]
    assert "molecule 22" in found[4]
    assert found[5:] == [25, 30, 35]
    assert loader.epoch == 1
    assert next(batches, None) is None
    assert loader.state_dict()["batches"] == 0


def test_leaving_early_ends_the_thread(dataset: apt.AtpDataset) -> None:
    for k in range(200):
        for batch in loader_of(dataset, 1 + k % 4, num_threads=2):
            assert batch.name[0] == "0"
            break
    gc.collect()
    assert becomes(lambda: n_threads() == 0)
    batches = iter(loader_of(dataset))
    next(batches)
    batches.close()
    assert n_threads() == 0
    assert next(batches, None) is None


def test_the_state_counts_what_was_delivered(dataset: apt.AtpDataset) -> None:
    whole = names(loader_of(dataset, shuffle=True, seed=2))
    for stop in (0, 1, 6, len(whole)):
        first = loader_of(dataset, shuffle=True, seed=2)
        batches = iter(first)
        taken = names(itertools.islice(batches, stop))
        time.sleep(0.02)  # more are ahead now
        state = pickle.loads(pickle.dumps(first.state_dict()))
        assert state["batches"] == stop % len(whole)
        second = loader_of(dataset, shuffle=True, seed=2)
        second.load_state_dict(state)
        assert taken + (names(second) if state["epoch"] == 0 else []) == whole
        batches.close()


def test_states_of_samplers(dataset: apt.AtpDataset) -> None:
    def loader() -> apt.Loader:
        sampler = apt.AtomBudgetBatchSampler(dataset, 16, seed=1)
        return apt.Loader(dataset, batch_sampler=sampler, device="cuda")

    whole, first = names(loader()), loader()
    taken = names(itertools.islice(first, 4))
    second = loader()
    second.load_state_dict(first.state_dict())
    assert taken + names(second) == whole


def test_molecules_left_out_are_counted(path: Path) -> None:
    dataset = apt.AtpDataset(path, fields=["energy"], missing="drop")
    with pytest.warns(UserWarning, match="dropped 21 molecules"):
        batches = list(loader_of(dataset, num_threads=1))
    assert sum(map(len, batches)) == N - 21


def test_two_consumers(dataset: apt.AtpDataset) -> None:
    expected = [names(apt.Loader(dataset, 3, shuffle=True, seed=seed)) for seed in range(3)]
    found: dict[int, list[list[str]]] = {}

    def consume(seed: int) -> None:
        found[seed] = names(loader_of(dataset, 3, shuffle=True, seed=seed))

    consumers = [threading.Thread(target=consume, args=(seed,)) for seed in range(3)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert [found[seed] for seed in range(3)] == expected


def test_a_fork_does_not_wait_for_the_thread_of_its_parent(dataset: apt.AtpDataset) -> None:
    batches = iter(loader_of(dataset, 60))  # both are with the thread immediately
    next(batches)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fresh = names(loader_of(dataset, 60))
            try:
                next(batches)
            except RuntimeError as error:
                status = 0 if "start a new pass" in str(error) and len(fresh) == 2 else 2
            del batches
        finally:
            os._exit(status)
    deadline = time.monotonic() + 200
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.005)
    assert os.waitstatus_to_exitcode(found[1]) == 0
    assert len(list(batches)) == 1


HERE = Path(__file__).parent
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
import fake_cuda
fake_cuda.install()
import atompack_torch as apt
dataset = apt.AtpDataset(sys.argv[1])
"""


def test_the_interpreter_ends_in_the_middle_of_a_pass(path: Path) -> None:
    code = "kept = iter(apt.Loader(dataset, 1, device='cuda'))\nnext(kept)\nprint('last')"
    assert run(PROGRAM + code, path, HERE) == (0, "last\n", "")


def test_ctrl_c_leaves_the_batch_in_its_place(path: Path) -> None:
    """Interrupted while the thread waits for a batch; the next one is the one that was awaited."""
    code = """
import time
from atompack_torch.datasets.batches import NativePrefetcher
take, slow = NativePrefetcher.take, True

def slow_take(self):
    if slow:
        time.sleep(0.5)  # until the loop waits, on a busy machine too
        print("ready", flush=True)
        time.sleep(2)
    return take(self)

NativePrefetcher.take = slow_take
loader = apt.Loader(dataset, 10, device="cuda")
batches = iter(loader)
try:
    next(batches)
except KeyboardInterrupt:
    slow = False
    print(loader.state_dict()["batches"], [batch.name[0] for batch in batches])
"""
    firsts = [f"{k}" for k in range(0, N, 10)]
    assert run(PROGRAM + code, path, HERE, interrupt=True) == (0, f"0 {firsts}\n", "")


class Numbers:
    """A ``BatchPrefetcher`` of the requests themselves; negative ones are errors."""

    def __init__(self, has_room: bool = False) -> None:
        self.asked: deque[int] = deque()
        self.has_room, self.n_taken = has_room, 0

    def submit(self, indices: Any) -> bool:
        if indices is None:
            raise IndexError("out of range")
        self.asked.append(indices)
        return self.has_room and len(self.asked) < 8

    def take(self) -> int:
        self.n_taken += 1
        if (number := self.asked.popleft()) < 0:
            raise ValueError(number)
        return number

    def __len__(self) -> int:
        return len(self.asked)


@pytest.fixture
def ahead() -> Iterator[tuple[Numbers, BackgroundPrefetcher]]:
    source = Numbers()
    made = BackgroundPrefetcher(source, Numbers.take, lambda number: 10 * number, 2)
    yield source, made
    made.close()


def test_two_batches_are_prepared_beside_the_one_in_use(
    ahead: tuple[Numbers, BackgroundPrefetcher],
) -> None:
    source, batches = ahead
    room = [batches.submit(k) for k in range(6)]
    assert room == [True, True, False, False, False, False]
    for k in range(3):
        assert batches.take() == 10 * k
        assert becomes(lambda k=k: source.n_taken == k + 3)
        time.sleep(0.01)
        assert source.n_taken == k + 3
        assert len(batches) == 5 - k


def test_room_is_that_of_the_source_too() -> None:
    batches = BackgroundPrefetcher(Numbers(has_room=True), Numbers.take, int, 2)
    assert [batches.submit(k) for k in range(9)] == [True] * 7 + [False] * 2


def test_garbage_ends_the_thread_without_what_was_not_begun() -> None:
    source, go = Numbers(), threading.Semaphore(1)

    def wait(numbers: Numbers) -> int:
        assert go.acquire(timeout=60)
        return numbers.take()

    batches = BackgroundPrefetcher(source, wait, int, 2)
    for k in range(5):
        batches.submit(k)
    assert batches.take() == 0
    gone = weakref.ref(batches)
    del batches
    assert gone() is None
    go.release(5)
    assert becomes(lambda: n_threads() == 0)
    assert source.n_taken <= 2
