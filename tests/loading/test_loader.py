"""``Loader``: batches in order, made by threads; stopping, resuming, errors, forks."""

from __future__ import annotations

import itertools
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes.client import ScriptServer
from processes.programs import run
from reference.compare import assert_same_batch
from torch.utils.data import DataLoader, TensorDataset

import atompack_torch as apt

N = 101


@pytest.fixture(scope="module")
def path(new_path: Callable[[], Path]) -> Path:
    """A file whose every molecule tells its number."""
    made = new_path()
    rng = np.random.default_rng(0)
    with apt.AtpWriter(made, codec="zstd") as writer:
        for number in range(N):
            n = int(rng.integers(0, 9))
            writer.write(
                apt.Molecule(
                    rng.normal(size=(n, 3)).astype(np.float32),
                    np.arange(1, n + 1),
                    energy=float(number),
                    name=f"molecule {number}",
                    properties={"number": number},
                )
            )
    return made


@pytest.fixture(scope="module")
def dataset(path: Path) -> apt.AtpDataset:
    """Of that file."""
    return apt.AtpDataset(path)


def numbers(batches: Any) -> list[list[int]]:
    """The molecules of each batch."""
    return [batch.energy.long().tolist() for batch in batches]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 7, 64, 200])
def test_equal_to_the_data_set(dataset: apt.AtpDataset, threads: int, size: int) -> None:
    loader = apt.Loader(dataset, size, num_threads=threads)
    batches = list(loader)
    assert len(batches) == len(loader) == -(-N // size)
    for k, batch in enumerate(batches):
        assert_same_batch(batch, dataset.batch(range(k * size, min(N, (k + 1) * size))))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [N, N + 1, 1 << 70])
def test_batches_larger_than_the_dataset(
    dataset: apt.AtpDataset, size: int, drop_last: bool
) -> None:
    expected = [] if drop_last and size > N else [N]
    for shuffle in (False, True):
        loader = apt.Loader(dataset, size, shuffle=shuffle, drop_last=drop_last)
        assert [len(batch) for batch in loader] == expected
        assert len(loader) == len(expected)


def test_equal_to_a_dataloader(dataset: apt.AtpDataset) -> None:
    order = [[5, 3, 5], [], [N - 1, -1], [0]]
    ours = apt.Loader(dataset, batch_sampler=order)
    for mine, other in zip(ours, DataLoader(dataset, batch_sampler=order), strict=True):
        assert_same_batch(mine, other)


def test_shuffling_depends_on_seed_and_epoch_alone(dataset: apt.AtpDataset) -> None:
    def orders(seed: int, threads: int = 2) -> list[list[list[int]]]:
        loader = apt.Loader(dataset, 10, shuffle=True, seed=seed, num_threads=threads)
        return [numbers(loader) for _ in range(3)]

    first = orders(0)
    assert first == orders(0, threads=1)
    flat = [[*itertools.chain(*epoch)] for epoch in first + orders(1)]
    assert all(sorted(order) == list(range(N)) for order in flat)
    assert len({tuple(order) for order in flat}) == len(flat)

    loader = apt.Loader(dataset, 10, shuffle=True)
    loader.set_epoch(2)
    assert numbers(loader) == first[2]


