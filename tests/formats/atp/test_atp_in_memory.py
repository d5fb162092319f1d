"""Files of molecules in memory: the same batches and errors as from a file."""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.client import AtompackProcess
from reference import strategies
from reference.compare import same_bits
from torch.utils.data import DataLoader

import atompack_torch as apt

RECIPE = strategies.Recipe("f4", {"energy": "f8", "forces": "f4", "cell": "f8"})


@pytest.fixture(scope="module")
def path(atompack: AtompackProcess, tmp_path_factory: Any) -> Path:
    rng = np.random.default_rng(3)
    molecules = [strategies.molecule(rng, RECIPE, 9) for _ in range(50)]
    return atompack.write(tmp_path_factory.mktemp("memory") / "data.atp", molecules, "zstd")


def assert_same_batch(got: Any, expected: Any) -> None:
    assert list(got.keys()) == list(expected.keys())
    for key in expected.keys():
        if isinstance(expected[key], list):
            assert got[key] == expected[key]
        else:
            assert same_bits(got[key], expected[key]), key
        assert same_bits(got.mask(key), expected.mask(key)), key


def misaligned(data: bytes) -> memoryview:
    return memoryview(b"x" + data)[1:]


def mapped(data: bytes) -> memoryview:
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memoryview(memory)


@pytest.mark.parametrize(
    ("buffer_of", "access"),
    [(bytes, "auto"), (bytearray, "read"), (misaligned, "direct"), (mapped, "auto")],
)
def test_batches_equal_those_of_the_file(
    path: Path, buffer_of: Callable[[bytes], Any], access: Any
) -> None:
    expected = apt.AtpDataset(path)
    dataset = apt.AtpDataset(buffer_of(path.read_bytes()), access=access)
    assert dataset.path == "<memory>"
    assert same_bits(dataset.n_atoms, expected.n_atoms)
    assert dataset.schema == expected.schema
    for indices in ([4, 0, 49], list(range(50)), [7, 7]):
        assert_same_batch(dataset[indices], expected[indices])
    assert not dataset.refresh()
    assert_same_batch(dataset[[3]], expected[[3]])


def test_pickles_carry_the_bytes(path: Path) -> None:
    data = path.read_bytes()
    expected = apt.AtpDataset(path)[list(range(50))]
    pickled = pickle.dumps(apt.AtpDataset(memoryview(data)))
    assert len(data) <= len(pickled) < len(data) + 4096
    assert_same_batch(pickle.loads(pickled)[list(range(50))], expected)


def test_workers(path: Path) -> None:
    """After the parent has read, as forked workers of other libraries cannot."""
    dataset = apt.AtpDataset(path.read_bytes())
    expected = apt.AtpDataset(path)
    assert_same_batch(dataset[[1, 2]], expected[[1, 2]])
    batches = list(DataLoader(dataset, batch_size=10, num_workers=2))
    for k, batch in enumerate(batches):
        assert_same_batch(batch, expected[list(range(10 * k, 10 * k + 10))])
    assert len(batches) == 5


def test_the_buffer_is_kept_not_copied(path: Path) -> None:
    data = bytearray(path.read_bytes())
    before = sys.getrefcount(data)
    dataset = apt.AtpDataset(data)
    batch = dataset[[0, 1]]
    with pytest.raises(BufferError):
        data.append(0)
    assert sys.getrefcount(data) > before
    del dataset, batch
    gc.collect()
    data.append(0)
    assert sys.getrefcount(data) == before


def test_parts_that_are_not_contiguous(path: Path) -> None:
    with pytest.raises(BufferError, match="contiguous"):
        apt.AtpDataset(memoryview(path.read_bytes())[::2])


def outcome(data: Any, name: str) -> tuple[type, str] | None:
    """Class and message of the error on reading all molecules; None if missing."""
    try:
        dataset = apt.AtpDataset(data)
        dataset[list(range(len(dataset)))]
    except (apt.AtompackError, OSError) as error:
        return type(error), str(error).replace(name, "NAME")
    return None


def test_damage_gives_the_same_errors(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    rng = np.random.default_rng(5)
    file = tmp_path / "damaged.atp"
    failed = 0
    for _ in range(150):
        data = bytearray(whole)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        if rng.integers(2):
            del data[int(rng.integers(len(data))) :]
        file.write_bytes(data)
        expected = outcome(file, os.fspath(file))
        assert outcome(bytes(data), "<memory>") == expected
        failed += expected is not None
    assert failed > 20  # a cut may leave the empty commit before this one
    assert outcome(b"", "<memory>") is not None
