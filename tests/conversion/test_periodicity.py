"""A cell without ``pbc``: periodic with a note where it has a volume, else an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest

import atompack_torch as apt
from atompack_torch.batch.columns import Column, Columns
from atompack_torch.conversion import Report, convert
from atompack_torch.fields import BUILTIN

FULL, FLAT, NONE = np.eye(3) * 3, np.diag([3.0, 3.0, 0.0]), np.zeros((3, 3))


def file_with(path: Path, cells: list[Any]) -> Path:
    """Molecules of two atoms, in the format of the suffix."""
    arrays = {
        "positions": np.array([[[0.0, 0, 0], [0, 0, 1]]] * len(cells)),
        "atomic_numbers": np.ones((len(cells), 2), dtype=np.int64),
        "cell": np.array(cells),
    }
    if path.suffix == ".npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    elif path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            for key, values in arrays.items():
                file[key] = values
    else:
        import pyarrow
        import pyarrow.parquet

        columns = {key: values.tolist() for key, values in arrays.items()}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def written(path: Path, cells: list[Any], **more: Any) -> apt.AtpDataset:
    with apt.AtpWriter(path) as writer:
        writer.write_arrays(
            positions=np.array([[[0.0, 0, 0], [0, 0, 1]]] * len(cells)),
            atomic_numbers=np.ones((len(cells), 2), dtype=np.int64),
            cell=np.array(cells),
            **more,
        )
    return apt.AtpDataset(path, neighbors=apt.NeighborList(3.5))


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".parquet"])
def test_sources(tmp_path: Path, suffix: str) -> None:
    source = file_with(tmp_path / f"a{suffix}", [FULL, NONE, FULL])
    report = convert(source, tmp_path / "a.atp", progress=False)
    batch = apt.AtpDataset(tmp_path / "a.atp", neighbors=apt.NeighborList(3.5))[:]
    assert batch.pbc.all(dim=1).tolist() == [True, False, True]
    assert batch.edge_index.shape[1] == 24 + 2 + 24
    assert "pbc: T T T where it was absent next to a cell" in report.notes
    for cell, message in ((FLAT, "three independent vectors"), (FULL * [1, np.nan, 1], "finite")):
        source = file_with(tmp_path / f"b{suffix}", [FULL, cell])
        with pytest.raises(apt.FieldError, match=rf"cell: expected {message}.*\(molecule 1\)"):
            convert(source, tmp_path / "b.atp", mode="w", progress=False)
        report = convert(source, tmp_path / "b.atp", mode="w", on_error="skip", progress=False)
        assert report.structures_written == 1


def test_writer(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="cell without pbc: written as periodic"):
        dataset = written(tmp_path / "a.atp", [FULL, NONE])
    assert dataset[:].edge_index.shape[1] == 24 + 2
    assert dataset[:].mask("pbc").tolist() == [True, False]
    with pytest.raises(apt.FieldError, match=r"cell: expected finite.*\(molecule 1\)"):
        written(tmp_path / "b.atp", [FULL, FLAT])
    partly = written(tmp_path / "c.atp", [FLAT], pbc=np.array([[True, True, False]]))
    assert partly[0].pbc.tolist() == [True, True, False]


def test_files_that_mean_it_stay_open(tmp_path: Path) -> None:
    column = Column(BUILTIN, "cell", FULL[None])
    with apt.AtpWriter(tmp_path / "a.atp") as writer:  # as the original library writes it
        writer.write_columns(Columns(np.zeros((1, 3)), np.ones(1, int), np.array([0, 1]), [column]))
    for source, target in (("a.atp", "b.parquet"), ("b.parquet", "c.atp")):
        convert(tmp_path / source, tmp_path / target, progress=False)
    assert "pbc" not in apt.AtpDataset(tmp_path / "c.atp")[:]


def test_pbc_without_a_cell(tmp_path: Path) -> None:
    import ase
    import ase.io

    ase.io.write(tmp_path / "a.traj", ase.Atoms("H", pbc=True))
    report: Report = convert(tmp_path / "a.traj", tmp_path / "a.atp", progress=False)
    assert any("molecules without a cell" in warning for warning in report.warnings)


def test_open_molecules_with_a_cell_stay_open_in_extended_xyz(tmp_path: Path) -> None:
    with apt.AtpWriter(tmp_path / "a.atp") as writer:
        writer.write(apt.Molecule(np.zeros((1, 3)), np.array([8]), cell=np.eye(3) * 4))
    report = convert(tmp_path / "a.atp", tmp_path / "b.xyz", progress=False)
    assert "pbc: F F F where it was absent next to a cell" in report.notes
    assert not apt.ExtxyzDataset(tmp_path / "b.xyz")[0].pbc.any()
    assert not ase.io.read(tmp_path / "b.xyz").pbc.any()
