"""Systems of DeePMD-kit, in the layout of its documentation, which dpdata writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference.foreign import assert_refused, converted

import atompack_torch as apt
from atompack_torch.cli import main

Arrays = dict[str, Any]


def system(folder: Path, types: str, type_map: str = "O\nH\n", **sets: Arrays) -> Path:
    """Writes a system; the names of sets are those of folders, with a point for the first _."""
    folder.mkdir(parents=True)
    (folder / "type.raw").write_text(types)
    (folder / "type_map.raw").write_text(type_map)
    for name, arrays in sets.items():
        place = folder / name.replace("_", ".", 1)
        place.mkdir()
        for key, values in arrays.items():
            np.save(place / f"{key}.npy", values)
    return folder


def frames(count: int, n: int, seed: int = 0, dtype: str = "float32") -> Arrays:
    rng = np.random.default_rng(seed)
    drawn: Arrays = {
        "coord": rng.normal(size=(count, 3 * n)),
        "box": np.tile(np.diag([4.0, 5.0, 6.0]).reshape(9), (count, 1)),
        "energy": rng.normal(size=count),
        "force": rng.normal(size=(count, 3 * n)),
        "virial": rng.normal(size=(count, 9)),
    }
    return {key: values.astype(dtype) for key, values in drawn.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_system(tmp_path: Path, dtype: str) -> None:
    first, second = frames(3, 3, 0, dtype), frames(2, 3, 1, dtype)
    path = system(tmp_path / "water", "0 1\n1\n", set_000=first, set_001=second)
    dataset, report = converted(path)
    assert len(dataset) == report.structures_written == 5
    batch = dataset[:]
    for name, key, shape in (
        ("positions", "coord", (15, 3)),
        ("forces", "force", (15, 3)),
        ("energy", "energy", (5,)),
        ("cell", "box", (5, 3, 3)),
    ):
        expected = np.concatenate([first[key], second[key]]).reshape(shape)
        found = batch[name].numpy()
        assert np.array_equal(found, expected), name
    virials = np.concatenate([first["virial"], second["virial"]]).reshape(5, 3, 3)
    stress = (virials.astype("float64") / -120.0).astype(dtype)
    assert np.array_equal(batch.stress.numpy(), stress.astype(batch.stress.numpy().dtype))
    assert batch.atomic_numbers.tolist() == [8, 1, 1] * 5
    assert batch.pbc.all()
    assert batch.mask("pbc").all()
    assert "name" not in batch
    assert "'virial' read as stress: -virial / volume" in str(report)
    assert not report.warnings


def test_systems_in_folders_are_read_by_name(tmp_path: Path) -> None:
    arrays = {name: frames(2, n, n) for n, name in ((1, "b/one"), (2, "a"), (3, "c"))}
    for n, name in ((1, "b/one"), (2, "a"), (3, "c")):
        system(tmp_path / "all" / name, "1\n" * n, set_000=arrays[name])
    (tmp_path / "all/c/nopbc").touch()
    del arrays["a"]["energy"]
    (tmp_path / "all/a/set.000/energy.npy").unlink()
    dataset, report = converted(tmp_path / "all")
    batch = dataset[:]
    assert batch.name == ["a", "a", "b/one", "b/one", "c", "c"]
    assert batch.mask("energy").tolist() == [False] * 2 + [True] * 4
    for name in ("cell", "pbc", "stress"):
        assert batch.mask(name).tolist() == [True] * 4 + [False] * 2, name
    assert "'box' omitted" in str(report)
    assert "a virial needs a cell with a volume" in str(report)
    assert np.array_equal(dataset[4].positions.numpy(), arrays["c"]["coord"][0].reshape(3, 3))


def test_mixed_types_and_padding(tmp_path: Path) -> None:
    arrays = frames(3, 4)
    types = np.array([[0, 1, 1, -1], [1, 1, -1, -1], [2, 0, 1, 0]], dtype="int32")
    arrays |= {"real_atom_types": types, "atom_ener": np.arange(12.0).reshape(3, 4)}
    path = system(tmp_path / "4", "0\n" * 4, "O\nH\nC\n", set_000=arrays)
    dataset, _ = converted(path)
    coordinates = arrays["coord"].reshape(3, 4, 3)
    for i, numbers in enumerate(([8, 1, 1], [1, 1], [6, 8, 1, 8])):
        molecule = dataset[i]
        n = len(numbers)
        assert molecule.atomic_numbers.tolist() == numbers
        assert np.array_equal(molecule.positions.numpy(), coordinates[i, :n])
        assert molecule["atom_ener"].tolist() == [4.0 * i + k for k in range(n)]
        assert float(molecule.energy) == float(arrays["energy"][i])


def test_other_arrays_are_properties(tmp_path: Path) -> None:
    arrays = frames(2, 3)
    arrays |= {
        "fparam": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "aparam": np.arange(12.0).reshape(2, 6),
        "spin": np.arange(18.0).reshape(2, 9),
        "charge": np.array([[1], [-1]]),
        "energy": np.array([[1.0], [2.0]]),
    }
    dataset, _ = converted(system(tmp_path / "s", "0 1 1", set_000=arrays))
    batch = dataset[:]
    assert batch.energy.tolist() == [1.0, 2.0]
    assert batch["fparam"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert batch["aparam"].tolist() == np.arange(12.0).reshape(6, 2).tolist()
    assert batch["spin"].tolist() == np.arange(18.0).reshape(6, 3).tolist()
    assert batch["charge"].tolist() == [1, -1]


def test_blocks_of_many_frames(tmp_path: Path) -> None:
    arrays = frames(10_000, 3)
    dataset, _ = converted(system(tmp_path / "s", "0 1 1", set_000=arrays))
    expected = arrays["coord"].reshape(-1, 3)
    assert np.array_equal(dataset[:].positions.numpy(), expected)


def as_text(folder: Path, types: str, arrays: Arrays) -> Path:
    """Writes a system whose arrays are text."""
    system(folder, types)
    for key, values in arrays.items():
        np.savetxt(folder / f"{key}.raw", values, header="of a run", fmt="%.17g")
    return folder


def test_arrays_as_text_next_to_those_in_sets(tmp_path: Path) -> None:
    arrays = frames(5000, 3, dtype="float64") | {"atom_q": np.arange(15000.0).reshape(5000, 3)}
    as_text(tmp_path / "all/a", "0 1 1", arrays)
    system(tmp_path / "all/b", "0 1 1", set_000=frames(2, 3))
    np.savetxt(tmp_path / "all/b/coord.raw", frames(2, 3)["coord"])
    dataset, report = converted(tmp_path / "all")
    batch = dataset[:5000]
    assert len(dataset) == 5002
    assert np.array_equal(batch.positions.numpy(), arrays["coord"].reshape(-1, 3))
    assert np.array_equal(batch.forces.numpy(), arrays["force"].reshape(-1, 3))
    assert np.array_equal(batch.energy.numpy(), arrays["energy"])
    assert batch["atom_q"].tolist() == arrays["atom_q"].reshape(-1).tolist()
    assert ("file 'coord.raw'", "the frames are read from folders set.*") in report.skipped


def test_a_frame_without_its_axis_and_fortran_order(tmp_path: Path) -> None:
    arrays = frames(3, 3)
    single = {key: values[0] for key, values in arrays.items()}
    system(tmp_path / "all/a", "0 1 1", set_000=single)
    turned = {key: np.asfortranarray(values) for key, values in arrays.items()}
    system(tmp_path / "all/b", "0 1 1", set_000=turned)
    dataset, _ = converted(tmp_path / "all")
    rows = [0, 0, 1, 2]
    assert len(dataset) == 4
    assert np.array_equal(dataset[:].forces.numpy(), arrays["force"][rows].reshape(-1, 3))
    assert np.array_equal(dataset[:].cell.numpy(), arrays["box"][rows].reshape(-1, 3, 3))
    assert np.array_equal(dataset[:].energy.numpy(), arrays["energy"][rows].astype("float64"))


def test_types_that_are_no_elements(tmp_path: Path) -> None:
    path = system(tmp_path / "s", "0 1 1 2", "OW\nHW\nEP\nCX\n", set_000=frames(2, 4))
    with pytest.raises(apt.UnsupportedFormatError, match=r"got 'OW': .*--key OW=SYMBOL"):
        converted(path)
    keys = {"OW": "O", "HW": "H", "EP": "X"}
    dataset, _ = converted(path, key_map={**keys, "energy": "properties/e"})
    assert dataset[:].atomic_numbers.tolist() == [8, 1, 1, 0] * 2
    assert "e" in dataset[:]
    (path / "type_map.raw").unlink()
    with pytest.raises(apt.UnsupportedFormatError, match=r"got no such file: .*--key 0=SYMBOL"):
        converted(path)
    dataset, _ = converted(path, key_map={"0": "O", "1": "H", "2": "C"})
    assert dataset[0].atomic_numbers.tolist() == [8, 1, 1, 6]


def test_no_molecules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = system(tmp_path / "s", "0 1 1", set_000=frames(4, 3))
    (path / "set.000/box.npy").unlink()
    command = ["convert", str(path), str(tmp_path / "out.atp")]
    assert main(command) == main([*command, "--on-error", "skip"]) == 1
    assert "expected boxes or a file nopbc, got neither" in capsys.readouterr().err
    assert not (tmp_path / "out.atp").exists()
    np.save(path / "set.000/coord.npy", np.zeros((0, 9)))
    np.save(path / "set.000/box.npy", np.zeros((0, 9)))
    for name in ("energy", "force", "virial"):
        (path / f"set.000/{name}.npy").unlink()
    assert "no molecules were read" in converted(path)[1].warnings[0]


def put(name: str, values: Any) -> Callable[[Path], object]:
    return lambda folder: np.save(folder / "set.000" / f"{name}.npy", values)


def written(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def truncated(folder: Path) -> None:
    path = folder / "set.000/force.npy"
    path.write_bytes(path.read_bytes()[:-1])


def claims_much(folder: Path) -> None:
    path = folder / "set.000/coord.npy"
    path.write_bytes(path.read_bytes().replace(b"(4, 9)", b"(4, 9000000000)")[:500])


def without_sets(folder: Path) -> None:
    shutil.rmtree(folder / "set.000")


def with_text(energies: str) -> Callable[[Path], object]:
    def harm(folder: Path) -> None:
        without_sets(folder)
        for key in ("coord", "box"):
            np.savetxt(folder / f"{key}.raw", frames(4, 3)[key])
        (folder / "energy.raw").write_text(energies, encoding="latin-1")

    return harm


CORRUPT = apt.CorruptFileError
DAMAGE: list[tuple[Callable[[Path], object], type[Exception], str]] = [
    (truncated, CORRUPT, r"force\.npy: expected 144 bytes, got 143"),
    (claims_much, CORRUPT, r"coord\.npy: expected 9 values a frame, got 9000000000"),
    (put("force", np.ones((4, 6))), CORRUPT, "expected 9 values a frame, got 6"),
    (put("force", np.ones((3, 9))), CORRUPT, "expected 4 frames, got"),
    (put("energy", np.ones((4, 2))), CORRUPT, "expected 1 values a frame, got 2"),
    (put("box", np.float64(1)), CORRUPT, "expected 4 frames"),
    (put("atom_x", np.ones((4, 4))), CORRUPT, r"atom_x\.npy: expected"),
    (put("fparam", np.array([["a"]] * 4)), apt.FieldError, "expected numbers"),
    (put("fparam", np.array([None] * 4)), apt.UnsupportedFormatError, "pickled objects"),
    (put("real_atom_types", np.full((4, 3), 5)), CORRUPT, "types below 2, got 5"),
    (written("set.000/force.npy", b""), CORRUPT, r"force\.npy: no array"),
    (written("type.raw", b"0 x 1"), CORRUPT, r"type\.raw: expected numbers"),
    (written("type.raw", b"0 1 2"), CORRUPT, "types below 2, got 2"),
    (written("type.raw", b"0 1 1 1"), CORRUPT, "expected 12 values a frame, got 9"),
    (written("type_map.raw", b"O Xx"), apt.UnsupportedFormatError, "got 'Xx'"),
    (written("type_map.raw", b"\xff\xfe"), CORRUPT, "expected text"),
    (put("real_atom_types", np.full((4, 3), 0.5)), CORRUPT, "expected integers"),
    (without_sets, CORRUPT, r"expected folders set\.\*"),
    (with_text("1\n2 3\n4\n5"), CORRUPT, r"energy\.raw: from row 0 on"),
    (with_text("1\n\xfc\n3\n4"), CORRUPT, r"energy\.raw: from row 0 on"),
    (with_text("1\n2\n3"), CORRUPT, "expected 4 frames"),
    (lambda folder: (folder / "type_map.raw").unlink(), apt.UnsupportedFormatError, "elements of"),
    (lambda folder: (folder / "set.000/coord.npy").unlink(), CORRUPT, "coordinates"),
]


@pytest.mark.parametrize(("harm", "kind", "message"), DAMAGE)
def test_damage(
    tmp_path: Path, harm: Callable[[Path], object], kind: type[Exception], message: str
) -> None:
    path = system(tmp_path / "s", "0 1 1", set_000=frames(4, 3))
    harm(path)
    assert_refused(path, kind, message)
