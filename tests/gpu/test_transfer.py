"""Batches on their way to a device: pinned memory, streams of their own, and no waiting."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import assert_same

import atompack_torch as apt


@contextmanager
def no_waiting() -> Iterator[None]:
    """Turns every wait of the host for the device into an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_batch_there_and_back(path: Path, device: torch.device) -> None:
    batch = apt.AtpDataset(path)[:64]
    there = batch.to(device)
    assert there.positions.device.type == device.type
    assert_same(there, batch)
    assert len({there[name].untyped_storage().data_ptr() for name in ("positions", "ptr")}) == 1


def test_pinned_batches(path: Path, cuda: torch.device) -> None:
    batch = apt.AtpDataset(path)[:64]
    pinned = batch.pin_memory()
    tensors = [value for value in pinned.to_dict().values() if isinstance(value, torch.Tensor)]
    assert tensors
    assert all(tensor.is_pinned() for tensor in tensors)
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors}) == 1
    with no_waiting():
        there = pinned.to(cuda, non_blocking=True)
    torch.cuda.synchronize()
    assert_same(there, batch)


def test_a_copy_does_not_wait_for_the_device(path: Path, cuda: torch.device) -> None:
    pinned = apt.AtpDataset(path)[:64].pin_memory()
    pinned.to(cuda, non_blocking=True)
    torch.cuda.synchronize()
    busy = torch.cuda.Event()
    torch.cuda._sleep(200_000_000)  # cycles, a tenth of a second
    busy.record()
    there = pinned.to(cuda, non_blocking=True)
    assert not busy.query()  # the host went on
    torch.cuda.synchronize()
    assert_same(there, pinned)


@pytest.mark.parametrize("pinned", [False, True])
def test_batches_of_a_loader(path: Path, device: torch.device, pinned: bool) -> None:
    if pinned and device.type == "cpu":
        pytest.skip("missing hardware: no CUDA device, for which memory is pinned")
    dataset = apt.AtpDataset(path)
    loader = apt.Loader(dataset, 32, shuffle=True, seed=3, device=device, pin_memory=pinned)
    plain = apt.Loader(dataset, 32, shuffle=True, seed=3)
    for _ in range(3):
        for found, expected in zip(loader, plain, strict=True):
            assert found.positions.device.type == device.type
            assert_same(found, expected)


def test_a_loader_makes_the_host_wait_for_nothing(path: Path, cuda: torch.device) -> None:
    dataset = apt.AtpDataset(path)
    loader = apt.Loader(dataset, 32, device=cuda, pin_memory=True)
    for _ in loader:  # fills the pools of memory
        pass
    total = torch.zeros((), device=cuda)
    with no_waiting():
        for batch in loader:
            total += batch.positions.sum()
    expected = sum(batch.positions.double().sum() for batch in apt.Loader(dataset, 32))
    torch.testing.assert_close(total.double().cpu(), expected, rtol=1e-4, atol=1e-2)


def test_memory_is_not_reused_while_a_stream_uses_it(path: Path, cuda: torch.device) -> None:
    """Batches are dropped immediately, while slow kernels of the current stream still read them."""
    dataset = apt.AtpDataset(path)
    sums = []
    for batch in apt.Loader(dataset, 16, device=cuda, pin_memory=True):
        torch.cuda._sleep(5_000_000)
        sums.append(batch.positions.double().sum())
        del batch
    expected = [batch.positions.double().sum() for batch in apt.Loader(dataset, 16)]
    torch.testing.assert_close(torch.stack(sums).cpu(), torch.stack(expected))


def test_record_stream_of_a_batch(path: Path, cuda: torch.device) -> None:
    side = torch.cuda.Stream()
    batch = apt.AtpDataset(path)[:64]
    there = batch.to(cuda)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        total = there.positions.double().sum()
    there.record_stream(side)
    n_bytes = there.positions.untyped_storage().nbytes()
    del there
    taken = [torch.full((n_bytes,), 255, dtype=torch.uint8, device=cuda) for _ in range(8)]
    torch.cuda.synchronize()
    assert len(taken) == 8
    torch.testing.assert_close(total.cpu(), batch.positions.double().sum())


@pytest.mark.parametrize("options", [{}, {"full": False}, {"max_neighbors": 4}])
def test_edges_of_a_loader(path: Path, device: torch.device, options: Any) -> None:
    if device.type == "cuda":
        pytest.importorskip("nvalchemiops", reason="nvalchemi-toolkit-ops is not installed")
    neighbors = apt.NeighborList(3.0, vectors=True, **options)
    loader = apt.Loader(apt.AtpDataset(path), 32, device=device, neighbors=neighbors)
    expected = apt.Loader(apt.AtpDataset(path, neighbors=neighbors), 32)
    for found, native in zip(loader, expected, strict=True):
        assert torch.equal(edges_of(found), edges_of(native))


def test_only_the_thread_that_searches_waits(path: Path, cuda: torch.device) -> None:
    """The mode that shows waits is one for all threads, so they are told apart by their number."""
    pytest.importorskip("nvalchemiops", reason="nvalchemi-toolkit-ops is not installed")
    neighbors = apt.NeighborList(3.0, vectors=True)
    loader = apt.Loader(apt.AtpDataset(path), 32, device=cuda, pin_memory=True, neighbors=neighbors)
    for _ in loader:  # fills the pools of memory, builds the kernels
        pass
    waits: list[int] = []
    total = torch.zeros((), device=cuda)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_, **__: waits.append(threading.get_ident())
        torch.cuda.set_sync_debug_mode("warn")
        try:
            for batch in loader:
                total += batch.edge_vector.pow(2).sum()
            seen = list(waits)
            found = total.item()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert threading.get_ident() not in seen
    assert len(seen) >= len(loader)
    assert threading.get_ident() in waits, "a wait was not shown"
    native = apt.Loader(apt.AtpDataset(path, neighbors=neighbors), 32)
    expected = sum(batch.edge_vector.double().pow(2).sum() for batch in native)
    assert found == pytest.approx(float(expected), rel=1e-4)


def edges_of(batch: apt.MoleculeBatch) -> torch.Tensor:
    rows = torch.cat([batch.edge_index.T.cpu(), batch.edge_shift.cpu().long()], 1)
    return rows.unique(dim=0)
