"""A pickled dataset of shards does not read another that took its place."""

from __future__ import annotations

import errno
import pickle
import shutil
from pathlib import Path

import pytest

import atompack_torch as apt


def write(root: Path, first: int, n: int) -> None:
    """Examples of one number each."""
    with apt.ShardWriter(root, 4, 2) as writer:
        for i in range(first, first + n):
            writer.write({"i": i})


def test_a_pickle_of_a_data_set_that_was_replaced(tmp_path: Path) -> None:
    root = tmp_path / "shards"
    write(root, 0, 8)
    dataset = apt.ShardDataset(root)
    pickled = pickle.dumps(dataset)
    assert pickle.loads(pickled)[5]["i"] == 5
    shutil.rmtree(root)
    write(root, 100, 8)
    with pytest.raises(OSError, match="another dataset is here") as caught:
        pickle.loads(pickled)[5]
    assert caught.value.errno == errno.ESTALE
    assert apt.ShardDataset(root)[5]["i"] == 105
