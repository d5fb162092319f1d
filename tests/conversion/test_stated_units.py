"""Units that a source states: converted, unless they are kept; named in the report either way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ase
import ase.db
import ase.units
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import atompack_torch as apt
from atompack_torch.conversion import Changes, Report, convert
from atompack_torch.conversion.units import known_unit

KCAL = ase.units.kcal / ase.units.mol
HARTREE, BOHR = ase.units.Hartree, ase.units.Bohr
PLACES = np.arange(12.0).reshape(2, 2, 3)
KEYS = {"U0": "energy", "F": "forces"}


def run(source: Path, **options: Any) -> tuple[Report, Any]:
    target = source.with_suffix(".atp")
    report = convert(source, target, mode="w", progress=False, **options)
    return report, apt.AtpDataset(target)[:]


def hdf5(path: Path, e: str = "hartree", x: str = "Bohr", f: str = "Hartree/bohr") -> Path:
    with h5py.File(path, "w") as file:
        for name, values, unit in (
            ("positions", PLACES, x),
            ("energy", np.ones(2), e),
            ("forces", PLACES, f),
            ("dipoles", np.ones((2, 3)), "debye"),
        ):
            file[name] = values
            file[name].attrs["units"] = unit
        file["numbers"] = np.array([1, 1])
    return path


def hdf5_text(path: Path) -> Path:
    """Units as text of their own, of any length, as h5py writes it."""
    with h5py.File(hdf5(path), "a") as file:
        for name, label in (("r_unit", "positions"), ("e_unit", "energy"), ("f_unit", "forces")):
            file[name] = file[label].attrs.pop("units")
    return path


def database(path: Path, metadata: dict[str, Any]) -> Path:
    with ase.db.connect(path, append=False) as rows:
        for _ in range(2):
            rows.write(ase.Atoms("H2", PLACES[0]), data={"U0": np.ones(1), "F": np.ones((2, 3))})
        rows.metadata = metadata
    return path


def schnetpack(path: Path) -> Path:
    units = {"U0": "kcal/mol", "F": "kcal/mol/Ang", "mu": "Debye"}
    return database(path, {"_property_unit_dict": units, "_distance_unit": "Ang"})


def of_ase(path: Path) -> Path:
    described = {"U0": ("U0", "energy", "kcal/mol"), "F": ("F", "forces", "kcal/mol/Ang")}
    return database(path, {"key_descriptions": described})


def parquet(path: Path) -> Path:
    fields = [("positions", PLACES.tolist(), "Ang"), ("numbers", [[1, 1]] * 2, "")]
    fields += [("U0", [1.0, 1.0], "kcal/mol"), ("F", np.ones((2, 2, 3)).tolist(), "kcal/mol/Ang")]
    made = [pa.array(values) for _, values, _ in fields]
    schema = [
        pa.field(name, array.type, metadata={"units": unit})
        for (name, _, unit), array in zip(fields, made, strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(made, schema=pa.schema(schema)), path)
    return path


@pytest.mark.parametrize(
    ("make", "name", "keys", "factors"),
    [
        (hdf5, "a.h5", {}, (HARTREE, BOHR, HARTREE / BOHR)),
        (hdf5_text, "b.h5", {}, (HARTREE, BOHR, HARTREE / BOHR)),
        (schnetpack, "a.db", KEYS, (KCAL, 1.0, KCAL)),
        (of_ase, "b.db", KEYS, (KCAL, 1.0, KCAL)),
        (schnetpack, "a.aselmdb", KEYS, (KCAL, 1.0, KCAL)),
        (parquet, "a.parquet", KEYS, (KCAL, 1.0, KCAL)),
    ],
)
def test_stated_units_are_converted_unless_they_are_kept(
    tmp_path: Path,
    make: Callable[[Path], Path],
    name: str,
    keys: dict[str, str],
    factors: tuple[float, float, float],
) -> None:
    source = make(tmp_path / name)
    report, kept = run(source, key_map=keys, keep_units=True)
    assert report.changes == []
    (note,) = [note for note in report.notes if "states units that were kept" in note]
    assert " in hartree" in note or " in kcal/mol" in note
    report, batch = run(source, key_map=keys)
    for label, factor in zip(("energy", "positions", "forces"), factors, strict=True):
        assert np.allclose(batch[label], kept[label] * factor, rtol=1e-15)
    assert all("as the source states (keep_units keeps it)" in line for line in report.changes)
    assert {line.partition(":")[0] for line in report.changes} == {"energy", "forces"} | (
        {"positions"} if factors[1] != 1.0 else set()
    )
    given, other = run(source, key_map=keys, energy_unit="meV")
    assert np.allclose(other.energy, kept.energy * 1e-3)
    assert any("converted from meV, but" in warning for warning in given.warnings)


def test_units_that_differ_between_databases_of_a_folder_are_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    of_ase(folder / "1.aselmdb")
    database(folder / "2.aselmdb", {})
    with pytest.raises(apt.FieldError, match="expected one unit, got none after kcal/mol"):
        run(folder, key_map=KEYS)
    assert run(folder, key_map=KEYS, keep_units=True)[1].energy.tolist() == [1] * 4


def test_units_that_are_not_known_stay(tmp_path: Path) -> None:
    report, batch = run(hdf5(tmp_path / "a.h5", e="furlongs", x="Ang", f="eV/A"))
    assert batch.energy.tolist() == [1, 1]
    (warning,) = report.warnings
    assert "states the unit 'furlongs', which is not known: values stay" in warning


def test_text_of_structures_that_names_units_is_a_warning(tmp_path: Path) -> None:
    comment = 'energy=1 energy_unit="kcal/mol" Properties=species:S:1:pos:R:3'
    (tmp_path / "a.xyz").write_text(f"1\n{comment}\nH 0 0 0\n")
    (warning,) = run(tmp_path / "a.xyz")[0].warnings
    assert "'energy_unit' says 'kcal/mol': units are those of the source" in warning


def test_units_that_change_within_a_source_are_an_error(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for group, unit in (("a", "hartree"), ("b", "kcal/mol")):
            file[f"{group}/positions"], file[f"{group}/numbers"] = PLACES, np.array([1, 1])
            file[f"{group}/energy"] = np.ones(2)
            file[f"{group}/energy"].attrs["units"] = unit
    with pytest.raises(apt.FieldError, match="energy: expected one unit, got kcal/mol after Hartr"):
        run(tmp_path / "a.h5")
    assert run(tmp_path / "a.h5", keep_units=True)[1].energy.tolist() == [1] * 4


@pytest.mark.parametrize(
    ("label", "text", "unit"),
    [
        ("energy", "HARTREE", "Hartree"),
        ("energy", "kcal / mol", "kcal/mol"),
        ("forces", "kcal/(mol Angstrom)", None),
        ("forces", "kcal/mol/Angstrom", "kcal/mol/Angstrom"),
        ("forces", "eV/A", "eV/Ang"),
        ("positions", "A", "Ang"),
        ("cell", "bohr", "Bohr"),
        ("stress", "GPa", "GPa"),
        ("stress", "ev/angstrom**3", "eV/Angstrom^3"),
        ("energy", "A", None),
        ("charges", "e", None),
    ],
)
def test_spellings(label: str, text: str, unit: str | None) -> None:
    assert known_unit(label, text) == unit


def test_groups_of_molecules_without_units_are_a_warning(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("part/molecule_1")
        group["species"] = np.array([b"H", b"H"])
        group["coordinates"], group["energies"], group["forces"] = PLACES, np.ones(2), PLACES
    report, batch = run(tmp_path / "a.h5")
    (warning,) = report.warnings
    assert "do not state one unit and sign" in warning
    assert "force_sign='flip'" in warning
    assert batch.energy.tolist() == [1, 1]


NAMED = "energy: none was found, but there is 'energy_per_atom'"
CURED = (
    "forces: none was found, but there is 'force': "
    "key_map={'force': 'forces'} (--key force=forces) reads it"
)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"E": np.ones(2), "force": PLACES}, CURED),
        ({"forces": PLACES, "energy_per_atom": np.ones(2)}, NAMED),
    ],
)
def test_labels_under_other_names_are_named(
    tmp_path: Path, more: dict[str, Any], text: str
) -> None:
    arrays = {"R": PLACES, "z": np.array([1, 1]), "stress": np.zeros((2, 3, 3))}
    np.savez(tmp_path / "a.npz", **arrays, **more)
    warnings = run(tmp_path / "a.npz")[0].warnings
    assert any(warning.endswith(f": {text}") for warning in warnings)


def test_all_changes_are_options_of_convert(tmp_path: Path) -> None:
    source = hdf5(tmp_path / "a.h5")
    options = {"energy_unit": "Ha", "force_sign": "flip", "dtype": "float32"}
    report, batch = run(source, **options)
    again, other = run(source, changes=Changes(**options))  # type: ignore[arg-type]
    assert report.changes == again.changes
    assert batch.forces.tolist() == other.forces.tolist()
    for wrong, message in (
        ({"energy_units": "Ha"}, "energy_units: expected an option of convert or of Changes"),
        ({"changes": Changes(), "keep_units": True}, "keep_units: expected changes or single opt"),
        ({"keys": {}}, "keys: expected key_map="),
    ):
        with pytest.raises(TypeError, match=message):
            run(source, **wrong)