def test_options(dataset: apt.AtpDataset) -> None:
    assert len(apt.Loader(dataset)) == N
    dropping = apt.Loader(dataset, 10, drop_last=True)
    assert len(dropping) == len(list(dropping)) == 10
    sampled = apt.Loader(dataset, 2, sampler=[3, 1, 4, 1, 5])
    assert len(sampled) == 3
    assert numbers(sampled) == [[3, 1], [4, 1], [5]]
    assert numbers(apt.Loader(dataset, 2, sampler=[3, 1, 4], drop_last=True)) == [[3, 1]]
    tensors = apt.Loader(dataset, batch_sampler=[torch.tensor([2, -1]), np.array([1])])  # type: ignore[list-item]
    assert numbers(tensors) == [[2, N - 1], [1]]
    assert "batch_size=2" in repr(sampled)
    for wrong in (
        {"batch_size": 0},
        {"num_threads": 0},
        {"prefetch": 0},
        {"sampler": [1], "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "drop_last": True},
    ):
        with pytest.raises(ValueError, match=r"excludes|at least 1"):
            apt.Loader(dataset, **wrong)


def test_other_data_sets_are_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.utils\.data\.DataLoader takes any"):
        apt.Loader(TensorDataset(torch.zeros(3)))  # type: ignore[arg-type]


def test_subset_and_transform(path: Path) -> None:
    main = threading.get_ident()
    seen = []

    def transform(batch: apt.MoleculeBatch) -> Any:
        seen.append(threading.get_ident())
        return batch.energy.sum().item()

    part = apt.AtpDataset(path, transform=transform).subset([9, 8, 7])
    assert list(apt.Loader(part, 2)) == [17.0, 7.0]
    assert set(seen) == {main}


@pytest.mark.parametrize("stop", [0, 1, 5, 10, 11])
def test_resuming(dataset: apt.AtpDataset, stop: int) -> None:
    def loader() -> apt.Loader:
        return apt.Loader(dataset, 10, shuffle=True, seed=3)

    whole = loader()
    epochs = [numbers(whole), numbers(whole)]
    first = loader()
    list(first)
    batches = iter(first)
    taken = [next(batches).energy.long().tolist() for _ in range(stop)]
    state = pickle.loads(pickle.dumps(first.state_dict()))
    assert taken == epochs[1][:stop]
    assert (state["epoch"], state["batches"]) == ((1, stop) if stop < 11 else (2, 0))

    second = loader()
    second.load_state_dict(state)
    assert second.state_dict() == state
    rest = iter(second)
    more = [next(rest).energy.long().tolist() for _ in range(min(2, 11 - stop))]
    third = loader()  # a second time in the same epoch
    third.load_state_dict(second.state_dict())
    if third.epoch == 1:
        more += numbers(third)
    assert taken + more == epochs[1]
    state = third.state_dict()
    assert (state["epoch"], state["batches"], state["consumed"], state["seed"]) == (2, 0, 0, 3)
    with pytest.raises(ValueError, match="expected seed 4, got 3"):
        apt.Loader(dataset, 10, seed=4).load_state_dict(state)


def test_an_epoch_counts_when_its_last_batch_was_delivered(dataset: apt.AtpDataset) -> None:
    loader, whole = (
        apt.Loader(dataset, 10, shuffle=True, prefetch=prefetch) for prefetch in (1, 4)
    )
    epochs = [numbers(whole), numbers(whole)]
    for _ in range(3):  # looking at a batch costs nothing
        assert next(iter(loader)).energy.long().tolist() == epochs[0][0]
        assert loader.epoch == 0
    assert [b.energy.long().tolist() for b in itertools.islice(loader, 11)] == epochs[0]
    assert loader.epoch == 1  # nobody asked for a batch after the last one
    left = iter(loader)
    next(left)
    assert numbers(loader) == epochs[1]
    assert list(left)  # an abandoned pass no longer counts
    assert (loader.epoch, loader.state_dict()["batches"]) == (2, 0)


class Damaged:
    """A file in which one molecule cannot be read."""

    def __init__(self, path: Path, number: int) -> None:
        self.number = number
        with apt.AtpWriter(path) as writer:
            for k in range(40):
                writer.write(apt.Molecule(np.zeros((1, 3)), [1], energy=float(k)))
        raw = bytearray(path.read_bytes())
        size = 4 + 24 + 1 + 2 + 2 + 6 + 1 + 4 + 8
        raw[8192 + number * size] = 9  # its atom count
        path.write_bytes(raw)
        self.dataset = apt.AtpDataset(path)


def test_an_error_arrives_in_its_place(new_path: Callable[[], Path]) -> None:
    damaged = Damaged(new_path(), 17)
    batches = iter(apt.Loader(damaged.dataset, 5, num_threads=3))
    assert numbers(next(batches) for _ in range(3)) == [[*range(k, k + 5)] for k in (0, 5, 10)]
    with pytest.raises(apt.CorruptFileError, match=r"got 9 \(molecule 17, offset"):
        next(batches)


def test_iterating_goes_on_after_an_error(new_path: Callable[[], Path]) -> None:
    loader = apt.Loader(Damaged(new_path(), 17).dataset, 5, num_threads=1)
    batches = iter(loader)
    assert numbers(next(batches) for _ in range(3)) == [[*range(k, k + 5)] for k in (0, 5, 10)]
    with pytest.raises(apt.CorruptFileError, match="molecule 17"):
        next(batches)
    assert loader.state_dict()["batches"] == 4
    assert numbers(batches) == [[*range(k, k + 5)] for k in (20, 25, 30, 35)]
    assert loader.epoch == 1


def test_an_index_out_of_range_is_an_index_error(dataset: apt.AtpDataset) -> None:
    for order in ([[0], [N]], [[0], torch.tensor([-N - 1])]):
        batches = apt.Loader(dataset, batch_sampler=order)  # type: ignore[arg-type]
        with pytest.raises(IndexError, match="out of range for a dataset of 101"):
            list(batches)


def test_a_pass_whose_sampler_was_interrupted_does_not_end_as_if_complete(
    dataset: apt.AtpDataset,
) -> None:
    class Interrupted:
        def __iter__(self) -> Iterator[list[int]]:
            yield from ([0], [1], [2])
            raise KeyboardInterrupt

        def __len__(self) -> int:
            return 9

    loader = apt.Loader(dataset, batch_sampler=Interrupted(), prefetch=2)
    batches = iter(loader)
    found: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(batch.index.item() for batch in batches)
    with pytest.raises(RuntimeError, match="sampler failed or was interrupted: start a new pass"):
        found.extend(batch.index.item() for batch in batches)
    assert found == [0, 1, 2]
    assert loader.state_dict()["epoch"] == 0


def test_an_error_of_the_sampler_is_its_own(dataset: apt.AtpDataset) -> None:
    def sampler() -> Iterator[list[int]]:
        yield [1]
        raise KeyError("sampler")

    with pytest.raises(KeyError, match="sampler"):
        list(apt.Loader(dataset, batch_sampler=sampler()))


def threads() -> int:
    """Of this process, as the system counts them: for a moment also those that were joined."""
    time.sleep(0.05)
    return len(list(Path("/proc/self/task").iterdir()))


THREADS_OF_A_PASS = """
import gc, sys, time
from pathlib import Path
import torch
import atompack_torch as apt

torch.set_num_threads(1)  # nothing else starts threads here; 3 make batches, 1 announces reads

def becomes(low, high):
    end = time.monotonic() + 60
    while not low <= (n := len(list(Path("/proc/self/task").iterdir()))) <= high:
        assert time.monotonic() < end, (n, low, high)
        time.sleep(0.01)
    return n

dataset = apt.AtpDataset(sys.argv[1])
list(apt.Loader(dataset, 10, num_threads=3))
time.sleep(0.5)
before = len(list(Path("/proc/self/task").iterdir()))
loader = apt.Loader(dataset, 1, num_threads=3)
for _ in loader:
    becomes(before + 1, before + 4)
    break
gc.collect()
becomes(before, before)
batches = iter(loader)
next(batches)
becomes(before + 1, before + 4)

def stop(batches):
    for _ in batches:
        raise ZeroDivisionError

try:
    stop(batches)
except ZeroDivisionError:
    pass
del batches
gc.collect()
becomes(before, before)
list(loader)
becomes(before, before)
print("ended")
"""


def test_threads_end_with_their_pass(dataset: apt.AtpDataset, scripts: ScriptServer) -> None:
    done = scripts.run(THREADS_OF_A_PASS, str(dataset.path))
    assert done.stdout == "ended\n", done.stderr


def test_two_thousand_starts_and_stops(new_path: Callable[[], Path]) -> None:
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write_arrays(
            positions=np.zeros((30, 2, 3)), atomic_numbers=[1, 2], energy=np.arange(30.0)
        )
    rng = np.random.default_rng(0)
    dataset = apt.AtpDataset(path)
    list(apt.Loader(dataset, 5, num_threads=2))
    before = threads()
    for breaks_at in rng.integers(0, 8, 2000):
        loader = apt.Loader(dataset, 5, num_threads=2, prefetch=int(rng.integers(1, 5)))
        for k, batch in enumerate(loader):
            assert batch.energy[0] == 5 * k
            if k == breaks_at:
                break
    assert threads() <= before + 3, "torch may have started its own meanwhile"


def test_slow_and_fast_consumers(dataset: apt.AtpDataset) -> None:
    loader = apt.Loader(dataset, 1, num_threads=2, prefetch=3)
    batches = iter(loader)
    for k in range(10):
        time.sleep(0.01)
        assert int(next(batches).energy) == k
    assert numbers(batches) == [[k] for k in range(10, N)]


def test_two_loaders_and_two_consumers(dataset: apt.AtpDataset) -> None:
    found: dict[int, list[list[int]]] = {}

    def consume(seed: int) -> None:
        loader = apt.Loader(dataset, 3, shuffle=True, seed=seed)
        found[seed] = [batch for _ in range(5) for batch in numbers(loader)]

    consumers = [threading.Thread(target=consume, args=(seed,)) for seed in range(3)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    for seed in range(3):
        loader = apt.Loader(dataset, 3, shuffle=True, seed=seed)
        assert found[seed] == [batch for _ in range(5) for batch in numbers(loader)]


def test_kept_batches_stay_what_they_were(dataset: apt.AtpDataset) -> None:
    loader = apt.Loader(dataset, 2, num_threads=2)
    kept = [batch.energy for _ in range(4) for batch in loader]
    assert [energy.long().tolist() for energy in kept] == 4 * numbers(loader)


def test_a_new_generation_waits_for_the_next_pass(new_path: Callable[[], Path]) -> None:
    path = new_path()
    with apt.AtpWriter(path) as writer:
        writer.write([apt.Molecule(np.zeros((1, 3)), [1], energy=float(k)) for k in range(4)])
    dataset = apt.AtpDataset(path)
    loader = apt.Loader(dataset, 1, prefetch=1, num_threads=1)
    batches = iter(loader)
    next(batches)
    with apt.AtpWriter(path, mode="a") as writer:
        writer.write(apt.Molecule(np.zeros((1, 3)), [1], energy=4.0))
    assert dataset.refresh()
    assert numbers(batches) == [[1], [2], [3]]
    assert numbers(loader) == [[0], [1], [2], [3], [4]]


def test_the_interpreter_ends_in_the_middle_of_a_pass(path: Path) -> None:
    code = """
import sys, atompack_torch as apt
kept = iter(apt.Loader(apt.AtpDataset(sys.argv[1]), 1, num_threads=3, prefetch=20))
next(kept)
print("last line")
"""
    assert run(code, path) == (0, "last line\n", "")


def test_ctrl_c_ends_a_wait(path: Path) -> None:
    code = """
import sys, atompack_torch as apt
loader = apt.Loader(apt.AtpDataset(sys.argv[1]), 2, num_threads=2)
try:
    print("ready", flush=True)
    while True:
        list(loader)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run(code, path, interrupt=True)[:2] == (0, "interrupted\n")


def test_forks_while_threads_run(dataset: apt.AtpDataset) -> None:
    """A child iterates again; the parent's pass is not its own."""
    batches = iter(apt.Loader(dataset, 1, num_threads=2, prefetch=8))
    next(batches)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                fresh = numbers(apt.Loader(dataset, 50))
                try:
                    next(batches)
                except RuntimeError as error:
                    status = 0 if "do not survive fork()" in str(error) and len(fresh) == 3 else 2
            finally:
                os._exit(status)
        deadline = time.monotonic() + 200
        while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < deadline, "the child hangs"
            time.sleep(0.005)
        assert os.waitstatus_to_exitcode(found[1]) == 0
    assert len(list(batches)) == N - 1


def test_dataloader_workers_beside_a_running_loader(dataset: apt.AtpDataset) -> None:
    batches = iter(apt.Loader(dataset, 5, num_threads=2))
    next(batches)
    workers = DataLoader(dataset, 5, num_workers=2, timeout=200)
    assert numbers(workers)[1:] == numbers(batches)


def test_device(dataset: apt.AtpDataset) -> None:
    for batch in apt.Loader(dataset, 50, device="cpu"):
        assert batch.positions.device.type == "cpu"
    for batch in apt.Loader(dataset, 50, device="meta"):
        assert batch.positions.device.type == "meta"


def test_pinning_without_cuda_says_so(
    dataset: apt.AtpDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.warns(UserWarning, match="memory is not pinned"):
        loader = apt.Loader(dataset, 50, pin_memory=True)
    assert len(list(loader)) == 3
