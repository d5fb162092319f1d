"""What every structure must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atompack_torch.batch.columns import Column, Columns
from atompack_torch.batch.conversions import Parts
from atompack_torch.conversion import Report
from atompack_torch.conversion.checks import checked
from atompack_torch.errors import FieldError
from atompack_torch.fields import BUILTIN
from atompack_torch.formats.records import columns_of, records_of


def structure(**labels: Any) -> Parts:
    return Parts(np.zeros((2, 3)), np.array([1, 8]), labels, {}, {})


GOOD = structure(energy=np.array(1.0), forces=np.zeros((2, 3)), name="a", pbc=np.ones(3, bool))
WRONG = {
    "energy": (np.zeros(1), r"energy: expected \(\) numbers, got \(1,\) float64"),
    "forces": (np.zeros((3, 3)), r"forces: expected \(2, 3\) numbers, got \(3, 3\) float64"),
    "stress": (np.zeros(6), r"stress: expected \(3, 3\) numbers, got \(6,\) float64"),
    "charges": (np.array(["a", "b"]), r"charges: expected \(\) numbers, got \(\) <U1"),
    "cell": ("cubic", "cell: expected float64, got 'cubic'"),
    "name": (np.array(3), "name: expected string, got int64"),
}


@pytest.mark.parametrize("label", WRONG)
def test_a_label_of_the_wrong_shape(label: str) -> None:
    value, message = WRONG[label]
    columns = columns_of([GOOD, structure(**{label: value}), GOOD])
    with pytest.raises(FieldError, match=rf"x\.traj: {message} \(molecule 11\)"):
        checked(columns, "x.traj", 10, Report())
    report = Report("skip")
    kept = list(records_of(checked(columns, "x.traj", 10, report)))
    assert [record.labels.keys() for record in kept] == [GOOD.labels.keys()] * 2
    assert sum(report.skipped.values()) == 1


def test_a_whole_column_of_the_wrong_shape() -> None:
    columns = columns_of([structure(), structure(), structure()])
    stress = Column(BUILTIN, "stress", np.zeros((3, 6)), np.array([True, False, True]))
    report = Report("skip")
    kept = checked(columns.with_fields([stress]), "x", 0, report)
    assert len(kept.ptr) - 1 == 1
    assert sum(report.skipped.values()) == 2


def test_atomic_numbers() -> None:
    numbers = np.array([0, 255, 256, 1, -1, 300])
    columns = Columns(np.zeros((6, 3)), numbers, np.array([0, 2, 2, 3, 4, 6]), [])
    report = Report("skip")
    kept = checked(columns, "x", 0, report)
    assert kept.atomic_numbers.tolist() == [0, 255, 1]
    assert kept.ptr.tolist() == [0, 2, 2, 3]
    assert {why.split(" (")[1] for _, why in report.skipped} == {"molecule 2)", "molecule 4)"}


def test_good_structures_are_not_touched() -> None:
    columns = columns_of([GOOD, GOOD])
    assert checked(columns, "x", 0, Report()) is columns
