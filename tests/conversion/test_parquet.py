"""Parquet files in the layouts of public datasets, and others, written with pyarrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase.units
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reference.foreign import (
    SYMBOLS,
    assert_refused,
    converted,
    structures,
)

import atompack_torch as apt
from atompack_torch.conversion import convert

Data = dict[str, Any]
KBAR = -1000.0 * ase.units.bar
MATRIX, VECTORS = pa.list_(pa.list_(pa.float64())), pa.list_(pa.list_(pa.float64()))


def voigt(stress: Any) -> list[float]:
    return [float(stress[i]) for i in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))]


def column(values: list[Any], type_: pa.DataType) -> pa.Array:
    plain = [v.tolist() if isinstance(v, np.ndarray) else v for v in values]
    return pa.array(plain, type_)


def lemat(data: list[Data], *, trajectory: bool = True) -> dict[str, pa.Array]:
    """Columns of LeMat-Traj or LeMat-Bulk."""
    n = len(data)
    columns = {
        "elements": pa.array([["Fe", "O"]] * n),
        "nsites": pa.array([len(d["numbers"]) for d in data], pa.int32()),
        "chemical_formula_reduced": pa.array(["FeO"] * n),
        "dimension_types": pa.array([[1, 1, 1]] * n, pa.list_(pa.int8())),
        "lattice_vectors": column([d["cell"] for d in data], MATRIX),
        "immutable_id": pa.array([f"agm{i}" for i in range(n)]),
        "cartesian_site_positions": column([d["positions"] for d in data], VECTORS),
        "species_at_sites": pa.array([[SYMBOLS[z] for z in d["numbers"]] for d in data]),
        "stress_tensor": column([d["stress"] for d in data], MATRIX),
        "energy": pa.array([d["energy"] for d in data]),
        "forces": column([d["forces"] for d in data], VECTORS),
        "functional": pa.array(["pbe"] * n),
        "cross_compatibility": pa.array([True] * n),
    }
    if trajectory:
        columns["id"] = pa.array([f"agm{i}-pbe-0" for i in range(n)])
        columns["relaxation_step"] = pa.array([0] * n, pa.int32())
    else:
        columns["magnetic_moments"] = column([d["moments"] for d in data], pa.list_(pa.float64()))
        columns["dos_ef"] = pa.array([0.5] * n)
    return columns


def matpes(data: list[Data]) -> dict[str, pa.Array]:
    """Columns of MatPES, MPtrj and MP-ALOE at MPContribs."""
    n = len(data)
    return {
        "cell": column([d["cell"] for d in data], MATRIX),
        "atomic_numbers": column([d["numbers"] for d in data], pa.list_(pa.int64())),
        "cart_coords": column([d["positions"] for d in data], VECTORS),
        "magmoms": column([d["moments"] for d in data], pa.list_(pa.float64())),
        "energy": pa.array([d["energy"] for d in data]),
        "forces": column([d["forces"] for d in data], VECTORS),
        "abs_forces": column([np.ones(len(d["numbers"])) for d in data], pa.list_(pa.float64())),
        "stress": column([voigt(d["stress"]) for d in data], pa.list_(pa.float64())),
        "stress_matrix": pa.nulls(n, MATRIX),
        "bandgap": pa.array([0.25] * n),
        "matpes_id": pa.array([f"matpes-{i}" for i in range(n)]),
        "provenance": pa.array([{"md_step": i, "mlip_name": "M3GNet"} for i in range(n)]),
    }


def colabfit(data: list[Data]) -> dict[str, pa.Array]:
    """Columns of the parquet files of ColabFit."""
    n = len(data)
    return {
        "property_id": pa.array([f"PO_{i}" for i in range(n)]),
        "energy": pa.array([d["energy"] for d in data]),
        "atomic_forces": column([d["forces"] for d in data], VECTORS),
        "cauchy_stress": column([d["stress"] for d in data], MATRIX),
        "cauchy_stress_volume_normalized": pa.array([True] * n),
        "electronic_band_gap": pa.nulls(n, pa.float64()),
        "configuration_id": pa.array([f"CO_{i}" for i in range(n)]),
        "cell": column([d["cell"] for d in data], MATRIX),
        "positions": column([d["positions"] for d in data], VECTORS),
        "pbc": pa.array([[True, False, i % 2 == 0] for i in range(n)]),
        "atomic_numbers": column([d["numbers"] for d in data], pa.list_(pa.int32())),
        "names": pa.array([["a", "b"]] * n),
        "last_modified": pa.array([0] * n, pa.timestamp("us")),
    }


def written(path: Path, columns: dict[str, pa.Array], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def check(dataset: apt.AtpDataset, data: list[Data], factor: float = 1.0) -> None:
    assert len(dataset) == len(data)
    for molecule, own in zip((dataset[i] for i in range(len(data))), data, strict=True):
        assert molecule.atomic_numbers.tolist() == own["numbers"].tolist()
        for name in ("positions", "cell", "forces"):
            assert np.array_equal(molecule[name].numpy(), own[name]), name
        assert float(molecule.energy) == own["energy"]
        assert np.array_equal(molecule.stress.numpy(), own["stress"] * factor)


def test_lemat_traj(tmp_path: Path) -> None:
    data = structures([3, 1, 5, 2])
    dataset, report = converted(written(tmp_path / "a.parquet", lemat(data)))
    check(dataset, data)
    batch = dataset[:]
    assert batch.name == [f"agm{i}-pbe-0" for i in range(4)]
    assert batch["immutable_id"] == ["agm0", "agm1", "agm2", "agm3"]
    assert batch.pbc.all()
    assert batch["relaxation_step"].tolist() == [0] * 4
    assert "read as LeMat-Traj: energies in eV, forces in eV/Å" in report.notes
    assert any("does not state one unit and sign for 'stress_tensor'" in w for w in report.warnings)
    assert report.sources["stress"] == ["stress_tensor"]
    assert report.skipped["column 'elements'", "it follows from the molecule"] == 1
    assert report.source_units == ["stress", "energy", "forces"]
    flipped, _ = converted(tmp_path / "a.parquet", stress_unit="kbar", stress_sign="flip")
    check(flipped, data, KBAR)
    with pytest.raises(apt.UnsupportedFormatError, match="got a Parquet file"):
        apt.open(tmp_path / "a.parquet", convert=False)


def test_lemat_bulk(tmp_path: Path) -> None:
    data = structures([3, 1])
    columns = lemat(data, trajectory=False)
    dataset, report = converted(written(tmp_path / "a.parquet", columns))
    check(dataset, data)
    assert dataset[:].name == ["agm0", "agm1"]
    found = dataset[:]["magnetic_moments"].numpy()
    assert np.array_equal(found, np.concatenate([d["moments"] for d in data]))
    assert any(note.startswith("read as LeMat-Bulk") for note in report.notes)


def test_matpes_stress_is_converted(tmp_path: Path) -> None:
    data = structures([3, 1, 4])
    dataset, report = converted(written(tmp_path / "a.parquet", matpes(data)))
    check(dataset, data, KBAR)
    batch = dataset[:]
    assert batch.pbc.all()
    assert batch.name == ["matpes-0", "matpes-1", "matpes-2"]
    assert batch["bandgap"].tolist() == [0.25] * 3
    assert np.array_equal(batch["magmoms"].numpy(), np.concatenate([d["moments"] for d in data]))
    assert any("'stress' read as stress in eV/Å³" in note for note in report.notes)
    assert not report.warnings
    assert any("key_map can name its parts" in why for _, why in report.skipped)


def test_asymmetric_stresses_of_matpes(tmp_path: Path) -> None:
    data = structures([2, 2])
    columns = matpes(data)
    matrix = np.arange(9.0).reshape(3, 3)
    columns["stress"] = pa.array([voigt(data[0]["stress"]), None], pa.list_(pa.float64()))
    columns["stress_matrix"] = pa.array([None, matrix.tolist()], MATRIX)
    dataset, _ = converted(written(tmp_path / "a.parquet", columns))
    assert np.array_equal(dataset[0].stress.numpy(), data[0]["stress"] * KBAR)
    assert np.array_equal(dataset[1].stress.numpy(), matrix * KBAR)


def test_keys_leave_values_as_they_are(tmp_path: Path) -> None:
    data = structures([3, 1])
    path = written(tmp_path / "a.parquet", matpes(data))
    keys = {"stress": "stress", "provenance.md_step": "step", "bandgap": "properties/gap"}
    dataset, _ = converted(path, key_map=keys)
    check(dataset, data)
    assert dataset[:]["step"].tolist() == [0, 1]
    assert dataset[:]["gap"].tolist() == [0.25, 0.25]


def test_colabfit(tmp_path: Path) -> None:
    data = structures([3, 1, 2])
    (tmp_path / "set" / "co").mkdir(parents=True)
    written(tmp_path / "set" / "ds.parquet", {"id": pa.array(["DS_0"])})
    written(tmp_path / "set" / "co" / "co_0.parquet", colabfit(data[:2]))
    written(tmp_path / "set" / "co" / "co_1.parquet", colabfit(data[2:]))
    dataset, report = converted(tmp_path / "set")
    check(dataset, data)
    batch = dataset[:]
    assert batch.name == ["CO_0", "CO_1", "CO_0"]
    assert batch.pbc.tolist() == [[True, False, True], [True, False, False], [True, False, True]]
    assert batch["cauchy_stress_volume_normalized"].tolist() == [1, 1, 1]
    assert "electronic_band_gap" not in batch
    assert report.skipped["file 'ds.parquet'", "it has no column of positions"] == 1
    assert report.skipped["column 'names'", "lists of strings"] == 2
    assert any("ColabFit does not state" in warning for warning in report.warnings)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["fixed", "flat", "large"])
def test_other_files_by_common_names(tmp_path: Path, dtype: str, form: str) -> None:
    data = structures([2, 2, 2])
    places = np.concatenate([d["positions"] for d in data]).astype(dtype)
    leaf = pa.array(places.reshape(-1))
    nested: pa.Array
    if form == "fixed":
        nested = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(leaf, 3), 2)
    elif form == "flat":
        nested = pa.ListArray.from_arrays(pa.array([0, 6, 12, 18], pa.int32()), leaf)
    else:
        rows = pa.LargeListArray.from_arrays(pa.array(range(0, 19, 3), pa.int64()), leaf)
        nested = pa.LargeListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int64()), rows)
    columns = {
        "numbers": pa.array([[1, 8]] * 3, pa.list_(pa.uint8())),
        "positions": nested,
        "energy": pa.array([1.0, None, float("nan")]),
        "num_atoms": pa.array([2, 2, 2]),
        "charge_of_atom": pa.array([[0.5, 1.5]] * 3),
        "vector": pa.array([[1.0, 2.0, 3.0]] * 3),
        "tensor": pa.array([[[1.0, 2.0, 3.0]] * 3] * 3),
        "ragged": pa.array([[1.0], [1.0, 2.0], []]),
    }
    table = pa.table(columns).replace_schema_metadata({"units": "eV"})
    pq.write_table(table, tmp_path / "a.parquet")
    dataset, report = converted(tmp_path / "a.parquet")
    assert report.skipped["metadata 'units'", "of the whole file"] == 1
    batch = dataset[:]
    assert np.array_equal(batch.positions.numpy(), places)
    assert str(batch.positions.dtype) == f"torch.{dtype}"
    assert batch.mask("energy").tolist() == [True, False, False]
    assert report.nan_as_missing == {"energy": 1}
    assert batch["charge_of_atom"].tolist() == [0.5, 1.5] * 3
    assert batch["vector"].tolist() == [[1.0, 2.0, 3.0]] * 3
    assert batch["tensor"].tolist() == [[[1.0, 2.0, 3.0]] * 3] * 3
    assert "ragged" not in batch
    assert "num_atoms" not in batch


def test_a_column_of_positions_that_is_another_field(tmp_path: Path) -> None:
    places = [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]
    columns = {
        "positions": pa.array(places),
        "relaxed": pa.array([[[7.0, 8.0, 9.0]], [[0.0, 1.0, 2.0]]]),
        "atomic_numbers": pa.array([[1], [2]]),
    }
    source = written(tmp_path / "a.parquet", columns)
    keys = {"relaxed": "positions", "positions": "atom_properties/initial"}
    dataset, _ = converted(source, key_map=keys)
    assert dataset[:].positions.tolist() == [[7, 8, 9], [0, 1, 2]]
    assert dataset[:]["initial"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_missing_values(tmp_path: Path) -> None:
    data = structures([3, 1, 2])
    columns = lemat(data)
    forces = [d["forces"].tolist() for d in data]
    forces[1] = None
    forces[2] = [[None] * 3] * 2
    columns["forces"] = pa.array(forces, VECTORS)
    columns["energy"] = pa.array([None, 1.0, 2.0])
    columns["functional"] = pa.array(["pbe", None, "scan"])
    columns["relaxation_step"] = pa.array([None, 2, 3], pa.int32())
    dataset, report = converted(written(tmp_path / "a.parquet", columns))
    batch = dataset[:]
    assert batch.mask("forces").tolist() == [True, False, False]
    assert np.array_equal(dataset[0].forces.numpy(), data[0]["forces"])
    assert batch.mask("energy").tolist() == [False, True, True]
    assert batch.mask("functional").tolist() == [True, False, True]
    assert batch["functional"][2] == "scan"
    assert batch.mask("relaxation_step").tolist() == [False, True, True]
    assert report.nan_as_missing == {"forces": 1}


def test_blocks_over_row_groups(tmp_path: Path) -> None:
    data = structures([1 + i % 4 for i in range(9_000)])
    path = written(tmp_path / "a.parquet", lemat(data), row_group_size=1_700)
    dataset, report = converted(path)
    assert report.structures_written == 9_000
    batch = dataset[:]
    for name in ("positions", "forces"):
        assert np.array_equal(batch[name].numpy(), np.concatenate([d[name] for d in data]))
    assert batch.energy.tolist() == [d["energy"] for d in data]
    for part in range(3):
        convert(path, tmp_path / "parts", part=(part, 3), progress=False)
    parts = apt.AtpDataset(tmp_path / "parts")[:]
    assert np.array_equal(parts.positions.numpy(), batch.positions.numpy())
    assert parts.name == batch.name


def cut(keep: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(keep(path.read_bytes()))


def changed(name: str, values: Any) -> Callable[[Path], object]:
    """Changes a column, or removes it."""

    def harm(path: Path) -> None:
        columns = lemat(structures([2, 1, 3])) | {name: values and pa.array(values)}
        written(path, {key: each for key, each in columns.items() if each is not None})

    return harm


PLACES = [[[0.0] * 3] * 2, [[0.0] * 3], [[0.0] * 3] * 3]
AT, OF = "cartesian_site_positions", "species_at_sites"
TWO, ONE, THREE = PLACES
DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (cut(lambda data: data[:-9]), "not a Parquet file"),
    (cut(lambda data: data[:100] + data[-8:]), "not a Parquet file"),
    (cut(lambda data: b"PAR1"), "not a Parquet file"),
    (cut(lambda data: data[:4] + bytes(1500) + data[1504:]), "from row 0 on"),
    (changed("forces", [TWO, ONE, TWO]), r"expected 9 values in rows of 3, got 6 \(molecule 2\)"),
    (changed("forces", [TWO, [[0.0] * 2], THREE]), r"in rows of 3, got 2 \(molecule 1\)"),
    (changed(AT, [None, ONE, THREE]), r"positions: expected values, got null \(molecule 0\)"),
    (changed(OF, [["H", "H"], ["Q"], ["H"] * 3]), r"elements, got 'Q' \(molecule 1\)"),
    (changed(OF, [["H", "H"], ["H"], ["H", None, "H"]]), r"atomic_numbers: .*null \(molecule 2\)"),
    (changed("lattice_vectors", [[[1.0] * 3] * 2] * 3), r"lattice_vectors: expected 9 .*, got 6"),
]
OTHERS = [
    (changed(OF, [[1.0, 1.0], [1.0], [1.0] * 3]), "expected integers or symbols, got float64"),
    (changed(AT, None), "expected a column of positions, got .*: map one by key_map"),
    (changed(OF, None), "expected a column of atomic numbers"),
]


@pytest.mark.parametrize(
    ("kind", "harm", "message"),
    [
        *((apt.CorruptFileError, *case) for case in DAMAGE),
        *((apt.FieldError, *case) for case in OTHERS),
    ],
)
def test_damage(
    tmp_path: Path, kind: type[Exception], harm: Callable[[Path], object], message: str
) -> None:
    path = written(tmp_path / "a.parquet", lemat(structures([2, 1, 3])))
    harm(path)
    assert_refused(path, kind, message)


def test_wrong_structures_can_be_skipped(tmp_path: Path) -> None:
    data = structures([2, 1, 3])
    columns = lemat(data)
    columns["species_at_sites"] = pa.array([["H", "H"], ["Q"], ["H"] * 3])
    dataset, report = converted(written(tmp_path / "a.parquet", columns), on_error="skip")
    assert len(dataset) == report.structures_read == 2
    assert np.array_equal(dataset[1].positions.numpy(), data[2]["positions"])
    assert any("'Q' (molecule 1)" in why for _, why in report.skipped)


def test_columns_that_could_be_one_label(tmp_path: Path) -> None:
    columns = {
        "pos": pa.array(PLACES),
        "coords": pa.array(PLACES),
        "z": pa.array([[1, 1], [1], [1] * 3]),
    }
    path = written(tmp_path / "a.parquet", columns)
    with pytest.raises(apt.FieldError, match="'pos' and 'coords' could both be positions"):
        converted(path)
    dataset, _ = converted(path, key_map={"coords": "positions", "pos": "atom_properties/other"})
    assert dataset[:]["other"].shape == (6, 3)
    with pytest.raises(apt.FieldError, match="key_map: no column 'absent'"):
        converted(path, key_map={"absent": "energy", "coords": "positions"})


def test_every_cut_and_flip_ends_in_an_error_or_a_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", lemat(structures([2, 1, 3])), write_page_checksum=True)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    messages: list[str] = []
    for _ in range(150):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 3):
            data[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(data))
        try:
            converted(path)
        except (apt.CorruptFileError, apt.FieldError, apt.UnsupportedFormatError) as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert all(str(path) in message for message in messages)
