"""Shards that are appended to a dataset, or replace it, next to readers that have it open."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.shards import Reader, assert_same
from torch.utils.data import DataLoader

import atompack_torch as apt

_TIMEOUT = 200  # seconds


def _example(i: int) -> dict[str, Any]:
    return {"i": i, "a": np.arange(200) * i}


def _write(
    root: Path, numbers: range, shard_size: int = 20, block_size: int = 2, **options: Any
) -> None:
    with apt.ShardWriter(root, shard_size, block_size, **options) as writer:
        for i in numbers:
            writer.write(_example(i))


def _meta(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "meta.json").read_text()))


def _expect(root: Path, n: int) -> None:
    expected = [_example(i) for i in range(n)]
    assert_same(list(Reader(root)), expected)
    dataset = apt.ShardDataset(root)
    assert_same([dataset[i] for i in range(len(dataset))], expected)
    assert sum(_meta(root)["shard_sizes"]) == n
    assert [path.name for path in root.parent.iterdir()] == [root.name], "nothing is left behind"


@pytest.mark.parametrize("first", [0, 1, 2, 3])
@pytest.mark.parametrize("then", [None, 0, 1, 2, 3])
def test_append(tmp_path: Path, first: Any, then: Any) -> None:
    root = tmp_path / "set"
    _write(root, range(50), strategy=first)
    _write(root, range(50, 90), mode="a", strategy=then, shard_size=25)
    _write(root, range(90, 95), mode="a")  # too few blocks for a dictionary of their own
    _expect(root, 95)
    assert _meta(root)["shard_sizes"] == [20, 20, 10, 25, 15, 5]
    strategies = [_meta(root / str(i))["compression_strategy"] for i in range(5)]
    asked = first if then is None else then
    assert strategies[:4] == [first] * 3 + [asked] if first != 3 else True
    assert strategies[3] == asked
    has_shared = 2 in (first, then)
    assert (root / "zstd_dict.bin").exists() == has_shared
    assert _meta(root)["compression_strategy"] == (2 if has_shared else first)


def test_root_dictionary_is_kept(tmp_path: Path) -> None:
    """Appended shards use it, however few blocks they have, as those of the original's writer."""
    root = tmp_path / "set"
    _write(root, range(40))
    trained = (root / "zstd_dict.bin").read_bytes()
    inode = (root / "0" / "data.bin").stat().st_ino
    _write(root, range(40, 43), mode="a")
    assert (root / "zstd_dict.bin").read_bytes() == trained
    assert (root / "0" / "data.bin").stat().st_ino == inode, "old data are not copied"
    assert _meta(root / "2")["compression_strategy"] == 2
    _expect(root, 43)


