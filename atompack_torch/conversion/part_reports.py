"""Reports of the parts of a conversion, kept beside them: their sum tells what became of all."""

from __future__ import annotations

import json
from pathlib import Path

from atompack_torch.formats.conversion_report import Report
from atompack_torch.publishing import published

_FOLDER = ".reports"


def keep_report(part_file: Path, report: Report) -> None:
    """Keeps the report of a part that is complete.

    Args:
        part_file: the file of the part.
        report: its report.
    """
    kept = _place_of(part_file)
    kept.parent.mkdir(exist_ok=True)
    with published(kept) as hidden:
        hidden.write_text(json.dumps(report.as_dict()))


def forget_report(part_file: Path) -> None:
    """Removes the report of a part that is converted again."""
    _place_of(part_file).unlink(missing_ok=True)


def whole_report(part_files: list[Path]) -> Report | None:
    """Returns the sum of the reports of all parts.

    Args:
        part_files: the files of all parts, whether they are there or not.

    Returns:
        The sum; None while a part is missing. A part whose report was lost is named in a note.
    """
    if not all(file.exists() for file in part_files):
        return None
    whole = Report()
    for file in part_files:
        try:
            whole.add(json.loads(_place_of(file).read_text()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            whole.note(f"{file.name}: its report was lost, and is not in these numbers")
    return whole


def _place_of(part_file: Path) -> Path:
    return part_file.parent / _FOLDER / f"{part_file.stem}.json"
