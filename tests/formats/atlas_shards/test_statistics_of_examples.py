"""Statistics of Atlas shards, next to NumPy's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt
from atompack_torch import cli


def test_examples_of_any_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    examples: list[dict[str, Any]] = []
    for i in range(2500):
        example: dict[str, Any] = {
            "i": i,
            "image": rng.integers(0, 255, (4, 4), dtype=np.uint8),
            "pair": [1e6 + rng.normal(size=3), torch.full((2,), float(i), dtype=torch.bfloat16)],
            "name": "x" * (i % 3),
        }
        if i % 5 == 0:
            example["rare"] = float("nan") if i % 2 else -1.5
        examples.append(example)
    root = tmp_path / "set"
    with apt.ShardWriter(root, 600, 7) as writer:
        for example in examples:
            writer.write(example)
    found: Any = apt.statistics(root)
    assert found.n_examples == 2500
    assert list(found.values) == ["i", "image", "pair.0", "pair.1", "name", "rare"]
    expected = {
        "i": np.arange(2500.0),
        "image": np.concatenate([e["image"].reshape(-1) for e in examples]).astype(float),
        "pair.0": np.concatenate([e["pair"][0] for e in examples]),
        "pair.1": torch.cat([e["pair"][1] for e in examples]).double().numpy(),
        "rare": np.full(250, -1.5),
    }
    for name, values in expected.items():
        spread = found.values[name].spread
        assert spread.count == len(values)
        assert (spread.min, spread.max) == (values.min(), values.max())
        assert spread.mean == pytest.approx(values.mean(), rel=1e-13)
        assert spread.std == pytest.approx(values.std(), rel=1e-6, abs=1e-9)
    assert found.values["rare"].spread.n_non_finite == 250
    assert found.values["rare"].count == 500
    assert found.values["name"].spread is None
    assert found.values["image"].kinds == {"uint8 (4, 4)": 2500}
    assert found.values["pair.1"].kinds == {"bfloat16 (2,)": 2500}
    assert found.values["name"].kinds == {"str": 2500}
    assert cli.main(["stats", "--json", str(root)]) == 0
    assert json.loads(capsys.readouterr().out) == found.as_dict()
    assert cli.main(["stats", str(root)]) == 0
    assert "2,500 examples" in capsys.readouterr().out
    with pytest.raises(TypeError, match="have no options: cutoff"):
        apt.statistics(root, cutoff=5.0)


def test_no_examples(tmp_path: Path) -> None:
    with apt.ShardWriter(tmp_path / "set", 5, 1):
        pass
    found: Any = apt.statistics(tmp_path / "set")
    assert (found.n_examples, found.values) == (0, {})
