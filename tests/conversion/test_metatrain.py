"""Folders of arrays of metatrain, both ways, in the layout of its MemmapDataset (2026.4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.foreign import assert_refused, converted, written_as

import atompack_torch as apt
from atompack_torch.batch.conversions import Parts, masses_of
from atompack_torch.conversion import Report, convert
from atompack_torch.conversion.selecting import filter  # noqa: A004
from atompack_torch.conversion.sources.metatrain import Folder


def frame(seed: int, n: int = 3, **more: Any) -> Parts:
    """A periodic structure with all labels, in float32."""
    rng = np.random.default_rng(seed)
    labels: dict[str, Any] = {
        "cell": rng.normal(size=(3, 3)).astype("float32"),
        "pbc": np.ones(3, bool),
        "energy": float(np.float32(rng.normal())),
        "forces": rng.normal(size=(n, 3)).astype("float32"),
        "stress": rng.normal(size=(3, 3)).astype("float32"),
    }
    given = {key: value for key, value in (labels | more).items() if value is not None}
    positions = rng.normal(size=(n, 3)).astype("float32")
    return Parts(positions, rng.integers(1, 80, n), given, {}, {})


def written(blocks: list[list[Parts]], folder: Path) -> tuple[Path, Report]:
    return written_as("metatrain", folder / "arrays", *blocks)


def memmap(path: Path, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """An array as metatrain opens it."""
    return np.memmap(path, dtype=dtype, mode="r", shape=shape)


def test_as_metatrain_reads_it(tmp_path: Path) -> None:
    parts = [frame(i, 1 + i % 4) for i in range(10)]
    path, report = written([parts], tmp_path)
    assert not report.skipped
    assert not [note for note in report.notes if "rounded" in note]
    ns, na = np.load(path / "ns.npy"), np.load(path / "na.npy")
    assert ns.shape == ()
    assert (ns, na.dtype) == (10, np.int64)
    assert na.tolist() == np.cumsum([0, *(len(part.positions) for part in parts)]).tolist()
    n = na[-1]
    arrays = {
        "x": memmap(path / "x.bin", (n, 3)),
        "a": memmap(path / "a.bin", (n,), "int32"),
        "c": memmap(path / "c.bin", (10, 3, 3)),
        "e": memmap(path / "e.bin", (10, 1)),
        "f": memmap(path / "f.bin", (n, 3, 1)),
        "s": memmap(path / "s.bin", (10, 3, 3, 1)),
    }
    names = {f"{name}.bin" for name in arrays}
    assert {file.name for file in path.iterdir()} == {
        *names,
        *("ns.npy", "na.npy", "atompack_torch.json"),
    }
    for i, part in enumerate(parts):
        atoms = slice(na[i], na[i + 1])
        assert np.array_equal(arrays["x"][atoms], part.positions)
        assert np.array_equal(arrays["a"][atoms], part.atomic_numbers)
        assert np.array_equal(arrays["f"][atoms, :, 0], part.labels["forces"])
        assert np.array_equal(arrays["c"][i], part.labels["cell"])
        assert np.array_equal(arrays["s"][i, :, :, 0], part.labels["stress"])
        assert arrays["e"][i, 0] == part.labels["energy"]


def test_there_and_back(tmp_path: Path) -> None:
    blocks = [
        [frame(0), frame(1, 2, energy=None), frame(2, 1, cell=None, pbc=None, stress=None)],
        [frame(3, 4), frame(4, 2, forces=None)],
    ]
    for i, part in enumerate(blocks[1]):
        part.properties.update(gap=1.5 * i, moments=np.arange(4, dtype="float32") + i)
        part.atom_properties["q"] = np.arange(len(part.positions), dtype="float32")
    blocks[1][0].atom_properties["m"] = np.ones((4, 2, 2), "float32")
    path, report = written(blocks, tmp_path)
    assert not report.skipped
    dataset, _ = converted(path)
    assert len(dataset) == 5
    for i, part in enumerate(blocks[0] + blocks[1]):
        molecule = dataset[i]
        assert molecule.positions.numpy().tobytes() == part.positions.tobytes()
        assert molecule.atomic_numbers.tolist() == part.atomic_numbers.tolist()
        expected = {**part.labels, **part.properties, **part.atom_properties}
        assert {*molecule.keys()} - {"positions", "atomic_numbers", "pbc"} == {*expected} - {"pbc"}
        for key, value in expected.items():
            assert np.array_equal(np.asarray(molecule[key]), value), key


def test_labels_that_are_nan_are_missing(tmp_path: Path) -> None:
    path, _ = written([[frame(0), frame(1, energy=None), frame(2, forces=None)]], tmp_path)
    (path / "atompack_torch.json").unlink()
    filter(path, tmp_path / "kept.atp", "has(energy)", progress=False)
    dataset = apt.AtpDataset(tmp_path / "kept.atp")
    assert len(dataset) == 2
    assert dataset[:].mask("forces").tolist() == [True, False]


def test_values_that_metatrain_cannot_hold(tmp_path: Path) -> None:
    parts = [
        frame(0, pbc=np.array([True, True, False]), energy=-1234.56789),
        frame(1, pbc=None, name="second"),
        frame(2, cell=None),
    ]
    for part in parts:
        part.properties.update({"text": "t", "x": 1.0, "a/b": 1.0, "": 1.0, "energy": 2.0})
    path, report = written([parts], tmp_path)
    assert {(what, n) for (what, _), n in report.skipped.items()} == {
        *(("cell", 1), ("pbc", 1), ("name", 1)),
        *((f"properties/{key}", 3) for key in ("text", "x", "a/b", "", "energy")),
    }
    assert any(note.startswith("energy: rounded to float32") for note in report.notes)
    assert any(note.startswith("pbc: T where it was absent") for note in report.notes)
    cells = memmap(path / "c.bin", (3, 3, 3))
    assert cells.any(axis=2).tolist() == [[True, True, False], [True] * 3, [False] * 3]
    batch = converted(path)[0][:]
    assert batch.pbc.tolist() == cells.any(axis=2).tolist()
    assert batch.energy[0].item() == np.float32(-1234.56789)


@pytest.mark.parametrize("field", ["energy", "stress", "cell", "w"])
def test_values_beyond_float32(tmp_path: Path, field: str) -> None:
    part = frame(0)
    value = -1e39 if field == "energy" else np.full((3, 3), 1e39)
    (part.atom_properties if field == "w" else part.labels)[field] = value
    with pytest.raises(apt.FieldError, match=f"{field}: a value is too large for float32"):
        written([[part]], tmp_path)
    assert not (tmp_path / "arrays").exists()


def test_rows_of_another_shape(tmp_path: Path) -> None:
    blocks = [[frame(0)], [frame(1)]]
    for n, (part,) in enumerate(blocks, 2):
        part.properties["v"] = np.ones(n, "float32")
    _, report = written(blocks, tmp_path)
    assert report.skipped == {("properties/v", "not of shape (2,), as all values of an array"): 1}


def test_velocities(tmp_path: Path) -> None:
    velocities = np.random.default_rng(0).normal(size=(3, 3))
    parts = [frame(i, velocities=velocities) for i in range(2)]
    parts[1].atom_properties["masses"] = np.array([1.0, 2.0, 4.0])
    path, report = written([parts], tmp_path)
    assert any("momenta" in note for note in report.notes)
    momenta = memmap(path / "momenta.bin", (6, 3))
    masses = memmap(path / "masses.bin", (6,))
    standard = masses_of(parts[0].atomic_numbers)
    assert np.array_equal(momenta[:3], np.float32(velocities * standard[:, None]))
    assert np.array_equal(momenta[3:], np.float32(velocities * np.array([[1.0], [2.0], [4.0]])))
    assert np.isnan(masses[:3]).all()
    batch = converted(path)[0][:]
    assert np.allclose(batch.velocities.numpy(), np.tile(velocities, (2, 1)), rtol=3e-7)
    assert batch["masses"][3:].tolist() == [1.0, 2.0, 4.0]


def folder(path: Path, **arrays: Any) -> Path:
    """Writes a folder as other programs do: two structures of 2 and 3 atoms."""
    path.mkdir()
    rng = np.random.default_rng(0)
    np.save(path / "ns.npy", 2)
    np.save(path / "na.npy", np.array([0, 2, 5]))
    given: dict[str, Any] = {
        "x": rng.normal(size=(5, 3)),
        "a": np.array([1, 8, 6, 1, 1], "int32"),
        "c": np.stack([np.eye(3), np.zeros((3, 3))]),
        "energy": [1.0, 2.0],
        "energy_forces": rng.normal(size=(5, 3, 1)),
        "energy_stress": np.full((2, 3, 3), 0.5),
    }
    for name, values in (given | arrays).items():
        array = np.asarray(values)
        array.astype("int32" if name == "a" else "float32").tofile(path / f"{name}.bin")
    return path


def test_folders_of_metatrain(tmp_path: Path) -> None:
    more = {"charge": [1, 2], "q": np.arange(5.0), "dipoles": np.ones((5, 3)), "t": np.ones((2, 9))}
    path = folder(tmp_path / "arrays", **more)
    batch = converted(path)[0][:]
    assert batch.atomic_numbers.tolist() == [1, 8, 6, 1, 1]
    assert batch.n_atoms.tolist() == [2, 3]
    assert batch.energy.tolist() == [1.0, 2.0]
    assert batch.mask("cell").tolist() == [True, False]
    assert batch.pbc.tolist() == [[True] * 3, [False] * 3]
    assert batch.stress.tolist() == np.full((2, 3, 3), 0.5).tolist()
    assert batch["charge"].tolist() == [1.0, 2.0]
    assert (batch.level("q"), batch["q"].tolist()) == ("atom", [0.0, 1.0, 2.0, 3.0, 4.0])
    assert batch["dipoles"].shape == (5, 3)
    assert batch["t"].shape == (2, 3, 3)


def test_ambiguous_arrays_and_keys(tmp_path: Path) -> None:
    path = folder(tmp_path / "arrays", u=np.arange(10.0), v=np.arange(30.0), dft=[3, 4])
    dataset, report = converted(path, key_map={"dft": "energy", "energy_stress": "stress"})
    assert dataset[:].energy.tolist() == [3.0, 4.0]
    assert dataset[:].stress.shape == (2, 3, 3)
    assert report.skipped == {("array 'energy'", "key_map gives its name to another"): 1}
    assert sum("key_map can say otherwise" in note for note in report.notes) == 2
    keys = {"u": "properties/u", "v": "atom_properties/w", "energy_forces": "gradient"}
    batch = converted(path, key_map=keys)[0][:]
    assert batch["u"].shape == (2, 5)
    assert batch["w"].shape == (5, 6)
    assert batch["gradient"].shape == (5, 3)
    assert "forces" not in batch
    with pytest.raises(apt.FieldError, match="no array 'nothing'"):
        converted(path, key_map={"nothing": "x"})
    with pytest.raises(apt.FieldError, match="holds numbers, not name"):
        converted(path, key_map={"u": "name"})


def test_ranges_and_blocks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_atoms = rng.integers(0, 60, 9000)
    total = int(n_atoms.sum())
    with apt.AtpWriter(tmp_path / "1.atp") as writer:
        writer.write_arrays(
            positions=rng.normal(size=(total, 3)).astype("float32"),
            atomic_numbers=rng.integers(1, 9, total),
            n_atoms=n_atoms,
            energy=np.arange(9000.0),
        )
    convert(tmp_path / "1.atp", tmp_path / "2", target="metatrain", progress=False)
    found = Folder(str(tmp_path / "2"))
    blocks = [*found.read(Report(), 100, 8999)]
    assert max(len(block.positions) for block in blocks) <= 1 << 16
    energies = np.concatenate([np.asarray(block.fields[-1].values) for block in blocks])
    assert energies.tolist() == list(range(100, 8999))
    convert(tmp_path / "2", tmp_path / "3.atp", progress=False)
    first, second = (apt.AtpDataset(tmp_path / name)[:] for name in ("1.atp", "3.atp"))
    assert first.positions.numpy().tobytes() == second.positions.numpy().tobytes()
    assert first.n_atoms.tolist() == second.n_atoms.tolist()


def put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes(content)


def saved(name: str, values: Any) -> Callable[[Path], object]:
    return lambda path: np.save(path / name, values)


def described(field: str, level: str, shape: list[int]) -> Callable[[Path], object]:
    entry = {"field": field, "level": level, "shape": shape}
    return put("atompack_torch.json", json.dumps({"energy": entry}).encode())


CORRUPT = apt.CorruptFileError
DAMAGE: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (put("x.bin", b"123"), CORRUPT, r"x\.bin: expected 60 bytes, .* got 3"),
    (put("a.bin", b""), CORRUPT, r"a\.bin: expected 20 bytes"),
    (put("c.bin", b"1234"), CORRUPT, r"c\.bin: expected 72 bytes"),
    (put("energy.bin", b"123"), CORRUPT, r"energy\.bin: expected 8 bytes"),
    (put("other.bin", b"123"), apt.FieldError, r"other\.bin: expected rows of atoms or molecules"),
    (lambda path: (path / "x.bin").unlink(), CORRUPT, r"x\.bin: expected the array"),
    (saved("ns.npy", 3), CORRUPT, r"na\.npy: expected 4 integers"),
    (saved("ns.npy", [2]), CORRUPT, r"ns\.npy: expected one integer"),
    (saved("ns.npy", 2.0), CORRUPT, r"ns\.npy: expected one integer"),
    (saved("na.npy", [1, 2, 5]), CORRUPT, r"na\.npy: expected numbers that ascend"),
    (saved("na.npy", [0, 6, 5]), CORRUPT, r"na\.npy: expected numbers that ascend"),
    (saved("na.npy", [0, 2, 6]), CORRUPT, r"x\.bin: expected 72 bytes"),
    (saved("na.npy", [0.0, 2, 5]), CORRUPT, r"na\.npy: expected 3 integers"),
    (put("na.npy", b"\x93NUMPY"), CORRUPT, r"na\.npy: no array"),
    (put("ns.npy", b""), CORRUPT, r"ns\.npy: no array"),
    (put("atompack_torch.json", b"{"), CORRUPT, "expected a description"),
    (put("atompack_torch.json", b"[1]"), CORRUPT, "expected a description"),
    (described("energy", "x", []), CORRUPT, "expected a description"),
    (described("energy", "molecule", [-1]), CORRUPT, "expected a description"),
    (described("energy", "atom", []), CORRUPT, "expected rows of energy"),
    (described("properties/k", "molecule", [1 << 30]), CORRUPT, r"energy\.bin: expected 858993459"),
]


@pytest.mark.parametrize(("harm", "kind", "message"), DAMAGE)
def test_damage(
    tmp_path: Path, harm: Callable[[Path], object], kind: type[Exception], message: str
) -> None:
    path = folder(tmp_path / "arrays")
    harm(path)
    assert_refused(path, kind, message)


def test_a_file_that_is_cut_meanwhile(tmp_path: Path) -> None:
    path = folder(tmp_path / "arrays")
    found = Folder(str(path))
    (path / "x.bin").write_bytes(b"")
    with pytest.raises(apt.CorruptFileError, match=r"x\.bin: expected 60 bytes, got 0"):
        [*found.read(Report(), 0, 2)]
