"""Labels that a loss wants and no molecule has, before any trainer is asked."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from structures import structures, write_atp, write_misnamed

import atompack_torch as apt
from atompack_torch.trainers._labels import count_labels, require_labels, with_labels
from atompack_torch.trainers.lightning import DataModule

ENERGY, BOTH = [["energy"]], [["energy"], ["forces"]]


@pytest.fixture
def misnamed(tmp_path: Path) -> Path:
    return write_misnamed(tmp_path / "a.xyz")


@pytest.mark.parametrize(
    ("wanted", "options", "message"),
    [
        (BOTH, {}, r"a.xyz: no molecule has 'energy', 'forces'; the file has 'dft_forces', "),
        (BOTH, {}, r"give key_map=\{'dft_energy': 'energy', 'dft_forces': 'forces'\}$"),
        ([["energy", "stress"]], {}, r"has 'energy' or 'stress'; .*\{'dft_energy': 'energy'\}$"),
        ([["stress"]], {}, r"has 'stress'; the file has 'dft_forces', [^:]*$"),
        (
            [["dft_energy"]],
            {"exclude": ["dft_energy"]},
            "dataset drop 'dft_energy'",
        ),
    ],
)
def test_no_molecule_has_the_label(
    misnamed: Path, wanted: Any, options: dict[str, Any], message: str
) -> None:
    dataset = apt.open(misnamed, **options)
    with pytest.raises(apt.FieldError, match=message):
        require_labels(dataset, wanted)
    with pytest.warns(UserWarning, match=message):  # predictions need none
        require_labels(dataset, wanted, trains=False)
    require_labels(dataset.subset([]), wanted)


def test_labels_that_are_declared_but_never_there(tmp_path: Path) -> None:
    """Masks and NaN count, as far into the data as it takes."""
    made = structures(300)
    for atoms in made[:-1]:
        atoms.calc.results.pop("forces")
    for atoms in made[:5]:
        atoms.calc.results["energy"] = np.nan
    dataset = apt.open(write_atp(tmp_path / "a.atp", made))
    require_labels(dataset, BOTH)
    assert count_labels(dataset, ["energy", "forces", "velocities"]) == {
        **{"energy": 295, "forces": 1, "velocities": 0}
    }
    with pytest.raises(apt.FieldError, match="no molecule has 'forces'; the file has 'energy'"):
        require_labels(dataset.subset(range(299)), BOTH)
    with pytest.raises(apt.FieldError, match="no molecule has 'energy'; the file has 'forces'"):
        with_labels(dataset.subset(range(5)), ["energy"])


def test_a_transform_may_make_the_label(misnamed: Path) -> None:
    def named(batch: apt.MoleculeBatch) -> apt.MoleculeBatch:
        return batch.set_field("energy", batch["dft_energy"], level="molecule") or batch

    require_labels(apt.open(misnamed, transform=named), ENERGY)
    require_labels(apt.open(misnamed, transform=lambda batch: batch.positions), BOTH)


@pytest.mark.parametrize("name", ["train", "val"])
def test_the_data_module(tmp_path: Path, name: str) -> None:
    """Fields that are named are wanted; predictions need none."""
    good = structures(6)
    for atoms in (bad := structures(6)):
        atoms.calc.results.pop("forces")
    path = write_atp(tmp_path / "a.atp", [*bad, *good])
    whole = apt.AtpDataset(path, fields=["energy", "forces"])
    parts = {"train": whole, "val": whole, "predict": whole.subset(range(6))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = DataModule(**parts, batch_size=2)
        module.setup("fit")
        module.setup("predict")
    with pytest.raises(apt.FieldError, match="no molecule has 'forces'"):
        DataModule(**parts | {name: whole.subset(range(6))}, batch_size=2).setup("fit")


@pytest.mark.parametrize("kind", [list, dict])
def test_several_sets(tmp_path: Path, kind: type) -> None:
    """Each entry is a set of its own; one that is a list itself is a set of several files."""
    paths = [write_atp(tmp_path / f"{n}.atp", structures(n)) for n in (2, 3, 4)]
    sets = [paths[0], paths[1:]]
    given = dict(zip("ab", sets, strict=True)) if kind is dict else sets
    module = DataModule(paths, val=given, test=given, predict=given, batch_size=8)
    for stage in ("fit", "test", "predict"):
        module.setup(stage)
    assert sum(map(len, module.train_dataloader())) == 9
    for loaders in (module.val_dataloader(), module.test_dataloader(), module.predict_dataloader()):
        assert type(loaders) is kind
        values = loaders.values() if isinstance(loaders, dict) else loaders
        assert [torch.cat([b.index for b in loader]).tolist() for loader in values] == [
            list(range(2)),
            list(range(7)),
        ]
