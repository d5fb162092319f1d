"""Conversion of a source by several processes: each writes one ``.atp`` file of a folder.

Reports of the parts are kept next to them; their sum is the report of the whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atompack_torch.batch.columns import Columns
from atompack_torch.conversion.schema_unification import SchemaUnifier
from atompack_torch.formats.conversion_report import Report
from atompack_torch.formats.records import select
from atompack_torch.options import checked_part, files_in, is_url, part_range
from atompack_torch.publishing import published

Part = tuple[int, int]  # number of the part, from 0, and number of parts

PLAN = "parts.json"
_REPORTS = ".reports"
_NAME = re.compile(r"part-\d{5,}-of-(\d{5,})\.atp")


def spans(part: Part, counts: list[int]) -> list[Span]:
    """Returns the range of each source that belongs to a part of all of them.

    Args:
        part: number of the part and number of parts.
        counts: number of molecules of each source.

    Returns:
        The ranges. The one with the last molecule of a source has no end, so that nothing is lost
        if there are more molecules than counted.
    """
    whole = part_range(part, sum(counts))
    found, start = [], 0
    for count in counts:
        end = start + count
        first, last = (min(max(i - start, 0), count) for i in (whole.start, whole.stop))
        has_last = whole.start < end <= whole.stop or (end == 0 and part[0] == 0)
        found.append(Span(first, None if has_last else last))
        start = end
    return found


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
    known = _text_of(path)
    if known is None or (replace and known != text):
        with (
            contextlib.suppress(FileExistsError),  # another process was first
            published(path, "x" if known is None else "w") as hidden,
        ):
            hidden.write_text(text)
        known = _text_of(path)
    if known == text:
        return
    try:
        before = json.loads(known or "{}")
    except ValueError:
        before = {}
    differing = [name for name, value in plan.items() if before.get(name) != value]
    shown = ", ".join(differing) or "other options"
    raise ValueError(
        f"part: {folder} was started with other sources or options ({shown}): mode='w' "
        "(--overwrite) replaces its parts one by one, or choose another folder"
    )


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


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
    known: list[tuple[Path, SchemaUnifier]] = []  # those that have a field that none before had
    for path in paths:
        own = SchemaUnifier.of_file(path)
        for other, types in known:
            for key, here, there in own.clashes(types):
                return Clash((path, other), f"{key}: {here} in one file, {there} in another")
        if not any(own.fields() <= types.fields() for _, types in known):
            known.append((path, own))
    return None


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


class Piece(NamedTuple):
    """Molecules of a source in order.

    Attributes:
        columns: the molecules.
        first: number of the first one in its source.
        is_inside: True if they belong to the part; otherwise only their types count.
    """

    columns: Columns
    first: int
    is_inside: bool


class Span(NamedTuple):
    """Range of molecules of one source that belong to a part.

    Attributes:
        first: number of the first molecule.
        last: one past the last molecule; None: up to the end of the source.
    """

    first: int = 0
    last: int | None = None

    def length(self, count: int) -> int:
        """Returns the number of molecules in the range, given that of the source."""
        return (count if self.last is None else self.last) - self.first

    def cut(self, columns: Columns, start: int) -> Iterator[Piece]:
        """Splits a block of a source at the bounds of the range.

        Args:
            columns: the block.
            start: number of its first molecule.

        Yields:
            The same molecules in the same order.
        """
        n = len(columns.ptr) - 1
        end = n if self.last is None else min(max(self.last - start, 0), n)
        begin = min(max(self.first - start, 0), end)
        for low, high, is_inside in ((0, begin, False), (begin, end, True), (end, n, False)):
            if high - low == n:
                yield Piece(columns, start, is_inside)
            elif high > low:
                numbers = np.arange(n)
                piece = select(columns, (numbers >= low) & (numbers < high))
                yield Piece(piece, start + low, is_inside)
