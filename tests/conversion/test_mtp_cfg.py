"""Configurations of MLIP, written by hand as ``mlp convert-cfg`` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import foreign
from reference.foreign import assert_refused

import atompack_torch as apt
from atompack_torch.cli import main
from atompack_torch.conversion import Report

CELL = np.array([[4.0, 0.0, 0.0], [0.0, 5.0, 0.0], [1.0, 0.0, 6.0]])
FILE = """BEGIN_CFG
 Size
    3
 Supercell
         4.000000      0.000000      0.000000
         0.000000      5.000000      0.000000
         1.000000      0.000000      6.000000
 AtomData:  id type       cartes_x      cartes_y      cartes_z           fx          fy          fz
             1    0       0.100000      0.200000      0.300000     0.010000   -0.020000    0.030000
             2    1       1.100000      1.200000      1.300000     0.040000    0.050000   -0.060000
             3    0       2.100000      2.200000      2.300000    -0.050000   -0.030000    0.030000
 Energy
       -12.345678901234
 PlusStress:  xx          yy          zz          yz          xz          xy
     1.20000     2.40000     3.60000     4.80000     6.00000     7.20000
 Feature   EFS_by       VASP
 Feature   mindist      1.732
END_CFG

BEGIN_CFG
 Size
    1
 AtomData:  id type       direct_x      direct_y      direct_z  site_en charge
             1    1       0.5      0.5      0.5   -1.5 0.25
 SuperCell
    2 0 0
    0 2 0
    0 0 2
END_CFG

BEGIN_CFG
 Size
    2
 AtomData:  type cartes_x cartes_y cartes_z
    1 0 0 0
    1 0 0 1e0
