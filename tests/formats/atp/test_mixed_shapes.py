"""One key with values of different rank: what one file can hold, and what a dataset can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle.client import AtompackProcess
from oracle.pipe import OracleError
from reference.atp_forge import MOLECULE, atp_file, molecule_property, record, schema_blob, tensor

import atompack_torch as apt

Shape = tuple[int, ...]
PAIRS: list[tuple[Shape, Shape]] = [
    ((128,), (4, 32)),
    ((4, 32), (128,)),
    ((5, 3), (4, 32)),
    ((128,), (64,)),
]


def value(shape: Shape) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="<f4").reshape(shape) + 0.5


def plain(shape: Shape) -> dict[str, Any]:
    return {
        "positions": np.zeros((3, 3), "<f4"),
        "atomic_numbers": np.full(3, 6, "u1"),
        "properties": {"key": value(shape)},
    }


def molecule(shape: Shape) -> apt.Molecule:
    from ase import Atoms

    atoms = Atoms("C3", positions=np.zeros((3, 3)))
    atoms.info["key"] = value(shape)
    return apt.MoleculeBatch.from_ase([atoms])[0]


@pytest.mark.parametrize("shapes", PAIRS)
def test_one_file_has_one_type_per_key(
    atompack: AtompackProcess, tmp_path: Path, shapes: tuple[Shape, Shape]
) -> None:
    """The original refuses the second value, in one call and in a later commit; so does ours."""
    first, second = map(plain, shapes)
    with pytest.raises(OracleError, match="Schema mismatch for section 'key'"):
        atompack.write(tmp_path / "original.atp", [first, second])
    path = atompack.write(tmp_path / "first.atp", [first])
    with pytest.raises(OracleError, match="Schema mismatch for section 'key'"):
        atompack.append(path, [second])
    with apt.AtpWriter(tmp_path / "own.atp") as writer:
        writer.write(molecule(shapes[0]))
        with pytest.raises(apt.FieldError, match=r"as in earlier molecules.*field 'key'"):
            writer.write(molecule(shapes[1]))
        with pytest.raises(apt.FieldError, match=r"as in earlier molecules.*field 'key'"):
            writer.write([molecule(shapes[0]), molecule(shapes[1])])
        writer.write(molecule(shapes[0]))
    for written, count in ((path, 1), (tmp_path / "own.atp", 2)):
        read = [m["properties"]["key"].tolist() for m in atompack.read(written)]
        assert read == [value(shapes[0]).tolist()] * count


def test_tensors_of_different_shape(atompack: AtompackProcess, tmp_path: Path) -> None:
    shapes: list[Shape] = [(4, 32), (2, 0, 3), (1, 1)]
    original = atompack.write(tmp_path / "original.atp", [plain(shape) for shape in shapes])
    with apt.AtpWriter(tmp_path / "own.atp") as writer:
        writer.write([molecule(shape) for shape in shapes])
    for path in (original, tmp_path / "own.atp"):
        batch = apt.AtpDataset(path).batch([0, 1, 2])
        for found, shape, read in zip(batch["key"], shapes, atompack.read(path), strict=True):
            assert torch.equal(found, torch.from_numpy(value(shape)))
            assert np.array_equal(read["properties"]["key"], value(shape))


def test_a_tensor_of_one_dimension_beside_others(atompack: AtompackProcess, tmp_path: Path) -> None:
    """No writer makes such files, but both readers return their values."""
    shapes: list[Shape] = [(128,), (4, 32), ()]
    path = tmp_path / "ranks.atp"
    records = [record(2, [molecule_property("key", 14, tensor(value(s)))]) for s in shapes]
    path.write_bytes(atp_file(records, schema=schema_blob([(MOLECULE, "key", 14, 0)])))
    read = [m["properties"]["key"] for m in atompack.read(path)]
    batch = apt.AtpDataset(path).batch([0, 1, 2])
    for found, shape, other in zip(batch["key"], shapes, read, strict=True):
        assert torch.equal(found, torch.from_numpy(np.asarray(value(shape))))
        assert np.array_equal(np.asarray(other).reshape(shape), value(shape))


@pytest.mark.parametrize("shapes", PAIRS)
def test_files_of_one_data_set_may_differ(
    atompack: AtompackProcess, tmp_path: Path, shapes: tuple[Shape, Shape]
) -> None:
    paths = [
        atompack.write(tmp_path / f"{i}.atp", [plain(shape)]) for i, shape in enumerate(shapes)
    ]
    dataset = apt.AtpDataset(paths)
    assert dataset.schema["key"].shape is None
    batch = dataset.batch([1, 0, 1])
    for found, i in zip(batch["key"], (1, 0, 1), strict=True):
        assert torch.equal(found, torch.from_numpy(value(shapes[i])))
    assert torch.equal(dataset[0]["key"], torch.from_numpy(value(shapes[0])))
