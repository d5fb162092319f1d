"""What the commands share: how results and errors are written."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.errors import FieldError

if TYPE_CHECKING:
    from atompack_torch import AtpDataset


class UsageError(Exception):
    """Options that do not go together, or something that is not installed."""


def add_paths(parser: argparse.ArgumentParser) -> None:
    """The files that a command looks at."""
    parser.add_argument(
        "path",
        nargs="+",
        metavar="PATH",
        help="an .atp file or a folder of them, Atlas shards, an ATLAS store, an .af file",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Every command can say what it found to other programs."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def files_at(paths: Sequence[str]) -> list[str]:
    """The files behind all paths, shards of folders included."""
    from atompack_torch.passes.atp_files import files_of

    return [file for path in paths for file in files_of(path)]


def open_dataset(paths: Sequence[str], fields: list[str] | None, **options: Any) -> AtpDataset:
    """All paths as one data set; asking for a label that no file has is wrong usage."""
    from atompack_torch import AtpDataset

    files = files_at(paths)
    try:
        return AtpDataset(files[0] if len(files) == 1 else files, fields=fields, **options)
    except FieldError as error:
        raise UsageError(str(error)) from None


def are_all(paths: Sequence[str], is_one: Callable[[Path], bool], what: str) -> bool:
    """Whether all paths are of a kind, or none is: a mixture is wrong usage."""
    found = {is_one(Path(path)) for path in paths}
    if len(found) > 1:
        raise UsageError(f"expected {what} or other files, got both")
    return found == {True}


def shows_progress(options: argparse.Namespace) -> bool:
    """A bar is for people who watch."""
    return not options.json and sys.stderr.isatty()


def report_faults(
    document: dict[str, Any],
    as_json: bool,
    found: Mapping[str, tuple[Sequence[str], int]],
    warnings: Sequence[str],
    summary: str,
) -> int:
    """Writes what a check found.

    Args:
        document: all of it, for other programs.
        as_json: print that alone.
        found: by their kind the faults to list, and how many there are of it.
        warnings: what readers get over.
        summary: the last line.

    Returns:
        The exit status: 1 if there is a fault.
    """
    with contextlib.suppress(BrokenPipeError):  # the exit status stands
        if as_json:
            print_json(document)
        else:
            for kind, (faults, n) in found.items():
                for fault in faults:
                    print(printable(fault))
                if more := n - len(faults):
                    print(f"... and {more:,} more {kind}")
            for warning in warnings:
                print(f"warning: {printable(warning)}")
            print(summary)
    return 1 if any(n for _, n in found.values()) else 0


def error_document(kind: str, message: str, status: int) -> dict[str, Any]:
    """An error for other programs: the class that Python code would catch, text, exit status."""
    return {"error": {"type": kind, "message": message, "status": status}}


def print_json(value: Any) -> None:
    """Strict JSON in plain ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))


def printable(text: str) -> str:
    """One line without control characters: keys in files may hold what a terminal would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Columns as wide as they need to be, the last one unpadded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(indent + line.rstrip() for line in lines)