END_CFG
"""
KEYS = {"0": "Cu", "1": "Zr"}


def converted(text: str, folder: Path, **options: Any) -> tuple[apt.AtpDataset, Report]:
    options.setdefault("key_map", KEYS)
    return foreign.converted(folder / "train.cfg", text.encode(), **options)


def test_all_fields(tmp_path: Path) -> None:
    dataset, report = converted(FILE, tmp_path)
    assert len(dataset) == report.structures_read == 3
    first = dataset[0]
    assert first.atomic_numbers.tolist() == [29, 40, 29]
    assert first.positions.tolist() == [[i + 0.1, i + 0.2, i + 0.3] for i in range(3)]
    assert first.forces[0].tolist() == [0.01, -0.02, 0.03]
    assert first.energy.item() == -12.345678901234
    assert first.cell.numpy().tolist() == CELL.tolist()
    assert first.pbc.all()
    virial = np.array([[1.2, 7.2, 6.0], [7.2, 2.4, 4.8], [6.0, 4.8, 3.6]])
    assert first.stress.numpy().tolist() == (virial / -120.0).tolist()
    assert first["EFS_by"] == "VASP"
    assert first["mindist"].item() == 1.732
    second = dataset[1]
    assert second.positions.tolist() == [[1.0, 1.0, 1.0]]
    assert second["site_en"].tolist() == [-1.5]
    assert second.charges.tolist() == [0.25]
    assert {"energy", "forces", "stress"}.isdisjoint(second.keys())
    third = dataset[2]
    assert not third.pbc.any()
    assert "cell" not in third
    assert third.positions.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert any("-PlusStress / volume" in note for note in report.notes)
    assert any("direct coordinates" in note for note in report.notes)
    assert not report.skipped


def test_elements_are_asked_for(tmp_path: Path) -> None:
    for keys in ({}, {"0": "Cu"}, {"0": "Xx", "1": "Cu"}):
        with pytest.raises(apt.UnsupportedFormatError, match=r"--key \d=SYMBOL"):
            converted(FILE, tmp_path, key_map=keys)
    command = ["convert", f"{tmp_path}/train.cfg", f"{tmp_path}/b.atp", "--quiet"]
    assert main([*command, "--key", "0=Cu", "--key", "1=Zr"]) == 0
    assert apt.AtpDataset(tmp_path / "b.atp")[:].atomic_numbers.tolist() == [29, 40, 29, 40, 40, 40]


def test_features_become_labels_by_keys(tmp_path: Path) -> None:
    dataset, _ = converted(FILE, tmp_path, key_map={**KEYS, "mindist": "gap", "site_en": "e_site"})
    assert dataset[0]["gap"].item() == 1.732
    assert dataset[1]["e_site"].tolist() == [-1.5]
    with pytest.raises(apt.FieldError, match="no molecule has a field 'other'"):
        converted(FILE, tmp_path, key_map={**KEYS, "other": "x"})


def test_large_integers_keep_their_digits(tmp_path: Path) -> None:
    text = FILE.replace("1.732", "9007199254740993")
    assert converted(text, tmp_path)[0][0]["mindist"].item() == 9007199254740993


def test_old_stresses_are_left_out(tmp_path: Path) -> None:
    dataset, report = converted(FILE.replace("PlusStress:", "Stress:"), tmp_path)
    assert "stress" not in dataset[0]
    assert [what for what, _ in report.skipped] == ["Stress"]


def test_stress_without_a_cell(tmp_path: Path) -> None:
    text = FILE[FILE.rindex("BEGIN") :]
    text = text.replace("END_CFG", "PlusStress: xx yy zz yz xz xy\n 1 2 3 4 5 6\nEND_CFG")
    dataset, report = converted(text, tmp_path)
    assert "stress" not in dataset[0]
    assert ("stress", "a virial needs a cell with a volume") in report.skipped


def test_many_configurations(tmp_path: Path) -> None:
    one = FILE[: FILE.index("END_CFG") + 8]
    text = "".join(one.replace("-12.345678901234", str(-i)) for i in range(700))
    dataset, _ = converted(text, tmp_path)
    assert dataset[:].energy.tolist() == [-i for i in range(700)]


DAMAGE = [
    (FILE[: FILE.rindex("END_CFG")], "expected END_CFG at the end"),
    (FILE.replace("END_CFG\n\nBEGIN", "BEGIN", 1), r"line 18: expected END_CFG before"),
    ("x\n" + FILE, r"expected BEGIN_CFG, got 'x'"),
    (FILE.replace("    3\n", "    4\n", 1), "line 8: expected 4 lines of numbers"),
    (FILE.replace("    3\n", "    2\n", 1), "line 11: expected 2 lines of numbers, got '3 0"),
    (FILE.replace("    3\n", "  3.5\n", 1), "line 3: expected a number of atoms, got '3.5'"),
    (FILE.replace("    3\n", "-1\n", 1), "line 3: expected a number of atoms"),
    (FILE.replace("    3\n", "99999999999999\n", 1), "line 8: expected 99999999999999 lines"),
    (FILE.replace("1.100000", "abc"), "line 10: expected 8 numbers, got"),
    (FILE.replace("cartes_x", "what_x"), "expected columns cartes_x, cartes_y and cartes_z"),
    (FILE.replace("cartes_y", "cartes_x"), "different names of columns"),
    (FILE.replace(" Energy\n", " Energy\n\n x"), "expected 1 numbers"),
    (FILE.replace(" xy\n", "\n", 1), "line 14: expected xx, yy, zz, yz, xz and xy"),
    (FILE.replace("7.20000", ""), "expected 6 numbers"),
    (FILE.replace("             2    1 ", "             3    1 "), "expected ids 1 to 3, in order"),
    (FILE.replace("             2    1 ", "             2    1.5 "), "expected types from 0"),
    (FILE.replace("             2    1 ", "             2    999 "), "expected types from 0"),
    (FILE.replace(" Size\n    3\n", ""), "expected Size and AtomData"),
    (FILE.replace(" SuperCell", " SuperCell\n 1 2\n"), "expected 3 numbers, got '1 2'"),
    (FILE.replace("BEGIN_CFG\n", "BEGIN_CFG\n x\n"), "line 2: expected a field of a configuration"),
    ("BEGIN_CFG\nEND_CFG\n", "expected Size and AtomData"),
    (FILE.replace(" 1.732", "1" * 70_000), "expected less than 64 KiB"),
]


@pytest.mark.parametrize(("text", "message"), DAMAGE)
def test_damage(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "train.cfg").write_text(text)
    assert_refused(
        tmp_path / "train.cfg", apt.CorruptFileError, message, key_map=KEYS, format="mtp-cfg"
    )


def test_damaged_configurations_are_skipped(tmp_path: Path) -> None:
    text = FILE.replace("1.100000", "abc")
    dataset, report = converted(text, tmp_path, on_error="skip")
    assert len(dataset) == 2
    assert sum(report.skipped.values()) == 1