def test_names_keep_their_order(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _write(root, range(8), shard_size=1)
    for first in range(8, 32, 4):
        _write(root, range(first, first + 4), shard_size=1, mode="a")
    names = [shard.name for shard in Reader(root).shards]
    assert names[:12] == [*"0123456789", "90", "91"]
    assert names[18:22] == ["98", "99", "9900", "9901"]
    _expect(root, 32)


def test_creates_or_adds_nothing(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _write(root, range(5), mode="a")
    before = root.stat().st_ino
    _write(root, range(0), mode="a")
    assert root.stat().st_ino == before
    _expect(root, 5)


def _write_something_else(root: Path, mode: Any) -> None:
    with apt.ShardWriter(root, 5, 1, mode=mode) as writer:
        writer.write(1)
        writer.write(object())


def test_exception_leaves_the_old_set(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _write(root, range(30))
    for mode in ("a", "w"):
        with pytest.raises(TypeError, match="got object"):
            _write_something_else(root, mode)
        _expect(root, 30)


def test_replace(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _write(root, range(100, 160))
    (tmp_path / "link").symlink_to(root)
    _write(tmp_path / "link", range(7), mode="w")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "link").unlink()
    _expect(root, 7)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "keep.txt").write_text("x")
    for mode in ("a", "w"):
        with pytest.raises(FileExistsError, match="folder of shards"):
            apt.ShardWriter(tmp_path / "other", 5, 1, mode=mode)
    assert (tmp_path / "other" / "keep.txt").read_text() == "x"


def test_refused_appends(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _write(root, range(50))
    with (
        apt.ShardWriter(root, 5, 1, mode="a") as writer,
        pytest.raises(apt.WriterLockedError, match="another writer"),
    ):
        apt.ShardWriter(root, 5, 1, mode="a")
    del writer
    with pytest.raises(ValueError, match="mode: expected 'x' or 'w' for a URL"):
        apt.ShardWriter("s3://bucket/set", 5, 1, mode="a")
    with pytest.raises(FileExistsError, match="mode='a' appends"):
        apt.ShardWriter(root, 5, 1)
    (root / "1" / "meta.json").unlink()
    with pytest.raises(FileNotFoundError):
        apt.ShardWriter(root, 5, 1, mode="a")
    for path in (root / "1").iterdir():
        path.unlink()
    (root / "1").rmdir()
    with pytest.raises(apt.CorruptFileError, match="shard_sizes: expected 3 shards, got 2"):
        apt.ShardWriter(root, 5, 1, mode="a")
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_other_files_stay(tmp_path: Path) -> None:
    root = tmp_path / "set"
    _write(root, range(10))
    (root / "README").write_text("about")
    (root / "notes").mkdir()
    (root / "notes" / "a.txt").write_text("a")
    (root / "here").symlink_to("README")
    root.chmod(0o750)
    with apt.ShardWriter(root, 5, 1, mode="a") as writer:
        writer.write(_example(10))
    assert (root / "README").read_text() == "about"
    assert (root / "notes" / "a.txt").read_text() == "a"
    assert (root / "here").is_symlink()
    assert root.stat().st_mode & 0o777 == 0o750
    dataset = apt.ShardDataset(root)
    assert_same([dataset[i] for i in range(len(dataset))], [_example(i) for i in range(11)])


def _total(dataset: Any, **options: Any) -> int:
    return sum(int(batch["i"].sum()) for batch in DataLoader(dataset, batch_size=7, **options))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.exhaustive)])
def test_open_readers_go_on(tmp_path: Path, method: str) -> None:
    root = tmp_path / "set"
    _write(root, range(50))
    read, unread = apt.ShardDataset(root), apt.ShardDataset(root)
    pickled = pickle.dumps(apt.ShardDataset(root))
    _total(read)
    _write(root, range(50, 90), mode="a")
    for dataset in (read, unread, pickle.loads(pickled)):
        assert len(dataset) == 50
        expected = sum(range(50))
        assert _total(dataset) == expected
        assert _total(dataset, num_workers=2, multiprocessing_context=method) == expected
        dataset.close()
        assert int(dataset[-1]["i"]) == 49
        with pytest.raises(IndexError):
            dataset[50]
        assert dataset.refresh()
        assert not dataset.refresh()
        assert len(dataset) == 90
        assert _total(dataset) == sum(range(90))
    _write(root, range(50), mode="w")
    with pytest.raises(OSError, match="another dataset"):
        pickle.loads(pickled)[0]


def _append_again_and_again(root: str, told: Any) -> None:
    for first in range(50, 5000, 10):
        _write(Path(root), range(first, first + 10), mode="a", shard_size=4)
        told.send(first + 10)


def test_reads_during_appends(tmp_path: Path) -> None:
    """Whoever opens the folder in the meantime finds a whole dataset."""
    root = tmp_path / "set"
    _write(root, range(50), shard_size=7)
    context = multiprocessing.get_context("fork")
    heard, told = context.Pipe(duplex=False)
    process = context.Process(target=_append_again_and_again, args=(str(root), told))
    process.start()
    try:
        assert heard.poll(_TIMEOUT)
        ends: set[int] = set()
        reads, end = 0, time.monotonic() + _TIMEOUT
        while (reads < 40 or len(ends) < 2) and time.monotonic() < end:
            dataset = apt.ShardDataset(root, missing_shards="error")
            n = len(dataset)
            assert n % 10 == 0
            ends.add(n)
            assert torch.equal(dataset.batch(range(n))["i"], torch.arange(n))
            reads += 1
        assert len(ends) > 1, "the other process does not continue"
    finally:
        process.kill()
        process.join(_TIMEOUT)
