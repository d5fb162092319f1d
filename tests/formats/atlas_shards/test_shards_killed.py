"""A writer of shards that is killed: the data set is there as a whole, or not at all."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.shards import Reader

import atompack_torch as apt

_N = 400
_TIMEOUT = 200  # seconds


def _write(root: Path, strategy: Any, progress: Any) -> None:
    progress.send("begin")
    with apt.ShardWriter(root, 60, 4, strategy=strategy) as writer:
        for i in range(_N):
            writer.write({"i": i, "a": np.arange(1000) * i})
            if i % 100 == 99:
                progress.send(i)
        progress.send("close")
    progress.send("end")


def _write_again(root: Path) -> None:
    with apt.ShardWriter(root, 2, 1) as writer:
        for i in range(3):
            writer.write(i)


class _Killed:
    """A process that writes, and is killed."""

    def __init__(self, root: Path, strategy: int) -> None:
        context = multiprocessing.get_context("fork")
        self._heard, told = context.Pipe(duplex=False)
        self._process = context.Process(target=_write, args=(root, strategy, told))
        self._process.start()
        told.close()

    def wait_for(self, what: Any) -> None:
        """Until it says so."""
        while True:
            assert self._heard.poll(_TIMEOUT)
            if self._heard.recv() == what:
                return

    def kill(self) -> None:
        """With no chance to clean up."""
        self._process.kill()
        self._process.join(_TIMEOUT)
        assert self._process.exitcode in (-9, 0)


def _expect_all_or_nothing(root: Path) -> bool:
    """Whether it is there; then all of it is."""
    if not root.exists():
        assert [path.name for path in root.parent.iterdir()] in ([], [f".{root.name}.new"])
        return False
    examples = list(Reader(root))
    assert [example["i"] for example in examples] == list(range(_N))
    assert all((example["a"] == np.arange(1000) * example["i"]).all() for example in examples)
    return True


@pytest.mark.parametrize("strategy", [0, 1, 2, 3])
@pytest.mark.parametrize("moment", ["begin", 99, 299])
def test_killed_while_writing(tmp_path: Path, strategy: int, moment: Any) -> None:
    root = tmp_path / "set"
    writing = _Killed(root, strategy)
    writing.wait_for(moment)
    writing.kill()
    if not _expect_all_or_nothing(root):
        _write_again(root)
        assert list(Reader(root)) == [0, 1, 2]
        assert [path.name for path in tmp_path.iterdir()] == ["set"], "nothing is left behind"


def test_killed_while_closing(tmp_path: Path) -> None:
    """At moments from the last example to the time at which the data set must be there."""
    whole = _Killed(tmp_path / "whole", 2)
    whole.wait_for("close")
    start = time.monotonic()
    whole.wait_for("end")
    took = time.monotonic() - start
    assert _expect_all_or_nothing(tmp_path / "whole")
    for i in range(12):
        folder = tmp_path / str(i)
        folder.mkdir()
        writing = _Killed(folder / "set", 2)
        writing.wait_for("close")
        time.sleep(took * i / 8)
        writing.kill()
        _expect_all_or_nothing(folder / "set")
