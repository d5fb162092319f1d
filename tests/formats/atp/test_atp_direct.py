"""Files read without a mapping: by pread, and past the system's file cache by io_uring."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from processes.client import ScriptServer
from torch.utils.data import DataLoader

import atompack_torch as apt
from atompack_torch._native import direct_reads, is_uring_available

COUNT = 5000
Access = Literal["auto", "random", "sequential", "read", "direct"]
# Where io_uring is forbidden, asking for it is an error.
ACCESSES: list[Access] = ["read", "direct"] if is_uring_available() else ["read"]


def write(path: Path, codec: Any, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    with apt.AtpWriter(path, codec=codec) as writer:
        writer.write_arrays(
            positions=rng.normal(size=(COUNT, 20, 3)),
            atomic_numbers=rng.integers(1, 80, (COUNT, 20)),
            energy=rng.normal(size=COUNT),
            forces=rng.normal(size=(COUNT, 20, 3)),
        )
    return path


@pytest.fixture(scope="module", params=["none", "zstd"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("direct") / "a.atp", request.param, 0)


def order() -> list[list[int]]:
    numbers = torch.randperm(COUNT, generator=torch.Generator().manual_seed(3))
    batches: list[list[int]] = numbers[: 60 * 64].view(-1, 64).tolist()
    return batches


def same(a: apt.MoleculeBatch, b: apt.MoleculeBatch) -> bool:
    names = ("positions", "atomic_numbers", "energy", "forces", "ptr")
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in names)


@pytest.mark.parametrize("access", [*ACCESSES, "populate"])
def test_batches_are_the_same(path: Path, access: Access) -> None:
    mapped = apt.AtpDataset(path)
    dataset = apt.AtpDataset(path, access=access)
    before = direct_reads()[0]
    for indices in order():
        assert same(dataset.batch(indices), mapped.batch(indices))
    assert same(dataset.batch(range(COUNT)), mapped.batch(range(COUNT)))
    assert (direct_reads()[0] > before) == (access == "direct")
    restored = pickle.loads(pickle.dumps(dataset))
    assert same(restored.batch([5, 3]), mapped.batch([5, 3]))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("num_threads", [1, 3])
def test_a_loader_reads_ahead(path: Path, access: Access, num_threads: int) -> None:
    mapped = apt.AtpDataset(path)
    dataset = apt.AtpDataset(path, access=access)
    loader = apt.Loader(dataset, batch_sampler=order(), num_threads=num_threads)
    n = 0
    for batch, indices in zip(loader, order(), strict=True):
        assert same(batch, mapped.batch(indices))
        n += 1
    assert n == len(order())


@pytest.mark.parametrize("access", ACCESSES)
def test_a_list_of_files(path: Path, tmp_path: Path, access: Access) -> None:
    files = [path, write(tmp_path / "b.atp", "none", 1)]
    dataset, mapped = apt.AtpDataset(files, access=access), apt.AtpDataset(files)
    indices = [COUNT - 1, 2 * COUNT - 1, 0, COUNT]
    assert same(dataset.batch(indices), mapped.batch(indices))


@pytest.mark.parametrize("access", ACCESSES)
def test_workers(path: Path, access: Access) -> None:
    dataset = apt.AtpDataset(path, access=access)
    dataset.batch([1, 2])  # the parent's ring is in use
    loader = DataLoader(
        dataset,
        batch_sampler=order(),
        num_workers=2,
        collate_fn=apt.collate_identity,
        multiprocessing_context="fork",
    )
    mapped = apt.AtpDataset(path)
    for batch, indices in zip(loader, order(), strict=True):
        assert same(batch, mapped.batch(indices))
    assert same(dataset.batch([1, 2]), mapped.batch([1, 2]))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("size", [0, 5000, 100_000])
def test_a_truncated_file_is_corrupt(tmp_path: Path, access: Access, size: int) -> None:
    copy = write(tmp_path / "a.atp", "none", 0)
    dataset = apt.AtpDataset(copy, access=access)
    dataset.batch(range(10))
    os.truncate(copy, size)
    with pytest.raises(apt.CorruptFileError, match="shrank while it was open"):
        dataset.batch(range(COUNT - 10, COUNT))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize(
    ("codec", "way"),
    [
        ("none", "batch"),
        ("zstd", "loader"),
        *(
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in (("none", "item"), ("none", "loader"), ("zstd", "batch"), ("zstd", "item"))
        ),
    ],
)
def test_truncation_during_a_read(tmp_path: Path, access: Access, codec: str, way: str) -> None:
    """A mapping would end the process here; whole batches are right, then there is an error."""
    content = write(tmp_path / "a.atp", codec, 0).read_bytes()
    expected = apt.AtpDataset(tmp_path / "a.atp").batch(range(COUNT)).energy
    copy = tmp_path / "copy.atp"
    for trial in range(6):
        copy.write_bytes(content)
        dataset = apt.AtpDataset(copy, access=access)
        dataset.batch([0])
        cutting = threading.Timer(0.004 * trial, os.truncate, [copy, len(content) // 2])
        cutting.start()
        with pytest.raises(apt.CorruptFileError, match="shrank while it was open"):
            read_without_end(dataset, way, expected)
        cutting.join()


def read_without_end(dataset: apt.AtpDataset, way: str, expected: torch.Tensor) -> None:
    while True:
        for numbers, energies in read(dataset, way):
            assert torch.equal(energies, expected[numbers])


def read(dataset: apt.AtpDataset, way: str) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Reads an epoch in one of the ways there are."""
    if way == "loader":
        batches = apt.Loader(dataset, batch_sampler=order(), num_threads=2)
        yield from zip(order(), (batch.energy for batch in batches), strict=True)
    for numbers in order():
        if way == "batch":
            yield numbers, dataset.batch(numbers).energy
        elif way == "item":
            yield numbers[:1], torch.tensor([dataset[numbers[0]].energy], dtype=torch.float64)


