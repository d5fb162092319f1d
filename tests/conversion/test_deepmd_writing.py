"""DeePMD's npy systems as a target, read by dpdata and by our own converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dpdata
import numpy as np
import pytest
from reference.foreign import written_as

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.targets import deepmd as deepmd_writing


def water(seed: int, order: tuple[int, ...] = (8, 1, 1), **more: Any) -> Parts:
    """A frame of water in a box, with all labels."""
    rng = np.random.default_rng(seed)
    labels = {
        "cell": np.diag([4.0, 5.0, 6.0]) + rng.normal(size=(3, 3)) / 9,
        "pbc": np.ones(3, bool),
        "energy": float(rng.normal()),
        "forces": rng.normal(size=(3, 3)),
        "stress": rng.normal(size=(3, 3)),
    }
    given = {key: value for key, value in (labels | more).items() if value is not None}
    return Parts(rng.normal(size=(3, 3)), np.array(order), given, {}, {})


def written(parts: list[Parts], folder: Path, **options: Any) -> tuple[Path, Report]:
    return written_as("deepmd", folder / "systems", parts, **options)


def test_dpdata_reads_a_system(tmp_path: Path) -> None:
    parts = [water(i) for i in range(7)]
    path, report = written(parts, tmp_path)
    assert not report.skipped
    system = dpdata.LabeledSystem(path / "H2O1", fmt="deepmd/npy")
    assert system["atom_names"] == ["H", "O"]
    assert system["atom_types"].tolist() == [1, 0, 0]
    assert np.array_equal(system["coords"], [part.positions for part in parts])
    for name, key in (("cells", "cell"), ("energies", "energy"), ("forces", "forces")):
        assert np.array_equal(system[name], [part.labels[key] for part in parts]), name
    for part, virial in zip(parts, system["virials"], strict=True):
        volume = abs(np.linalg.det(part.labels["cell"]))
        assert np.allclose(virial, -volume * part.labels["stress"], rtol=1e-13)


def test_there_and_back(tmp_path: Path) -> None:
    parts = [water(i, (8, 1, 1) if i % 2 else (1, 8, 1)) for i in range(9)]
    parts += [water(20, energy=None), water(21, cell=None, pbc=None, stress=None)]
    path, report = written(parts, tmp_path)
    assert not report.skipped
    assert any("order changes" in note for note in report.notes)
    assert sorted(each.name for each in path.iterdir()) == [
        "H2O1",
        "H2O1.1",
        "H2O1.2",
        "H2O1.3",
    ]
    assert (path / "H2O1.3/nopbc").exists()
    convert(path, tmp_path / "3.atp", progress=False)
    dataset = apt.AtpDataset(tmp_path / "3.atp")
    order = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9, 10]
    names = ["H2O1"] * 5 + ["H2O1.1"] * 4 + ["H2O1.2", "H2O1.3"]
    for i, (number, name) in enumerate(zip(order, names, strict=True)):
        molecule, part = dataset[i], parts[number]
        assert molecule.name == name
        assert molecule.atomic_numbers.tolist() == part.atomic_numbers.tolist()
        assert molecule.positions.numpy().tobytes() == part.positions.tobytes()
        assert {*molecule.keys()} >= {*part.labels}
        for key, value in part.labels.items():
            found = np.asarray(molecule[key])
            if key == "stress":
                assert np.allclose(found, value, rtol=3e-16, atol=0)
            else:
                assert found.tobytes() == np.asarray(value).tobytes(), key


def test_sets_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepmd_writing, "_SET_FRAMES", 100)
    rng = np.random.default_rng(0)
    positions = rng.normal(size=(1030, 2, 3)).astype("float32")
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write_arrays(
            positions=positions, atomic_numbers=np.array([6, 8]), energy=np.arange(1030.0)
        )
    convert(tmp_path / "1.atp", tmp_path / "2", target="deepmd", progress=False)
    sets = sorted((tmp_path / "2/C1O1").glob("set.*"))
    assert [place.name for place in sets] == [f"set.{i:03d}" for i in range(11)]
    arrays = [np.load(place / "coord.npy") for place in sets]
    assert [len(array) for array in arrays] == [100] * 10 + [30]
    assert arrays[0].dtype == "float32"
    assert np.array_equal(np.concatenate(arrays).reshape(positions.shape), positions)
    convert(tmp_path / "2", tmp_path / "3.atp", progress=False)
    assert apt.AtpDataset(tmp_path / "3.atp")[:].energy.tolist() == list(range(1030))


def test_custom_values(tmp_path: Path) -> None:
    parts = []
    for i in range(3):
        part = water(i, name="mine", charges=np.full(3, 0.5 + i), velocities=np.ones((3, 3)))
        part.properties.update(fparam=np.array([1.0 * i, 2.0]), step=i, text="t", none=None)
        part.properties.update({"energy": 2.0, "a/b": 1, "atom_x": 1.0, "": 2, ".x": 1})
        part.properties["matrix"] = np.arange(4.0).reshape(2, 2) + i
        part.atom_properties.update(q=np.arange(3) + i, aparam=np.ones((3, 2)) * i)
        part.atom_properties["spin"] = np.ones((3, 3)) * i
        parts.append(part)
    path, report = written(parts, tmp_path)
    assert {what for what, _ in report.skipped} == {
        *("name", "velocities", "properties/text", "properties/none", "properties/energy"),
        *("properties/a/b", "properties/atom_x", "properties/", "properties/.x"),
    }
    assert set(report.skipped.values()) == {3}
    flat = [note for note in report.notes if note.endswith("written flat")]
    assert flat == ["properties/matrix: values of shape (2, 2) are written flat"]
    convert(path, tmp_path / "3.atp", progress=False)
    batch = apt.AtpDataset(tmp_path / "3.atp")[:]
    assert batch["fparam"].tolist() == [[0.0, 2.0], [1.0, 2.0], [2.0, 2.0]]
    assert batch["step"].tolist() == [0, 1, 2]
    assert batch["matrix"].tolist() == [[i, i + 1, i + 2, i + 3] for i in range(3)]
    assert batch["atom_q"].tolist() == [0, 1, 2, 1, 2, 3, 2, 3, 4]
    assert batch["atom_charges"].tolist() == [0.5] * 3 + [1.5] * 3 + [2.5] * 3
    assert batch["aparam"].tolist() == [[i, i] for i in (0, 0, 0, 1, 1, 1, 2, 2, 2)]
    assert batch["spin"].shape == (9, 3)


def test_periodicity(tmp_path: Path) -> None:
    parts = [
        water(0, pbc=np.array([True, True, False])),
        water(1, pbc=None),
        water(2, pbc=np.zeros(3, bool)),
        water(3, cell=None),
        water(4, cell=np.zeros((3, 3))),
    ]
    path, report = written(parts, tmp_path)
    assert {(what, n) for (what, _), n in report.skipped.items()} == {
        ("pbc", 1),
        ("pbc", 2),
        ("cell", 2),
        ("stress", 3),
    }
    assert any("T T T" in note for note in report.notes)
    assert [(path / name / "nopbc").exists() for name in ("H2O1", "H2O1.1")] == [False, True]
    assert len(np.load(path / "H2O1/set.000/box.npy")) == 2


def test_atoms_that_systems_cannot_hold(tmp_path: Path) -> None:
    parts = [water(0), water(1, (0, 1, 1)), water(2, (119, 1, 1))]
    parts.append(Parts(np.zeros((0, 3)), np.zeros(0, int), {}, {}, {}))
    with pytest.raises(apt.FieldError, match="expected atomic numbers of elements, got 0"):
        written(parts, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["0.atp"]
    path, report = written(parts, tmp_path, on_error="skip")
    assert sum(report.skipped.values()) == 3
    assert [each.name for each in path.iterdir()] == ["H2O1"]
