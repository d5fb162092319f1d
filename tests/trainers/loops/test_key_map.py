"""Labels under names of their own, in data of every kind."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from structures import KEY_MAP, misnamed_as

import atompack_torch as apt
from atompack_torch.trainers._layout import open_dataset
from atompack_torch.trainers.lightning import DataModule

KINDS = {
    ".xyz": lambda path: path,
    ".atp": lambda path: path,
    "xyz dataset": apt.open,
    "atp dataset": apt.open,
    "atp subset": lambda path: apt.open(path).subset([0, 1, 2, 3]),
    "atp mixture": lambda path: apt.MixtureDataset([apt.open(path)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data(tmp_path: Path, kind: str) -> None:
    path, energies = misnamed_as(".atp" if "atp" in kind else ".xyz", tmp_path)
    module = DataModule(KINDS[kind](path), batch_size=4, shuffle=False, key_map=KEY_MAP)
    module.setup("fit")
    (batch,) = module.train_dataloader()
    np.testing.assert_allclose(batch.energy, energies)
    assert batch.level("forces") == "atom"
    assert "dft_energy" not in batch


def test_parts_of_a_mixture_may_have_names_of_their_own(tmp_path: Path) -> None:
    path, energies = misnamed_as(".atp", tmp_path)
    maps = {"dft_energy": "energy"}, {"energy_per_atom": "energy"}
    mixture = apt.MixtureDataset([open_dataset(path, key_map) for key_map in maps])
    batch = mixture.batch(range(8))
    expected = np.where(batch.source == 0, energies[batch.index], -4.0)
    np.testing.assert_allclose(batch.energy, expected)


@pytest.mark.parametrize("suffix", [".xyz", ".atp"])
def test_options_use_the_names_here(tmp_path: Path, suffix: str) -> None:
    path, energies = misnamed_as(suffix, tmp_path)
    options: dict[str, Any] = {"fields": ["energy", "forces"], "dtype": {"energy": torch.float32}}
    dataset = pickle.loads(pickle.dumps(open_dataset(path, KEY_MAP, **options)))
    batch = apt.ResidentDataset(dataset).batch(range(4))
    np.testing.assert_allclose(batch.energy, energies.astype(np.float32))
    assert {"forces", "energy"} <= set(batch.keys())
    assert "energy_per_atom" not in batch
    assert dataset.statistics().coverage["energy"] == 4


def test_a_label_that_gives_its_name_away_stays(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        for n in (1.0, 2.0):
            given = {"ccsd_energy": 10 * n, "name": "x", "six": np.zeros(6), "number": 3}
            writer.write(apt.Molecule(np.zeros((1, 3)), [1], energy=n, properties=given))
    dataset = apt.open(tmp_path / "a.atp")
    batch = open_dataset(dataset, {"ccsd_energy": "energy"}).batch([0, 1])
    assert batch.energy.tolist() == [10, 20]
    assert batch["properties/energy"].tolist() == [1, 2]
    swapped = open_dataset(dataset, {"ccsd_energy": "energy", "energy": "other"})
    assert swapped.batch([1])["other"].tolist() == [2]
    twice = open_dataset(swapped, {"other": "energy"}).batch([1])
    assert (twice.energy.tolist(), twice["properties/energy"].tolist()) == ([2], [20])
    assert dataset.batch([1]).energy.tolist() == [2]


@pytest.mark.parametrize("is_mixture", [False, True])
def test_options_of_open_data_use_their_names(tmp_path: Path, is_mixture: bool) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        given: dict[str, Any] = {"ccsd_energy": 10.0, "moment": torch.ones(3)}
        writer.write(apt.Molecule(np.zeros((1, 3)), [1], energy=1.0, properties=given))

    def opened(**options: Any) -> Any:
        dataset = apt.open(tmp_path / "a.atp", **options)
        dataset = apt.MixtureDataset([dataset]) if is_mixture else dataset
        return open_dataset(dataset, {"ccsd_energy": "energy", "moment": "dipole"}).batch([0])

    batch = opened(exclude=["energy"])
    assert batch.energy.tolist() == [10]
    assert "properties/energy" not in batch
    batch = opened(dtype={"energy": torch.float32})
    assert (batch.energy.dtype, batch["properties/energy"].dtype) == (torch.float64, torch.float32)
    augment = apt.Augment(rotate="proper", vectors=("moment",))
    assert not torch.allclose(opened(augment=augment).dipole, torch.ones(3))


@pytest.mark.parametrize("name", ["moment", "dipole"])
def test_vectors_to_turn_have_either_name(tmp_path: Path, name: str) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        given = {"moment": torch.ones(3)}
        writer.write(apt.Molecule(np.zeros((1, 3)), [1], energy=1.0, properties=given))
    augment = apt.Augment(rotate="proper", vectors=(name,))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = open_dataset(tmp_path / "a.atp", {"moment": "dipole"}, augment=augment)
        assert not torch.allclose(dataset.batch([0]).dipole, torch.ones(3))


@pytest.mark.parametrize(
    ("key_map", "error", "message"),
    [
        ({"dft_energ": "energy"}, apt.FieldError, "a.atp: key_map: .*did you mean 'dft_energy'?"),
        ({"dft_energy": "stress"}, apt.FieldError, r"expected .* shape \(3, 3\) for 'stress', got"),
        ({"dft_energy": "forces"}, apt.FieldError, "numbers of each atom .* of each molecule"),
        ({"dft_energy": "energy_per_atom"}, apt.FieldError, "two fields would be 'energy_per_atom"),
        ({"dft_energy": "cell"}, ValueError, "expected a label or a property, got 'cell'"),
        (dict.fromkeys(KEY_MAP, "energy"), ValueError, "each name once, got one twice"),
    ],
)
def test_names_that_do_not_suit(
    tmp_path: Path, key_map: dict[str, str], error: type[Exception], message: str
) -> None:
    path, _ = misnamed_as(".atp", tmp_path)
    with pytest.raises(error, match=message):
        open_dataset(path, key_map).batch([0])
    in_memory = apt.ResidentDataset(apt.open(path))
    with pytest.raises(TypeError, match="key_map: expected a dataset in files"):
        open_dataset(in_memory, KEY_MAP)
