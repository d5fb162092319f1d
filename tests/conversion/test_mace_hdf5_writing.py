"""MACE's HDF5 as a target, read as MACE 0.3.16 does and by our own converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase
import h5py
import numpy as np
import pytest
import torch
from reference.compare import assert_same_batch
from reference.foreign import written_as

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import convert


def unpack(value: Any) -> Any:
    """As ``unpack_value`` of mace.data.hdf5_dataset."""
    value = value.decode("utf-8") if isinstance(value, bytes) else value
    return None if str(value) == "None" else value


def configurations(path: Path) -> list[dict[str, Any]]:
    """All configurations of a file, as ``HDF5Dataset.__getitem__`` of MACE makes them."""
    found = []
    with h5py.File(path, "r") as file:
        batch_size = len(file[next(iter(file.keys()))].keys())
        for index in range(len(file.keys()) * batch_size):
            group = file[f"config_batch_{index // batch_size}"][f"config_{index % batch_size}"]
            scopes = {
                scope: {key: unpack(group[scope][key][()]) for key in group[scope]}
                for scope in ("properties", "property_weights")
            }
            names = ("weight", "config_type", "pbc", "cell")
            values = {name: unpack(group[name][()]) for name in names}
            numbers, positions = group["atomic_numbers"][()], group["positions"][()]
            found.append({**scopes, **values, "atomic_numbers": numbers, "positions": positions})
    return found


def assert_same(folder: Path) -> None:
    """Compares ``3.atp`` with ``0.atp`` bit for bit; positions and cells are float64 in HDF5."""
    given = apt.AtpDataset(
        folder / "0.atp", dtype=dict.fromkeys(("positions", "cell"), torch.float64)
    )
    assert_same_batch(apt.AtpDataset(folder / "3.atp")[:], given[:])


def test_as_mace_reads_it(images: list[ase.Atoms], tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "0.atp") as writer:
        writer.write(images)
    report = convert(tmp_path / "0.atp", tmp_path / "2.h5", target="mace-hdf5", progress=False)
    assert not report.skipped
    convert(tmp_path / "2.h5", tmp_path / "3.atp", progress=False)
    assert_same(tmp_path)
    with h5py.File(tmp_path / "2.h5") as file:
        assert not file.attrs["drop_last"]
    found = configurations(tmp_path / "2.h5")
    assert len(found) == len(images)
    weighted = {"energy", "forces", "stress", "virials", "dipole", "charges", "polarizability"}
    for config, image in zip(found, images, strict=True):
        assert np.array_equal(config["positions"], image.positions)
        assert config["atomic_numbers"].tolist() == image.numbers.tolist()
        assert config["pbc"].tolist() == image.pbc.tolist()
        assert all(isinstance(value, np.bool_) for value in config["pbc"])
        assert (config["weight"], config["config_type"]) == (1.0, "Default")
        results = {} if image.calc is None else dict(image.calc.results)
        if "stress" in results:
            results["stress"] = image.get_stress(voigt=False)
            assert np.array_equal(config["cell"], image.cell.array)
        assert set(config["properties"]) == set(config["property_weights"]) == weighted
        for key in weighted:
            assert config["property_weights"][key] == float(key in results)
            if key in results:
                assert np.array_equal(config["properties"][key], results[key]), key
            else:
                assert config["properties"][key] is None


def test_odd_values_survive(tmp_path: Path) -> None:
    labels = {
        "energy": 1.5,
        "forces": np.ones((2, 3), "float32"),
        "stress": np.arange(9.0).reshape(3, 3),
        "charges": np.zeros(2),
        "velocities": np.ones((2, 3)),
        "name": "None",
    }
    properties = {
        "a/b": 1,
        ".": 2,
        "": 0.5,
        "positions": np.ones(3),
        "properties": 1,
        "config_type": "slab",
        "weight": 2.0,
        "energy_weight": 0.5,
        "forces_weight": 1.0,
        "atomic_weight": 7.0,
        "dipole": np.arange(3.0),
        "virials": np.ones((3, 3)),
        "total_charge": -1,
        "head": "x",
        "none_text": "None",
        "text": "é中\n",
        "two": np.arange(2),
        "tensor": np.arange(8, dtype="int32").reshape(2, 2, 2),
        "empty": np.zeros((0, 3)),
        "nan": float("nan"),
    }
    arrays = {"q": np.array([0.1, -0.0], "float32"), "energy": np.arange(2), "m": np.ones((2, 4))}
    parts = [
        Parts(np.ones((2, 3), "float32"), np.array([0, 118]), labels, properties, arrays),
        Parts(np.zeros((1, 3), "float32"), np.array([1]), {}, {"config_type": "Default"}, {}),
    ]
    path, report = written_as("mace-hdf5", tmp_path / "2.h5", parts)
    assert not report.skipped
    found = configurations(path)
    assert (found[0]["weight"], found[0]["config_type"]) == (2.0, "slab")
    assert found[0]["property_weights"]["energy"] == 0.5
    assert found[0]["property_weights"]["stress"] == 1.0
    assert found[0]["properties"]["total_charge"] == -1
    assert set(found[0]["properties"]) == {
        *("energy", "forces", "stress", "virials", "dipole", "charges", "polarizability"),
        "total_charge",
    }
    assert found[1]["cell"] is None
    convert(path, tmp_path / "3.atp", progress=False)
    assert_same(tmp_path)


def test_values_that_hdf5_cannot_hold(tmp_path: Path) -> None:
    part = Parts(np.zeros((1, 3)), np.array([1]), {}, {"none": None, "nul": "a\0b"}, {})
    _, report = written_as("mace-hdf5", tmp_path / "2.h5", [part])
    assert {what for what, _ in report.skipped} == {"properties/none", "properties/nul"}


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("atom_properties/q", np.ones(5), "expected 2 rows"),
        ("atom_properties/q", "text", "expected 2 rows"),
        ("properties/q", np.ones(2, "complex128"), "expected numbers, got complex128"),
        ("forces", np.ones((1, 3)), "forces: expected"),
    ],
)
def test_damage_is_named(tmp_path: Path, field: str, value: Any, message: str) -> None:
    part = Parts(np.zeros((2, 3)), np.array([1, 1]), {}, {}, {})
    path, _ = written_as("mace-hdf5", tmp_path / "2.h5", [part])
    with h5py.File(path, "a") as file:
        group = file["config_batch_0/config_0"]
        group["value_x"] = value
        group["value_x"].attrs["atompack_torch"] = field
    with pytest.raises((apt.CorruptFileError, apt.FieldError), match=message):
        convert(path, tmp_path / "3.atp", progress=False)
