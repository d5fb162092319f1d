"""Every builtin field through every writer and back, compared with the values that were given."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.names import BUILTINS, Builtin

import atompack_torch as apt
from atompack_torch import fields
from atompack_torch.batch.conversions import Parts, atoms_of
from atompack_torch.conversion import convert
from atompack_torch.formats.aselmdb.rows import row_of
from atompack_torch.formats.conversion_report import Report

GEOMETRY = ("cell", "pbc")
TARGETS = {
    "atp": "copy.atp",
    "extxyz": "a.xyz",
    "aselmdb": "a.aselmdb",
    "ase-db": "a.db",
    "parquet": "a.parquet",
    "shards": "shards",
    "mace-hdf5": "a.h5",
    "deepmd": "systems",
    "metatrain": "arrays",
}
# DeePMD-kit has other names for charges, and none for the others.
LOST = {"deepmd": ("charges", "name", "velocities"), "metatrain": ("name",)}
SHARED = [key for key, builtin in BUILTINS.items() if builtin.is_property]


def value_of(key: str, builtin: Builtin, number: int, n_atoms: int = 2) -> Any:
    """A value that float32 holds."""
    if key == "name":
        return f"molecule {number}"
    if key == "pbc":
        return np.ones(3, bool)
    if key == "cell":
        return np.diag([4.0, 8.0, 2.0 ** (number + 2)])
    shape = (n_atoms, *builtin.shape) if builtin.level == "atom" else builtin.shape
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) + len(key) + number) / 8
    return values + values.T if key == "stress" else values


def molecules() -> list[dict[str, Any]]:
    """A molecule with all fields, and for each field one that lacks it."""
    made = []
    for number, lacking in enumerate(("", *BUILTINS)):
        absent = (*GEOMETRY, "stress") if lacking in GEOMETRY else (lacking,)
        plain = {
            key: value_of(key, builtin, number)
            for key, builtin in BUILTINS.items()
            if key not in absent
        }
        plain["positions"] = np.array([[number, 0.0, 0.0], [number, 1.0, 0.5]])
        made.append(plain | {"atomic_numbers": np.array([8, 1])})
    return made


PLAINS = molecules()


def assert_labels(batch: apt.MoleculeBatch, lost: Sequence[str] = ()) -> None:
    """The labels of each molecule, in the order of the first atoms, are those given."""
    assert len(batch) == len(PLAINS)
    for molecule in sorted(batch, key=lambda each: float(each.positions[0, 0])):
        plain = PLAINS[int(molecule.positions[0, 0])]
        for key in BUILTINS.keys() - {*lost}:
            assert_label(molecule[key], key, plain.get(key))


def assert_label(got: Any, key: str, want: Any) -> None:
    if want is None:
        assert got is None or (key in GEOMETRY and not got.any())
    elif isinstance(want, str):
        assert got == want
    else:
        rounding = {"velocities": 1e-6, "stress": 1e-12}.get(key, 0.0)
        assert got.shape == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=rounding, atol=0)


def test_the_table_is_that_of_the_package() -> None:
    table = {
        key: Builtin(
            own.level,
            own.shape,
            {"string": "text", "bool": "flag"}.get(own.dtype, "real"),
            own.origin == "result",
            not own.owns_key,
        )
        for key, own in fields.BUILTINS.items()
    }
    assert table == BUILTINS
    rotations = {(): "scalar", (3,): "vector", (3, 3): "tensor"}
    for key, own in fields.BUILTINS.items():
        is_odd = key in GEOMETRY  # lattice vectors are rows, flags do not turn
        assert is_odd or own.rotation == rotations[own.shape]
        assert own.names or is_odd


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_and_back(tmp_path: Path, target: str) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write([apt.Molecule(**plain) for plain in PLAINS])
    path = tmp_path / TARGETS[target]
    report = convert(tmp_path / "a.atp", path, target=target, progress=False)
    lost = LOST.get(target, ())
    for key in lost:
        assert key in {what for what, _ in report.skipped} or any(
            note.startswith(key) for note in report.notes
        )
    convert(path, tmp_path / "back.atp", progress=False)
    assert_labels(apt.AtpDataset(tmp_path / "back.atp")[:], lost)
    if target in ("atp", "extxyz", "aselmdb", "shards"):
        assert_labels(apt.open(path).batch(range(len(PLAINS))))


def test_batches_and_molecules() -> None:
    batch = apt.MoleculeBatch.from_molecules([apt.Molecule(**plain) for plain in PLAINS])
    assert_labels(batch)
    assert_labels(pickle.loads(pickle.dumps(batch)))
    back = [apt.Molecule.from_ase(atoms) for atoms in batch.to_ase()]
    assert_labels(apt.MoleculeBatch.from_molecules(back))
    assert {key: batch.level(key) for key in BUILTINS} == {k: b.level for k, b in BUILTINS.items()}


def test_labels_without_a_place_in_ase() -> None:
    """They are entries of info and data, not lost."""
    positions, numbers = np.zeros((1, 3)), np.array([1])
    parts = Parts(positions, numbers, {"pbc": np.zeros(3, bool), "other": np.eye(3)}, {}, {})
    with pytest.MonkeyPatch.context() as patch:
        own = fields.BUILTINS["stress"]
        patch.setitem(fields.BUILTINS, "other", own)
        assert np.array_equal(atoms_of(parts).info["other"], np.eye(3))
    row = row_of(parts, Report(), holds_nan=True)
    assert np.array_equal(row.data["other"], np.eye(3))
    assert "other" not in row.labels


OTHERS = {
    "text": "along z",
    "number": 0.5,
    "five numbers": np.arange(5.0),
    "integers": np.arange(3),
    "matrix": np.eye(3),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("key", SHARED)
def test_properties_with_the_key_of_a_label(tmp_path: Path, key: str, what: str) -> None:
    """Values of another type or shape under the key are read as the properties they were."""
    value, path = OTHERS[what], tmp_path / "a.atp"
    plain = {"positions": np.zeros((2, 3)), "atomic_numbers": np.array([8, 1])}
    with apt.AtpWriter(path) as writer:
        writer.write(apt.Molecule(**plain, properties={key: value}))
    dataset = apt.AtpDataset(path)
    assert f"properties/{key}" in dataset.schema
    assert key not in dataset.schema
    got = dataset[0][f"properties/{key}"]
    assert got == value if isinstance(value, (str, float)) else np.array_equal(got, value)
    for target in ("extxyz", "aselmdb", "parquet", "shards", "mace-hdf5"):
        there, back = tmp_path / TARGETS[target], tmp_path / f"{target}.atp"
        convert(path, there, target=target, progress=False)
        convert(there, back, progress=False)
        got = apt.AtpDataset(back)[0][f"properties/{key}"]
        assert got == value if isinstance(value, (str, float)) else np.array_equal(got, value)


@pytest.mark.parametrize("key", SHARED)
def test_a_property_with_the_form_of_a_label_is_the_label(tmp_path: Path, key: str) -> None:
    """As .atp stores both alike, so do conversions."""
    row = value_of(key, BUILTINS[key], 1)
    plain = {"positions": np.zeros((2, 3)), "atomic_numbers": np.array([8, 1])}
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(apt.Molecule(**plain, properties={key: row}))
        writer.write(apt.Molecule(**plain, **{key: 2 * row}))
    batch = apt.AtpDataset(tmp_path / "a.atp")[:]
    assert np.array_equal(batch[key].numpy(), [row, 2 * row])
    np.savez(tmp_path / "a.npz", R=np.zeros((2, 2, 3)), z=[8, 1], **{key: np.stack([row, row])})
    keys = {"R": "positions", "z": "atomic_numbers"}
    report = convert(tmp_path / "a.npz", tmp_path / "b.atp", key_map=keys, progress=False)
    assert report.labels[key] == 2
    assert np.array_equal(apt.AtpDataset(tmp_path / "b.atp")[0][key].numpy(), row)


@pytest.mark.parametrize("key", SHARED)
def test_label_and_property_in_one_file(tmp_path: Path, key: str) -> None:
    """A file holds one of them, and says so; a conversion keeps the label and reports the other."""
    row = value_of(key, BUILTINS[key], 1)
    plain = {"positions": np.zeros((2, 3)), "atomic_numbers": np.array([8, 1])}
    both = apt.Molecule(**plain, **{key: row}, properties={key: np.arange(5.0)})
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        with pytest.raises(apt.FieldError, match="(?s)expected .*got .*" + key):
            writer.write(both)
        with pytest.raises(apt.FieldError, match="expected a label or a property, got both"):
            writer.write(apt.Molecule(**plain, **{key: row}, properties={key: row}))
        assert len(writer) == 0
    text = f'2\nProperties=species:S:1:pos:R:3 {key}="1 2 3" properties/{key}="1 2 3 4 5"\n'
    (tmp_path / "a.xyz").write_text(text + "O 0 0 0\nH 0 0 1\n")
    report = convert(tmp_path / "a.xyz", tmp_path / "b.atp", progress=False)
    assert f"properties/{key}" in {what for what, _ in report.skipped}
    assert apt.AtpDataset(tmp_path / "b.atp")[0][key].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("key", SHARED)
def test_a_damaged_label_that_is_stored_as_a_property(tmp_path: Path, key: str) -> None:
    """The other values of its molecule are read, as for other properties."""
    path = tmp_path / "a.atp"
    plain = {"positions": np.zeros((2, 3)), "atomic_numbers": np.array([8, 1]), "energy": 1.0}
    with apt.AtpWriter(path, codec="none") as writer:
        writer.write(apt.Molecule(**plain, **{key: value_of(key, BUILTINS[key], 1)}))
    content = path.read_bytes()
    tag_at = content.index(key.encode(), 8192) + len(key)
    assert content[tag_at] == 3  # float64 array
    path.write_bytes(content[:tag_at] + b"\x05" + content[tag_at + 1 :])
    molecule = apt.AtpDataset(path)[0]
    assert molecule.energy == 1.0
    with pytest.raises(apt.CorruptFileError, match=f"type tag: expected 3 .*{key}"):
        molecule[key]
    with pytest.raises(apt.CorruptFileError, match=f"type tag: expected 3 .*{key}"):
        apt.AtpDataset(path, fields=[key])[:]
