"""The report of a conversion."""

from __future__ import annotations

import json

from atompack_torch.conversion import Report
from atompack_torch.errors import CorruptFileError


def filled() -> Report:
    report = Report("skip")
    report.structures_read, report.structures_written, report.atoms_written = 1200, 1199, 34000
    report.labels.update({"energy": 1199, "properties/gap": 7})
    report.skip("constraints", "no place for them")
    report.skip("constraints", "no place for them", 2)
    report.refuse(CorruptFileError("x.traj: broken (molecule 3)"))
    report.note("once")
    report.note("once")
    report.changes.append("stress: sign flipped")
    report.bytes_read, report.bytes_written = 999, 12_345_678
    report.finish()
    return report


def test_the_table_tells_everything() -> None:
    text = str(filled())
    for part in (
        "1,200 molecules, 999 B",
        "1,199 molecules, 34,000 atoms, 12.3 MB",
        "1,199  energy",
        "7  properties/gap",
        "3  constraints: no place for them",
        "1  structures: x.traj: broken (molecule 3)",
        "stress: sign flipped",
    ):
        assert part in text
    assert text.count("once") == 1
    assert (
        repr(filled()).splitlines()[3:] == text.splitlines()[3:]
    )  # in notebooks, except for the time


def test_json_holds_the_same() -> None:
    plain = json.loads(json.dumps(filled().as_dict(), allow_nan=False))
    assert plain["structures_written"] == 1199
    assert plain["labels"] == {"energy": 1199, "properties/gap": 7}
    assert {"what": "constraints", "why": "no place for them", "count": 3} in plain["skipped"]
    assert plain["notes"] == ["once"]
    assert plain["seconds"] >= 0
