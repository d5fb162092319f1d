"""Annotations of what users call most, as mypy and pyright see them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

COMMON = """
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import atompack_torch as apt
from atompack_torch.datasets.statistics import Statistics
from atompack_torch.formats.atlas_store.columns import ColumnScan
from atompack_torch.reports.building import DatasetReport
from atompack_torch.datasets.batches import BatchDataset

dataset = apt.AtpDataset("data.atp", fields=["energy", "forces"])
for batch in DataLoader(dataset, batch_size=4, shuffle=True, collate_fn=apt.collate_identity):
    print(batch.positions.shape)
positions: Tensor = dataset.batch([0]).positions
energy: Tensor = dataset.batch([0])["energy"].sum()
forces: Tensor = dataset[:3].forces
molecule: apt.Molecule = dataset[0]
for molecule in dataset:
    print(len(molecule))
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


def loss(model: torch.nn.Module, loader: apt.Loader[apt.MoleculeBatch]) -> Tensor:
    total = torch.zeros(())
    for batch in loader:
        energy, forces = model(batch.positions, batch.cell, batch.edge_index)
        total += (energy - batch.energy).square()[batch.mask("energy")].sum()
        total += (forces - batch.forces).square().sum() / len(batch)
    return total


def longest_force(
    dataset: Dataset[apt.Molecule],
    structures: BatchDataset[apt.Molecule, apt.MoleculeBatch],
) -> float:
    lengths = [0.0]
    for i in range(len(structures)):
        forces = structures[i].forces
        if forces is not None:
            lengths.append(forces.norm(dim=1).max().item())
    return max(lengths)


names: list[str | None] = dataset.batch([0]).name
longest_force(dataset, dataset)
loss(torch.nn.Identity(), apt.Loader(dataset, batch_size=4, shuffle=True))
loader: apt.Loader[apt.MoleculeBatch] = apt.Loader(dataset, batch_size=4)
first: apt.MoleculeBatch = next(iter(loader))
label: Tensor = first.energy
loaders: list[apt.Loader[apt.MoleculeBatch]] = [
    apt.Loader(train),
    apt.Loader(apt.open("train.xyz")),
    apt.Loader(apt.MixtureDataset([train, test])),
    apt.Loader(apt.TorchCacheDataset("cache.h5")),
    apt.Loader(apt.ResidentDataset(dataset)),
]
by_torch: DataLoader[apt.Molecule] = DataLoader(dataset, None, sampler=range(3))
whole: apt.MoleculeBatch
for whole in DataLoader(dataset, batch_size=4, collate_fn=apt.collate_identity, num_workers=2):
    label = whole.energy
page: DatasetReport = apt.report(dataset, output="report.html")
opened: Tensor = apt.open("train.xyz").batch([0]).forces
apt.Loader(apt.open(["a.atp", "b.atp"], fields=["energy"]), shuffle=True)
stored: apt.AtlasDataset = apt.open("profiles", arrays=["depth"])
scan: ColumnScan = apt.AtlasStore("profiles").scan("depth")
shares = scan.mask.double().mean()
statistics: Statistics = dataset.statistics(cutoff=5.0)
if statistics.reference_energies is not None:
    oxygen: float = statistics.reference_energies.energies[8]
"""


# Nothing here is ``Any``, which would be accepted everywhere.
TYPES = {
    "dataset.batch([0])": "MoleculeBatch",
    "dataset.batch([0]).positions": "Tensor",
    "dataset.batch([0]).energy": "Tensor",
    "dataset.batch([0]).name": "list[str | None]",
    "dataset[0].forces": "Tensor | None",
    "next(iter(apt.Loader(dataset)))": "MoleculeBatch",
    "apt.Loader(dataset)": "Loader[MoleculeBatch]",
    "dataset.batch([0]).get('energy')": "Tensor | list[Tensor | str | None] | None",
    "apt.ShardDataset('shards').batch([0])": "object",
    "apt.Loader(dataset).state_dict()['epoch']": "object",
}
SEEN_BY_BOTH = ("dataset.batch([0]).energy", "dataset[0].forces", "next(iter(apt.Loader(dataset)))")
SEEN_BY_BOTH += ("apt.Loader(dataset)",)
WRONG_OPTIONS = {
    'apt.AtpDataset("a.atp", missing="some")': 'expected "Literal',
    'apt.AtpDataset("a.atp", cache_features="all")': 'argument "cache_features"',
    'apt.ExtxyzDataset("a.xyz", key_map=3)': 'expected "Mapping[str, str] | None"',
    'apt.ExtxyzDataset(b"data")': 'expected "str | PathLike[str]',
    'apt.TorchCacheDataset("a.h5", force_subset=0.5)': 'expected "ForceSubset | None"',
    "apt.EqualSizeBatchSampler([1], 2, pad=True)": 'argument "pad"',
    'apt.BucketBatchSampler([1], 2, seed="1")': 'expected "int"',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scripts, so that one run of a checker sees all of them."""
    made = tmp_path_factory.mktemp("scripts")
    lines = ["import atompack_torch as apt", "dataset = apt.AtpDataset('a.atp')"]
    wrong = [f"wrong{i}: str = {expression}" for i, expression in enumerate(TYPES)]
    (made / "common.py").write_text(COMMON)
    (made / "wrong_types.py").write_text("\n".join([*lines, *wrong]) + "\n")
    (made / "wrong_options.py").write_text("\n".join([*lines, *WRONG_OPTIONS]) + "\n")
    return made


@pytest.fixture(scope="module")
def by_mypy(folder: Path) -> dict[str, list[str]]:
    """Complaints of mypy by the name of the script."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
    command += ["--config-file", "pyproject.toml", *map(str, sorted(folder.glob("*.py")))]
    done = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
    assert done.stderr == ""
    found: dict[str, list[str]] = {path.name: [] for path in folder.glob("*.py")}
    for line in done.stdout.splitlines():
        if ": error: " in line:
            found[Path(line.partition(":")[0]).name].append(line)
    return found


@pytest.fixture(scope="module")
def by_pyright(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The same of pyright, as basedpyright packs it."""
    options = {"typeCheckingMode": "standard", "extraPaths": [str(REPOSITORY)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(options))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(folder)]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    told = json.loads(done.stdout)
    assert told["summary"]["filesAnalyzed"] == 3, done.stdout
    found: dict[str, list[dict[str, Any]]] = {path.name: [] for path in folder.glob("*.py")}
    for complaint in told["generalDiagnostics"]:
        found[Path(complaint["file"]).name].append(complaint)
    return found


def test_common_code_needs_no_casts(
    by_mypy: dict[str, list[str]], by_pyright: dict[str, list[dict[str, Any]]]
) -> None:
    assert by_mypy["common.py"] == []
    assert [complaint["message"] for complaint in by_pyright["common.py"]] == []


def test_wrong_types_are_found(
    by_mypy: dict[str, list[str]], by_pyright: dict[str, list[dict[str, Any]]]
) -> None:
    for error, kind in zip(by_mypy["wrong_types.py"], TYPES.values(), strict=True):
        assert f'(expression has type "{kind}", variable has type "str")' in error
    messages = {c["range"]["start"]["line"] - 2: c["message"] for c in by_pyright["wrong_types.py"]}
    for number, (expression, kind) in enumerate(TYPES.items()):
        if expression in SEEN_BY_BOTH:
            assert f'"{kind}"' in messages[number]


def test_wrong_options_are_found(by_mypy: dict[str, list[str]]) -> None:
    for error, words in zip(by_mypy["wrong_options.py"], WRONG_OPTIONS.values(), strict=True):
        assert words in error
