"""What shards say is not executed, and takes no more memory than its blocks."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard
from processes.client import ScriptServer
from reference.fixture_files import fixtures_root, names_of
from torch.utils.data import DataLoader

import atompack_torch as apt

_TIMEOUT = 200  # seconds: a worker that hangs fails the test
_MARKER = "executed"
PROTOCOLS = (2, 3, 4, 5)
_EXPECTED = fixtures_root() / "atlas_shards" / "expected"
UNSAFE = [
    name
    for name in names_of("atlas_shards/expected/*", ".json")
    if "unsafe" in (json.loads((_EXPECTED / f"{name}.json").read_text())["error"] or "")
]


class _Touch:
    """Loading it with pickle makes a file in the working folder."""

    def __reduce__(self) -> Any:
        return open, (_MARKER, "w")


class _InState(OrderedDict[str, Any]):
    """An allowed class, with a state that executes."""

    def __reduce__(self) -> Any:
        return OrderedDict, (), {"x": _Touch()}


class _InStorage:
    """An allowed function, whose bytes are a pickle themselves."""

    def __reduce__(self) -> Any:
        return torch.storage._load_from_bytes, (pickle.dumps(_Touch(), 2),)


def _in_array() -> Any:
    array = np.empty(2, dtype=object)
    array[1] = _Touch()
    return array


HIDDEN: dict[str, Callable[[], Any]] = {
    "bare": _Touch,
    "in_a_list": lambda: [1, [2, _Touch()]],
    "in_a_tuple": lambda: (_Touch(), 1),
    "in_a_dict": lambda: {"positions": np.zeros((1, 3)), "atomic_numbers": _Touch()},
    "as_a_key": lambda: {_Touch(): 1},
    "in_an_array": _in_array,
    "in_a_state": _InState,
    "in_a_storage": _InStorage,
}


def one_block(root: Path, raw: bytes, *, compressed: bool) -> Path:
    """A dataset of one example in one block."""
    with apt.ShardWriter(root, 1, 1, strategy=1 if compressed else 0) as writer:
        writer.write(0)
    stored = zstandard.ZstdCompressor().compress(raw) if compressed else raw
    (root / "0" / "data.bin").write_bytes(stored)
    np.save(root / "0" / "index.npy", np.array([0, len(stored)]))
    return root


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def every_way(root: Path) -> list[Callable[[], Any]]:
    dataset = apt.ShardDataset(root)
    return [
        lambda: [dataset[i] for i in range(len(dataset))],
        lambda: dataset.batch(range(len(dataset))),
        lambda: list(apt.Loader(dataset, len(dataset))),
        lambda: list(DataLoader(dataset, len(dataset))),
    ]


@pytest.mark.parametrize("kind", HIDDEN)
def test_nothing_is_executed(kind: str, tmp_path: Path, working_folder: Path) -> None:
    for protocol, compressed in product(PROTOCOLS, (False, True)):
        raw = pickle.dumps([HIDDEN[kind]()], protocol)
        root = tmp_path / f"{protocol} {compressed}"
        dataset = apt.ShardDataset(one_block(root, raw, compressed=compressed))
        for read in (partial(dataset.__getitem__, 0), partial(dataset.batch, [0])):
            with pytest.raises(apt.UnsafePickleError, match=r"data\.bin: "):
                read()
        assert list(working_folder.iterdir()) == []
    with contextlib.suppress(RuntimeError):  # what follows is not a storage
        pickle.loads(raw)
    assert (working_folder / _MARKER).exists(), "it would have been seen"


@pytest.mark.parametrize("name", UNSAFE)
def test_fixtures_by_every_way(fixtures: Path, name: str, working_folder: Path) -> None:
    root = fixtures.parent / "atlas_shards" / "data" / name
    for read in every_way(root):
        with pytest.raises((apt.UnsafePickleError, apt.CorruptFileError)):
            read()
    assert list(working_folder.iterdir()) == []


def test_workers_refuse_too(fixtures: Path, working_folder: Path) -> None:
    """For one of them: after an error in a worker, torch takes five seconds to end it."""
    dataset = apt.ShardDataset(fixtures.parent / "atlas_shards" / "data" / UNSAFE[0])
    with pytest.raises((apt.UnsafePickleError, apt.CorruptFileError)):
        list(DataLoader(dataset, 1, num_workers=1, timeout=_TIMEOUT))
    assert list(working_folder.iterdir()) == []


_READ = """
import resource, sys
from pathlib import Path
import atompack_torch as apt
dataset = apt.ShardDataset(sys.argv[1], cache_blocks=1, num_threads=1)
dataset[0]
status = Path("/proc/self/status").read_text()
used = int(status.split("VmSize:")[1].split()[0]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[2]) << 20),) * 2)
try:
    for i in range(len(dataset)):
        assert dataset[i]["x"][0] == i
except MemoryError:
    print("out of memory")
else:
    print("read")
"""


def test_memory_is_that_of_a_block(tmp_path: Path, scripts: ScriptServer) -> None:
    """200 MB of examples in blocks of 4 MB; then the same as one block."""

    def read(root: Path) -> str:
        """Reads all examples with 64 MB next to the memory of the first one."""
        done = scripts.run(_READ, root, "64")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    for name, block_size in (("small", 2), ("large", 100)):
        with apt.ShardWriter(tmp_path / name, 100, block_size, strategy=1, level=1) as writer:
            for i in range(100):
                writer.write({"x": np.full(250_000, i, dtype=np.int64)})
    assert read(tmp_path / "small") == "read"
    one = tmp_path / "large"
    with apt.ShardWriter(tmp_path / "both", 1, 1, strategy=1, level=1) as writer:
        writer.write({"x": np.zeros(1, dtype=np.int64)})
    (one / "0").rename(tmp_path / "both" / "1")
    with pytest.warns(UserWarning, match="shard_sizes"):
        assert len(apt.ShardDataset(tmp_path / "both")) == 101
    assert read(tmp_path / "both") == "out of memory"