@pytest.mark.parametrize("access", ACCESSES)
def test_a_writer_may_append(tmp_path: Path, access: Access) -> None:
    file = write(tmp_path / "a.atp", "none", 0)
    dataset = apt.AtpDataset(file, access=access)
    before = dataset.batch(range(COUNT))
    with apt.AtpWriter(file, mode="a") as writer:
        writer.write_arrays(
            positions=np.ones((3, 20, 3)),
            atomic_numbers=np.ones((3, 20), dtype=np.int64),
            energy=np.ones(3),
            forces=np.ones((3, 20, 3)),
        )
    assert same(dataset.batch(range(COUNT)), before)
    assert dataset.refresh()
    assert len(dataset) == COUNT + 3
    assert dataset.batch([COUNT + 2]).energy.item() == 1


FORBIDDEN = """
import ctypes, struct, sys
import atompack_torch as apt

def statement(code, k, jump_true=0, jump_false=0):
    return struct.pack("HBBI", code, jump_true, jump_false, k)

SETUP, EPERM = 425, 1
program = statement(0x20, 0) + statement(0x15, SETUP, 0, 1)
program += statement(0x06, 0x50000 | EPERM) + statement(0x06, 0x7FFF0000)
held = ctypes.create_string_buffer(program, len(program))
rules = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(held))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, rules) == 0
try:
    apt.AtpDataset(sys.argv[1], access="direct").batch([0])
except OSError as error:
    print(error)
print(len(apt.AtpDataset(sys.argv[1]).batch([0])))
"""


def test_where_it_is_forbidden_the_error_names_another_way(
    tmp_path: Path, scripts: ScriptServer
) -> None:
    path = write(tmp_path / "a.atp", "none", 0)
    done = scripts.run(FORBIDDEN, path)
    assert done.returncode == 0, done.stderr
    message, count = done.stdout.strip().split("\n")
    assert 'access="direct": io_uring is not available here (' in message
    assert f'; use access="random" instead: {str(path)!r}' in message
    assert count == "1"
