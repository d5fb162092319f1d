"""Shards that are written again: with other blocks, compression and order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from reference.shards import Reader, assert_same

import atompack_torch as apt
from atompack_torch import cli


def _examples(n: int) -> list[Any]:
    return [
        {
            "i": i,
            "array": np.arange(60).reshape(3, 20) * i,
            "tensor": torch.arange(3.0) * i,
            "deep": [(i, None, b"x"), {"key": np.float32(i), 3: "ä"}],
            "objects": np.array([1, "a", None], dtype=object),
            "records": np.array([(i, 2.5)], dtype=[("a", "<i2"), ("b", "<f8")]),
        }
        for i in range(n)
    ]


def _write(root: Path, examples: list[Any], strategy: Any = 2) -> Path:
    with apt.ShardWriter(root, 40, 4, strategy) as writer:
        for example in examples:
            writer.write(example)
    return root


@pytest.mark.parametrize("strategy", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("block_size", [None, 1, 7])
def test_values_are_kept(tmp_path: Path, strategy: Any, block_size: Any) -> None:
    examples = _examples(90)
    source, target = _write(tmp_path / "set", examples), tmp_path / "new"
    level = 3 if strategy == 0 else 5  # others would have no effect there
    apt.compact(source, target, shards=(30, block_size, strategy), level=level)
    assert_same(list(Reader(target)), examples)
    metas = [shard.meta for shard in Reader(target).shards]
    assert {meta["block_size"] for meta in metas} == {block_size or 4}
    assert {meta["compression_level"] for meta in metas} == {level}
    assert [meta["stored_examples"] for meta in metas] == [30, 30, 30]
    used = {meta["compression_strategy"] for meta in metas}
    assert used <= {2 if strategy is None else strategy, 1}


def test_order_and_several_sources(tmp_path: Path) -> None:
    examples = _examples(70)
    sources = [_write(tmp_path / "a", examples[:45], 0), _write(tmp_path / "b", examples[45:], 3)]
    order = torch.randperm(70, generator=torch.Generator().manual_seed(0))[:50]
    calls: list[int] = []
    apt.compact(sources, tmp_path / "new", order=order, progress=calls.append)
    assert_same(list(Reader(tmp_path / "new")), [examples[i] for i in order.tolist()])
    assert sum(calls) == 50
    with pytest.raises(IndexError):
        apt.compact(sources, tmp_path / "other", order=[70])
    assert not (tmp_path / "other").exists()


def test_in_place(tmp_path: Path) -> None:
    examples = _examples(30)
    root = _write(tmp_path / "set", examples)
    apt.compact(root, root, "none")
    assert json.loads((root / "meta.json").read_text())["compression_strategy"] == 0
    assert_same(list(Reader(root)), examples)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_refusals(tmp_path: Path, fixtures: Path) -> None:
    root = _write(tmp_path / "set", _examples(50))
    (tmp_path / "there").mkdir()
    with pytest.raises(FileExistsError):
        apt.compact(root, tmp_path / "there")
    with pytest.raises(ValueError, match="codec"):
        apt.compact(root, tmp_path / "new", "lz4")
    with pytest.raises(ValueError, match="shards: expected none"):
        apt.compact(fixtures / "gen3.atp", tmp_path / "new.atp", shards=(1, 1, 1))
    with apt.ShardWriter(tmp_path / "pickled", 5, 1, allow_pickle=True) as writer:
        writer.write({1, 2})
    with pytest.raises(apt.UnsafePickleError):
        apt.compact(tmp_path / "pickled", tmp_path / "new")
    block = root / "0" / "data.bin"
    block.write_bytes(block.read_bytes()[:-9])
    with pytest.raises(apt.CorruptFileError):
        apt.compact(root, tmp_path / "new")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"set", "there", "pickled"}


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    examples = _examples(30)
    source, target = str(_write(tmp_path / "set", examples)), str(tmp_path / "new")
    command = ["compact", "--json", "--block-size", "3", "--strategy", "1", "--shuffle", "5"]
    assert cli.main([*command, source, target]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["n_examples"] == 30
    order = np.random.default_rng(5).permutation(30)
    assert_same(list(Reader(Path(target))), [examples[i] for i in order])
