"""HDF5 files of mace_prepare_data, in both layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from reference.foreign import assert_refused, converted

import atompack_torch as apt

N = 12  # more than ten: by name config_10 comes before config_2


def values(i: int) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    n = 1 + i % 3
    return {
        "atomic_numbers": np.array([8, 1, 1][:n]),
        "positions": rng.normal(size=(n, 3)),
        "cell": np.eye(3) * 2,
        "pbc": (True, True, False),
        "energy": float(i) - 100,
        "forces": rng.normal(size=(n, 3)),
        "stress": np.arange(6.0) + i,
        "virials": np.eye(3) * -8.0 * (i + 1),
        "dipole": "None",
        "charges": rng.normal(size=n),
    }


def new_layout(path: Path) -> None:
    """As mace.data.utils.save_configurations_as_HDF5 of 0.3.16 writes."""
    with h5py.File(path, "w") as file:
        file.attrs["drop_last"] = False
        batch = file.create_group("config_batch_0")
        for i in range(N):
            group = batch.create_group(f"config_{i}")
            all_values = values(i)
            for key in ("atomic_numbers", "positions", "cell", "pbc"):
                group[key] = all_values.pop(key)
            group["weight"], group["config_type"] = 1.0, "Default"
            if i == 3:
                all_values["energy"] = "None"
            for key, value in all_values.items():
                group[f"properties/{key}"] = value
                weight = {3: 0.0, 4: 2.5}.get(i, 1.0)
                group[f"property_weights/{key}"] = 0.0 if (i, key) == (5, "forces") else weight


def old_layout(path: Path) -> None:
    """As 0.3.0 to 0.3.10 wrote: zeros and a weight of 0 for what is not known."""
    with h5py.File(path, "w") as file:
        for b, numbers in enumerate((range(11), range(11, N))):
            batch = file.create_group(f"config_batch_{b}")
            for j, i in enumerate(numbers):
                group = batch.create_group(f"config_{j}")
                all_values = values(i)
                if i == 3:
                    all_values |= {"energy": 0.0, "charges": np.zeros(len(all_values["charges"]))}
                if i == 5:
                    all_values["forces"] *= 0
                for key, value in all_values.items():
                    group[key] = value
                group["weight"], group["config_type"] = 1.0, "Default"
                for key in ("energy", "forces", "stress", "virials"):
                    weight = {3: 0.0, 4: 2.5}.get(i, 1.0)
                    group[f"{key}_weight"] = 0.0 if (i, key) == (5, "forces") else weight


@pytest.mark.parametrize("write", [new_layout, old_layout])
def test_labels_come_over_and_weights_of_0_are_missing(write: Any, tmp_path: Path) -> None:
    source = tmp_path / "train_0.h5"
    write(source)
    dataset, report = converted(source)
    batch = dataset[:]
    assert len(batch) == N
    has_energy = [i != 3 for i in range(N)]
    assert batch.mask("energy").tolist() == has_energy
    assert batch.mask("stress").tolist() == has_energy
    assert batch.mask("charges").tolist() == has_energy
    assert batch.mask("forces").tolist() == [i not in (3, 5) for i in range(N)]
    for i, molecule in enumerate(batch):
        want = values(i)
        assert molecule.positions.tolist() == want["positions"].tolist()
        assert molecule.atomic_numbers.tolist() == want["atomic_numbers"].tolist()
        assert molecule.pbc.tolist() == [True, True, False]
        if i != 3:
            assert molecule.energy.item() == want["energy"]
            assert molecule.charges.tolist() == want["charges"].tolist()
            assert molecule.stress[0].tolist() == [i, i + 5, i + 4]
        if i not in (3, 5):
            assert molecule.forces.tolist() == want["forces"].tolist()
    assert batch["config_type"] == ["Default"] * N
    assert batch["energy_weight"][4].item() == 2.5
    assert batch.mask("energy_weight").tolist() == [i == 4 for i in range(N)]
    lost = {what: n for (what, why), n in report.skipped.items() if "weight is 0" in why}
    assert lost["forces"] == 2
    assert report.warnings == []


def test_virials_become_stress(tmp_path: Path) -> None:
    new_layout(tmp_path / "a.h5")
    keys = {"virials": "stress"}
    _, told = converted(tmp_path / "a.h5", key_map=keys)
    assert any("suggests a virial" in line for line in told.warnings)
    dataset, report = converted(tmp_path / "a.h5", key_map=keys, stress_from="virial")
    stress = dataset[:].stress
    assert np.allclose(stress[2], np.eye(3) * 3.0, rtol=1e-15)  # - -8 * 3 / 2^3
    assert report.warnings == []


def test_graphs_without_an_element_table_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["config_0/positions"] = np.zeros((1, 3))
        file["config_0/node_attrs"] = np.eye(1)
    assert_refused(tmp_path / "a.h5", apt.UnsupportedFormatError, "element table")


def test_damage_is_named(tmp_path: Path) -> None:
    new_layout(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "a") as file:
        del file["config_batch_0/config_7/atomic_numbers"]
    message = r"config_7: expected atomic_numbers.*molecule 7"
    assert_refused(tmp_path / "a.h5", apt.CorruptFileError, message)
    assert len(converted(tmp_path / "a.h5", on_error="skip")[0]) == N - 1
