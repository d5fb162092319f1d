"""Annotations of what users call most, as mypy sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

COMMON = """
import torch
from torch import Tensor
from torch.utils.data import DataLoader

import atompack_torch as apt

dataset = apt.AtpDataset("data.atp", fields=["energy", "forces"])
for batch in DataLoader(dataset, batch_size=4, shuffle=True, collate_fn=apt.collate_identity):
    print(batch.positions.shape)
positions: Tensor = dataset.batch([0]).positions
energy: Tensor = dataset.batch([0])["energy"].sum()
forces: Tensor = dataset[:3].forces
molecule: apt.Molecule = dataset[0]
train, test = dataset.split([0.5, 0.5], seed=0)
budget = apt.AtomBudgetBatchSampler(train, max_atoms=512)
for made in apt.Loader(train, batch_sampler=budget):
    moved: apt.MoleculeBatch = made.to(torch.float32)
    made.set_field("set", ["a", "b"], "molecule")
    made.weight = torch.ones(len(made))
mixed: Tensor = apt.MixtureDataset([train, test]).batch([0]).source
features: Tensor = apt.TorchCacheDataset("cache.h5").batch([0]).features
joined: apt.MoleculeBatch = apt.collate_identity([dataset.batch([0])])
profiles = apt.AtlasDataset("profiles", ["depth"])
for columns in apt.Loader(profiles):
    depth = columns["depth"]
    assert isinstance(depth, Tensor)
    depth.sum()
example = apt.ShardDataset("shards")[0]
assert isinstance(example, dict)
state: dict[str, object] = apt.Loader(dataset).state_dict()
apt.Loader(dataset).load_state_dict(state)
"""


def check(tmp_path: Path, code: str) -> str:
    """Returns the output of mypy; empty if it finds nothing."""
    script = tmp_path / "script.py"
    script.write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--config-file", "pyproject.toml", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    return done.stdout + done.stderr


def test_common_code_needs_no_casts(tmp_path: Path) -> None:
    assert check(tmp_path, COMMON) == ""


def test_wrong_code_is_found(tmp_path: Path) -> None:
    """Nothing here is ``Any``, which would be accepted everywhere."""
    wrong = {
        "dataset.batch([0])": "MoleculeBatch",
        "dataset.batch([0]).positions": "Tensor",
        "next(iter(apt.Loader(dataset)))": "MoleculeBatch",
        "dataset.batch([0]).get('energy')": "Tensor | list[Tensor | str | None] | None",
        "apt.ShardDataset('shards').batch([0])": "object",
        "apt.Loader(dataset).state_dict()['epoch']": "object",
    }
    lines = ["import atompack_torch as apt", "dataset = apt.AtpDataset('a.atp')"]
    lines += [f"wrong{i}: str = {expression}" for i, expression in enumerate(wrong)]
    output = check(tmp_path, "\n".join(lines) + "\n")
    errors = [line for line in output.splitlines() if ": error: " in line]
    assert len(errors) == len(wrong)
    for error, kind in zip(errors, wrong.values(), strict=True):
        assert f'(expression has type "{kind}", variable has type "str")' in error
