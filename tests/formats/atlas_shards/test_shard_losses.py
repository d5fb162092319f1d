"""Datasets of shards of which files are lost, and examples that only Python's pickle can write."""

from __future__ import annotations

import fractions
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.shards import Reader, assert_same
from torch.utils.data import DataLoader

import atompack_torch as apt


def _write(root: Path, numbers: range, strategy: Any = 2, **options: Any) -> Path:
    with apt.ShardWriter(root, 20, 3, strategy, **options) as writer:
        for i in numbers:
            writer.write({"i": i, "a": np.arange(3) * i})
    return root


_LOSSES = ("folder", "meta.json", "index.npy", "data.bin")


def _lose(root: Path, name: str, what: str) -> None:
    shutil.rmtree(root / name) if what == "folder" else (root / name / what).unlink()


@pytest.mark.parametrize("what", _LOSSES)
@pytest.mark.parametrize("names", [["0"], ["1"], ["3"], ["0", "2", "3"]])
def test_kept_numbers(tmp_path: Path, what: str, names: list[str]) -> None:
    root = _write(tmp_path / "set", range(70))
    for name in names:
        _lose(root, name, what)
    lost = [i for i in range(70) if str(i // 20) in names]
    with pytest.raises(FileNotFoundError):
        apt.ShardDataset(root, missing_shards="error")
    dataset = apt.ShardDataset(root, missing_shards="keep")
    assert len(dataset) == 70
    assert dataset.is_present.tolist() == [i not in lost for i in range(70)]
    for i in range(70):
        if i not in lost:
            assert_same(dataset[i], {"i": i, "a": torch.arange(3) * i})
            continue
        first = i // 20 * 20
        match = f"the shard of examples {first} to {min(first + 19, 69)} is lost"
        with pytest.raises(FileNotFoundError, match=match) as caught:
            dataset[i]
        assert caught.value.filename == str(root / str(i // 20))
        with pytest.raises(FileNotFoundError, match=match):
            dataset.batch([i])
    assert int(dataset.block_sizes.sum()) == 70
    present = dataset.subset(dataset.is_present)
    sampler = apt.BlockShuffleSampler(present, block=None, window=4)
    expected = [i for i in range(70) if i not in lost]
    numbers = [i for batch in DataLoader(present, 8, sampler=sampler) for i in batch["i"].tolist()]
    assert sorted(numbers) == expected
    assert bool(present.is_present.all())


def test_lost_dictionary(tmp_path: Path) -> None:
    root = _write(tmp_path / "set", range(60), strategy=3)
    (root / "1" / "zstd_dict.bin").unlink()
    with pytest.raises(FileNotFoundError, match="file of a shard is missing"):
        apt.ShardDataset(root, missing_shards="error")
    dataset = apt.ShardDataset(root, missing_shards="keep")
    assert dataset.is_present.tolist() == [not 20 <= i < 40 for i in range(60)]


def test_lost_appended_shards(tmp_path: Path) -> None:
    root = tmp_path / "set"
    for first in range(0, 26, 2):
        with apt.ShardWriter(root, 1, 1, mode="a") as writer:
            writer.write({"i": first})
            writer.write({"i": first + 1})
    for name in ("3", "9", "99"):
        _lose(root, name, "folder")
    dataset = apt.ShardDataset(root, missing_shards="keep")
    assert (~dataset.is_present).nonzero().flatten().tolist() == [3, 9, 19]
    assert int(dataset[20]["i"]) == 20


@pytest.mark.parametrize("what", ["folder", "index.npy"])
def test_sizes_that_no_file_justifies(tmp_path: Path, what: str) -> None:
    """Nothing but its claimed size is left of a lost shard."""
    root = _write(tmp_path / "set", range(70))
    _lose(root, "1", what)
    meta = json.loads((root / "meta.json").read_text())
    for claimed, is_refused in ((1 << 28, False), ((1 << 28) + 1, True), (1 << 50, True)):
        meta["shard_sizes"][1] = claimed
        (root / "meta.json").write_text(json.dumps(meta))
        if what != "folder":
            inner = json.loads((root / "1" / "meta.json").read_text())
            inner["stored_examples"] = claimed
            (root / "1" / "meta.json").write_text(json.dumps(inner))
        if not is_refused:
            assert len(apt.ShardDataset(root, missing_shards="keep")) == 50 + claimed
            continue
        match = f"at most {1 << 28} examples in lost shards, got {claimed} next to 50 others"
        with pytest.raises(apt.CorruptFileError, match=match):
            apt.ShardDataset(root, missing_shards="keep")


def test_whole_sets_and_refusals(tmp_path: Path) -> None:
    root = _write(tmp_path / "set", range(70))
    for missing in ("renumber", "error", "keep"):
        dataset = apt.ShardDataset(root, missing_shards=missing)  # type: ignore[arg-type]
        assert len(dataset) == 70
        assert bool(dataset.is_present.all())
    with pytest.raises(ValueError, match="missing_shards: expected one of"):
        apt.ShardDataset(root, missing_shards="skip")  # type: ignore[arg-type]
    (root / "2").rename(root / "x")
    shutil.rmtree(root / "0")
    with pytest.raises(apt.CorruptFileError, match="names that writers give"):
        apt.ShardDataset(root, missing_shards="keep")
    with pytest.warns(UserWarning, match="shard_sizes"):
        assert len(apt.ShardDataset(root)) == 50


def test_any_picklable_example(tmp_path: Path) -> None:
    root = tmp_path / "set"
    examples: list[Any] = [
        {"plain": np.arange(4), "number": 1},
        {1, 2, 3},
        fractions.Fraction(1, 3),
        {"set": frozenset([1]), "tensor": torch.arange(3.0), "array": np.arange(3)},
        complex(1, 2),
        "plain",
        [Path("a"), None, range(3)],
    ]
    with apt.ShardWriter(root, 10, 3, allow_pickle=True) as writer:
        for example in examples:
            writer.write(example)
        with pytest.raises(TypeError, match="example: cannot be pickled"):
            writer.write(lambda: None)
        with pytest.raises(TypeError, match="example: cannot be pickled"):
            writer.write(i for i in range(3))
        assert len(writer) == len(examples)
    dataset = apt.ShardDataset(root, allow_pickle=True)
    for got in ([dataset[i] for i in range(len(dataset))], list(Reader(root))):
        assert_same(got[0], examples[0])
        assert_same(got[3].pop("tensor"), torch.arange(3.0))
        assert_same(got[3].pop("array"), np.arange(3))
        assert got[3] == {"set": frozenset([1])}
        assert got[1:3] == examples[1:3]
        assert got[4:] == examples[4:]
    with pytest.raises(apt.UnsafePickleError, match=r"pickle\.loads"):
        apt.ShardDataset(root)[0]
    with (
        apt.ShardWriter(tmp_path / "strict", 10, 3) as writer,
        pytest.raises(TypeError, match="got set"),
    ):
        writer.write({1, 2})
