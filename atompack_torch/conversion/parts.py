"""Conversion of a source by several processes: each writes one ``.atp`` file of a folder.

Reports of the parts are kept next to them; their sum is the report of the whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from atompack_torch.fields import FieldSpec
from atompack_torch.formats.atp.dataset import AtpDataset
from atompack_torch.formats.conversion_report import Report
from atompack_torch.options import checked_part, files_in, is_url
from atompack_torch.publishing import published

Part = tuple[int, int]  # number of the part, from 0, and number of parts

PLAN = "parts.json"
_REPORTS = ".reports"
_NAME = re.compile(r"part-\d{5,}-of-(\d{5,})\.atp")


def part_path(folder: str | os.PathLike[str], part: object) -> str:
    """Returns the path or URL of the file for a part.

    Args:
        folder: path or URL of the folder.
        part: number of the part, from 0, and number of parts.

    Returns:
        The path, as in ``FOLDER/part-00003-of-00008.atp``.

    Raises:
        TypeError, ValueError: there is no such part.
    """
    number, count = checked_part(part)
    name = f"part-{number:05}-of-{count:05}.atp"
    if isinstance(folder, str) and is_url(folder):
        return f"{folder.rstrip('/')}/{name}"
    return str(Path(folder) / name)


def check_folder(folder: Path, part: Part) -> None:
    """Checks that a folder holds parts of the same division and no other ``.atp`` files.

    Args:
        folder: the folder, which need not exist.
        part: number of the part and number of parts.

    Raises:
        ValueError: it holds other files, which datasets would read too.
        NotADirectoryError: it is a file.
    """
    if not folder.is_dir():
        if folder.exists():
            raise NotADirectoryError(f"{folder}: expected a folder for the parts, got a file")
        return
    for path in map(Path, files_in(folder, ".atp")):
        found = _NAME.fullmatch(path.name)
        if path.parent != folder or found is None or int(found[1]) != part[1]:
            raise ValueError(
                f"part: {folder} holds {path.relative_to(folder)}, which is none of {part[1]} "
                "parts: remove it, or choose another folder"
            )


def agree_on_plan(folder: Path, part: Part, plan: Mapping[str, Any], *, replace: bool) -> None:
    """Stores what all parts of a folder must have in common, or compares with it.

    The file appears complete, whichever of several processes is first.

    Args:
        folder: the folder, which is created.
        part: number of the part and number of parts.
        plan: plain values: the number of parts, the numbers of molecules, and options.
        replace: replace another plan, which always happens while there are no parts.

    Raises:
        ValueError: the folder was begun with another plan.
    """
    folder.mkdir(exist_ok=True)
    replace = replace or not files_in(folder, ".atp", is_deep=False)
    path = folder / PLAN
    text = json.dumps(plan, indent=1, sort_keys=True) + "\n"
    known = path.read_text() if path.exists() else None
    if known is None or (replace and known != text):
        with (
            contextlib.suppress(FileExistsError),  # another process was first
            published(path, "x" if known is None else "w") as hidden,
        ):
            hidden.write_text(text)
        known = path.read_text()
    if known == text:
        return
    try:
        before = json.loads(known)
    except ValueError:
        before = {}
    differing = [name for name, value in plan.items() if before.get(name) != value]
    shown = ", ".join(differing) or "other options"
    raise ValueError(
        f"part: {folder} was started with other sources or options ({shown}): mode='w' "
        "(--overwrite) replaces its parts one by one, or choose another folder"
    )


class Clash(NamedTuple):
    """Types of one field in two files that cannot share a batch.

    Attributes:
        paths: the two files.
        text: the field and its types.
    """

    paths: tuple[Path, Path]
    text: str


def type_clash(paths: Sequence[Path]) -> Clash | None:
    """Finds a field whose types in several files cannot share a batch.

    Args:
        paths: ``.atp`` files.

    Returns:
        The first such field; None if all files can be read as one dataset.
    """
    known: dict[str, tuple[Path, FieldSpec]] = {}
    for path in paths:
        with AtpDataset(path) as dataset:
            schema = dataset.schema
        for name, own in schema.items():
            if own.dtype == "none":
                continue
            other, there = known.setdefault(name, (path, own))
            if _kind_of(own) != _kind_of(there):
                here, theirs = (str(spec.dtype).removeprefix("torch.") for spec in (own, there))
                text = f"{name}: {here} in one file, {theirs} in another"
                return Clash((path, other), text)
    return None


def _kind_of(spec: FieldSpec) -> str:
    """Returns what the values of a field must have in common in a batch, unlike their widths."""
    if isinstance(spec.dtype, str):
        return spec.dtype
    return "real" if spec.dtype.is_floating_point else "integer"


def warn_of_types(folder: Path, report: Report) -> None:
    """Warns if the parts in a folder cannot be read as one dataset.

    Args:
        folder: the folder.
        report: receives the warning.
    """
    clash = type_clash([Path(file) for file in files_in(folder, ".atp", is_deep=False)])
    if clash is not None:
        names = " and ".join(sorted(path.name for path in clash.paths))
        report.warn(
            f"{clash.text} ({names}): batches that hold both cannot be read; give all sources one "
            "type first"
        )


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


def whole_report(folder: Path, n_parts: int) -> Report | None:
    """Returns the sum of the reports of all parts.

    Args:
        folder: the folder.
        n_parts: number of parts.

    Returns:
        The sum; None while a part is missing. A part whose report was lost is named in a note.
    """
    files = [Path(part_path(folder, (i, n_parts))) for i in range(n_parts)]
    if not all(file.exists() for file in files):
        return None
    whole = Report()
    for file in files:
        try:
            whole.add(json.loads(_place_of(file).read_text()))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            whole.note(f"{file.name}: its report was lost, and is not in these numbers")
    return whole


def _place_of(part_file: Path) -> Path:
    return part_file.parent / _REPORTS / f"{part_file.stem}.json"
