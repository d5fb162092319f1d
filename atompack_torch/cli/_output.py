"""What the commands share: how results and errors are written."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from atompack_torch.inspection.text import printable

if TYPE_CHECKING:
    from atompack_torch.inspection.entry import Check, Entry


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


def entry_of(paths: Sequence[str]) -> Entry:
    """The module that answers for the format of all paths.

    Raises:
        UsageError: paths of several formats.
    """
    from atompack_torch.errors import UnsupportedFormatError
    from atompack_torch.inspection.dispatch import entry_of

    try:
        return entry_of(paths)
    except UnsupportedFormatError as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Makes wrong usage of options that do not fit the data: a label that no file has, say."""
    from atompack_torch.inspection.entry import WrongOptionError

    try:
        yield
    except (WrongOptionError, TypeError) as error:
        raise UsageError(str(error)) from None


def shows_progress(options: argparse.Namespace) -> bool:
    """A bar is for people who watch."""
    return not options.json and sys.stderr.isatty()


def report_check(found: Check, as_json: bool) -> int:
    """Writes what a check found.

    Returns:
        The exit status: 1 if there is a fault.
    """
    report = found.report()
    with contextlib.suppress(BrokenPipeError):  # the exit status stands
        if as_json:
            print_json(found.as_dict())
        else:
            for kind, (faults, n) in report.faults.items():
                for fault in faults:
                    print(printable(fault))
                if more := n - len(faults):
                    print(f"... and {more:,} more {kind}")
            for warning in report.warnings:
                print(f"warning: {printable(warning)}")
            print(printable(report.summary))
    return 0 if found.ok else 1


def error_document(kind: str, message: str, status: int) -> dict[str, Any]:
    """An error for other programs: the class that Python code would catch, text, exit status."""
    return {"error": {"type": kind, "message": message, "status": status}}


def print_json(value: Any) -> None:
    """Strict JSON in plain ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))
