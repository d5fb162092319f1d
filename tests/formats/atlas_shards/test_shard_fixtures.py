"""Datasets written by torch_atlas_ds itself, with what is expected of each."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from reference.fixture_files import names_of
from reference.shards import Reader, assert_same

import atompack_torch as apt

# Of a form that torch writes and cannot load back; nor is it read here.
_REFUSED = ("torch_v3",)
_ERRORS: dict[str, type[Exception]] = {
    "missing": FileNotFoundError,
    "version": apt.UnsupportedFormatError,
    "format": apt.UnsupportedFormatError,
    "corrupt": apt.CorruptFileError,
    "unsafe": apt.UnsafePickleError,
    "range": IndexError,
}
NAMES = names_of("atlas_shards/expected/*", ".json")


@pytest.fixture
def shards(fixtures: Path) -> Path:
    return fixtures.parent / "atlas_shards"


def expected(shards: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((shards / "expected" / f"{name}.json").read_text()))


def read_all(root: Path) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shard_sizes, which have a test of their own
        dataset = apt.ShardDataset(root)
    return [dataset[i] for i in range(len(dataset))]


@pytest.mark.parametrize("name", NAMES)
def test_every_example(
    shards: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted, root = expected(shards, name), shards / "data" / name
    error = "unsafe" if name in _REFUSED else wanted["error"]
    if error is not None:
        kinds = tuple(_ERRORS[kind] for kind in error.split("|"))
        with pytest.raises(kinds, match=str(root)):
            read_all(root)
    else:
        examples = read_all(root)
        assert len(examples) == wanted["length"]
        assert_same(examples, list(Reader(root)))
    assert list(tmp_path.iterdir()) == [], "a pickle was executed"


@pytest.mark.parametrize("name", ["s2_atoms", "proto5_nested", "torch_tensors", "aliases"])
def test_pickle_on_request(shards: Path, name: str) -> None:
    root = shards / "data" / name
    dataset = apt.ShardDataset(root, allow_pickle=True)
    examples = [dataset[i] for i in range(len(dataset))]
    for got, want in zip(examples, Reader(root), strict=True):
        assert type(got) is type(want)
        assert_same(got, want)


def test_shards_that_are_missing(shards: Path) -> None:
    with pytest.warns(UserWarning, match="shard_sizes: expected"):
        apt.ShardDataset(shards / "data" / "shards_missing")


def test_block_sizes(shards: Path) -> None:
    for name in ("s2_late_short", "shard_size_zero", "empty_s2", "odd_mixed_strategies"):
        root = shards / "data" / name
        dataset = apt.ShardDataset(root)
        want = [
            min(shard.meta["block_size"], len(shard) - first)
            for shard in Reader(root).shards
            for first in range(0, len(shard), shard.meta["block_size"])
        ]
        assert dataset.block_sizes.tolist() == want
        assert dataset.block_sizes.sum() == len(dataset)
