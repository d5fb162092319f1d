"""atompack-torch bench, as a smoke run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch import cli
from atompack_torch.cli._shard_layouts import sample_of


def test_files(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(fixtures / "gen3.atp")
    assert cli.main(["bench", "--quick", "--json", path, path]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["path"] == second["path"] == path
    assert first["molecules_per_s"] > 0
    assert first["mb_per_s"] > 0
    assert cli.main(["bench", "--quick", "--threads", "1", path]) == 0
    assert "molecules/s" in capsys.readouterr().out


def test_shards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "set"
    with apt.ShardWriter(root, 1000, 10) as writer:
        for i in range(3000):
            writer.write({"i": i, "a": np.arange(20) * i})
    assert cli.main(["bench", "--quick", "--json", str(root)]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    layouts = found["layouts"]
    tried = {(row["block_size"], row["strategy"]) for row in layouts}
    assert tried == {(2**k, strategy) for k in range(3, 11) for strategy in range(4)}
    assert {row["level"] for row in layouts} == {None, 1, 3, 9, 19}
    assert all(row["random_per_s"] > 0 and row["sequential_per_s"] > 0 for row in layouts)
    size = {(row["block_size"], row["strategy"]): row["bytes_per_example"] for row in layouts}
    assert size[1024, 1] < size[8, 1] < size[8, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert cli.main(["bench", "--quick", str(root)]) == 0
    assert "bytes/example" in capsys.readouterr().out


@pytest.mark.parametrize(("n", "n_bytes"), [(1, 10), (5000, 10), (10**6, 10**9), (10**7, 10)])
def test_samples(n: int, n_bytes: int) -> None:
    sample = sample_of(n, n_bytes)
    assert sample == sorted(set(sample))
    assert 0 <= sample[0] <= sample[-1] < n
    assert min(n, 2048) <= len(sample) <= 16_384


def test_empty_file(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--quick", str(fixtures / "empty_created.atp")]) == 1
    assert "no molecules" in capsys.readouterr().err


def test_wrong_usage(fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--rounds", "0", str(fixtures / "gen3.atp")]) == 2
    assert "--rounds" in capsys.readouterr().err
