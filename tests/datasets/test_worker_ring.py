"""Batches of DataLoader workers, handed over in the slots of a shared ring."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes.client import ScriptServer
from reference.compare import assert_same_batch
from torch.utils.data import DataLoader

import atompack_torch as apt

N, SIZE = 1000, 4
SEGMENTS = Path("/dev/shm")


@pytest.fixture(scope="module")
def path(new_path: Callable[[], Path]) -> Path:
    """Molecules whose values tell their number."""
    made = new_path()
    rng = np.random.default_rng(0)
    sizes = [k % 5 for k in range(N)]
    molecules = [
        apt.Molecule(
            rng.normal(size=(n, 3)), np.full(n, 1 + k % 90), energy=float(k), name=f"number {k}"
        )
        for k, n in enumerate(sizes)
    ]
    with apt.AtpWriter(made) as writer:
        writer.write(molecules)
    return made


def loader(dataset: apt.AtpDataset, **options: Any) -> DataLoader[Any]:
    """Small batches from two workers, with a time limit."""
    return DataLoader(dataset, SIZE, **({"num_workers": 2, "timeout": 60} | options))


def in_slot(batch: apt.MoleculeBatch) -> bool:
    """Whether it came as the number of a slot, not as a segment of its own."""
    assert batch._arena is not None
    return not batch._arena.is_shared()


@pytest.mark.parametrize(
    "start", ["fork", "forkserver", pytest.param("spawn", marks=pytest.mark.exhaustive)]
)
def test_equal_to_the_data_set(path: Path, start: str) -> None:
    dataset = apt.AtpDataset(path)
    slots = 0
    for k, batch in enumerate(loader(dataset, multiprocessing_context=start)):
        assert_same_batch(batch, dataset.batch(range(k * SIZE, k * SIZE + SIZE)))
        slots += in_slot(batch)
    assert slots > N // SIZE - 20  # all but the first few


def test_batches_of_tensors_alone(path: Path) -> None:
    dataset = apt.AtpDataset(path, fields=["energy"])
    for k, batch in enumerate(loader(dataset)):
        assert_same_batch(batch, dataset.batch(range(k * SIZE, k * SIZE + SIZE)))
        assert batch.keys() == dataset.batch([0]).keys()


@pytest.fixture(scope="module")
def ragged_path(new_path: Callable[[], Path]) -> Path:
    """Molecules with a property whose shape differs, and that some lack."""
    made = new_path()
    with apt.AtpWriter(made) as writer:
        for k in range(N):
            properties = {"spectrum": np.full((k % 4, 2), k, np.float32)} if k % 3 else {}
            writer.write([apt.Molecule(np.zeros((1, 3)), [1], name=f"{k}", properties=properties)])
    return made


def test_batches_with_lists_of_tensors(ragged_path: Path) -> None:
    dataset = apt.AtpDataset(ragged_path)
    slots = 0
    for k, batch in enumerate(loader(dataset)):
        assert_same_batch(batch, dataset.batch(range(k * SIZE, k * SIZE + SIZE)))
        slots += in_slot(batch)
    assert isinstance(batch.spectrum, list)
    assert slots > N // SIZE - 20


def with_new_fields(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    """Tensors that are not in the memory of the batch, and one that is twice."""
    batch["double"] = 2 * batch.energy
    batch["same"] = batch.energy
    return batch


def in_new_memory(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
    """No tensor is in the memory of the batch."""
    made = batch.clone()
    return apt.collate([made[0], made[1]])


def as_dict(batch: apt.MoleculeBatch) -> dict[str, Any]:
    """A batch and other values inside of a dict."""
    return {"batch": batch, "double": [2 * batch.energy, batch.energy], "n": len(batch)}


@pytest.mark.parametrize("fields", [None, ["energy"]])
def test_new_tensors_of_transforms(path: Path, fields: list[str] | None) -> None:
    def batches(transform: Callable[[apt.MoleculeBatch], Any]) -> Any:
        dataset = apt.AtpDataset(path, fields=fields, transform=transform)
        return enumerate(loader(dataset.subset(range(30 * SIZE))))

    plain = apt.AtpDataset(path, fields=fields)
    for k, batch in batches(with_new_fields):
        first = plain.batch(range(k * SIZE, k * SIZE + SIZE))
        assert torch.equal(batch["double"], 2 * first.energy)
        assert torch.equal(batch["same"], first.energy)
        del batch["double"], batch["same"]
        assert_same_batch(batch, first)
    for k, batch in batches(in_new_memory):
        assert torch.equal(batch.index, torch.tensor([k * SIZE, k * SIZE + 1]))
    for k, parts in batches(as_dict):
        assert_same_batch(parts["batch"], plain.batch(range(k * SIZE, k * SIZE + SIZE)))
        assert torch.equal(parts["double"][0], 2 * parts["double"][1])
        assert parts["n"] == SIZE


def test_setting_a_field_changes_one_batch(path: Path) -> None:
    """Names and masks are shared by the batches of a pass."""
    batches = iter(loader(apt.AtpDataset(path, fields=["energy"])))
    kept = [next(batches) for _ in range(10)]
    kept[3]["new"] = kept[3].energy
    del kept[4]["energy"]
    assert ["new" in batch for batch in kept] == [k == 3 for k in range(10)]
    assert ["energy" in batch for batch in kept] == [k != 4 for k in range(10)]
    assert all(batch.mask("energy").all() for k, batch in enumerate(kept) if k != 4)


def test_what_is_kept_stays_what_it_was(path: Path) -> None:
    """More batches than there are slots: the others come as segments."""
    dataset = apt.AtpDataset(path)
    batches = loader(dataset)
    kept = [batch for k, batch in enumerate(batches) if k < 200]
    assert any(map(in_slot, kept))
    assert not all(map(in_slot, kept[50:]))
    for k, batch in enumerate(kept):
        assert_same_batch(batch, dataset.batch(range(k * SIZE, k * SIZE + SIZE)))


def test_one_tensor_keeps_the_slot(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    kept = []
    for k, batch in enumerate(loader(dataset)):
        if k % 20 == 0:
            kept.append((k, batch.positions, batch.energy[1:]))
        del batch
    for k, positions, energy in kept:
        expected = dataset.batch(range(k * SIZE, k * SIZE + SIZE))
        assert torch.equal(positions, expected.positions)
        assert torch.equal(energy, expected.energy[1:])


def test_slots_come_back_over_epochs(path: Path) -> None:
    batches = loader(apt.AtpDataset(path), persistent_workers=True)
    for epoch in range(3):
        slots = [in_slot(batch) for batch in batches]
        assert sum(slots) > len(slots) - 20 * (epoch == 0) - 1


def test_leaving_early(path: Path) -> None:
    batches = loader(apt.AtpDataset(path), persistent_workers=True)
    for _ in range(10):
        for k, batch in enumerate(batches):
            assert batch.energy[0] == SIZE * k
            if k == 9:
                break
    assert [batch.energy[0].item() for batch in batches] == [*range(0, N, SIZE)]


def test_growing_batches(path: Path) -> None:
    """A batch that no slot holds makes a ring with larger ones."""
    dataset = apt.AtpDataset(path)
    sizes = [1, 4, 30_000, 2, 60_000, 5, 5, 5, 5, 5]
    order = [[k % N for k in range(size)] for size in sizes for _ in range(3)]
    batches = DataLoader(dataset, batch_sampler=order, num_workers=1, timeout=200)
    for numbers, batch in zip(order, batches, strict=True):
        assert_same_batch(batch, dataset.batch(numbers))


def dumped(batch: apt.MoleculeBatch) -> bytes:
    """Pickled by hand, in the worker."""
    return pickle.dumps(batch)


def plain(batch: apt.MoleculeBatch) -> dict[str, Any]:
    """Tensors alone leave the worker."""
    return {"energy": batch.energy, "positions": batch.positions}


def test_what_transforms_make(path: Path) -> None:
    expected = apt.AtpDataset(path)
    for k, raw in enumerate(loader(apt.AtpDataset(path, transform=dumped))):
        if k % 10 == 0:  # twice: the bytes hold the data themselves
            for _ in range(2):
                again = pickle.loads(raw)
                assert_same_batch(again, expected.batch(range(k * SIZE, k * SIZE + SIZE)))
    for k, parts in enumerate(loader(apt.AtpDataset(path, transform=plain))):
        assert torch.equal(parts["energy"], torch.arange(k * SIZE, k * SIZE + SIZE).double())


def test_a_fork_of_the_consumer_frees_nothing(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    batches = iter(loader(dataset))
    kept = [next(batches) for _ in range(20)]
    assert any(map(in_slot, kept))
    child = os.fork()
    if child == 0:
        kept.clear()
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(batches)) == N // SIZE - 20
    for k, batch in enumerate(kept):
        assert_same_batch(batch, dataset.batch(range(k * SIZE, k * SIZE + SIZE)))


def test_a_killed_worker_is_an_error_and_its_batches_live_on(path: Path) -> None:
    dataset = apt.AtpDataset(path)
    batches: Any = iter(loader(dataset))
    kept = [next(batches) for _ in range(20)]
    for worker in batches._workers:
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)
    del batches
    for k, batch in enumerate(kept):
        assert_same_batch(batch, dataset.batch(range(k * SIZE, k * SIZE + SIZE)))


# Forked workers notice that the consumer is gone, those of a forkserver do not: docs/guarantees.md
CONSUMER = """
import sys, time
import atompack_torch as apt
from torch.utils.data import DataLoader
dataset, kept = apt.AtpDataset(sys.argv[1]), []
for k, batch in enumerate(DataLoader(dataset, 4, num_workers=2, multiprocessing_context="fork")):
    kept.append(batch)
    if k == 60:
        print("ready", flush=True)
        time.sleep(60)
"""


def segments() -> set[str]:
    """What lies in /dev/shm under a name."""
    return {entry.name for entry in SEGMENTS.iterdir() if not entry.is_dir()}


def test_nothing_is_left_when_the_consumer_is_killed(path: Path, scripts: ScriptServer) -> None:
    before = segments()
    consumer = scripts.start(CONSUMER, path)
    consumer.wait_for("ready")
    consumer.kill()
    deadline = time.monotonic() + 200  # the workers notice after a while
    while segments() - before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert segments() - before == set()
