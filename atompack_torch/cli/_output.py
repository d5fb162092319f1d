"""Output of results and errors, shared by the commands."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TextIO

from atompack_torch.errors import printable

if TYPE_CHECKING:
    from atompack_torch.formats.verification import Verification


Style = Literal["bold", "dim", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, str] = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}


def has_colors(stream: TextIO | None) -> bool:
    """True if a stream shows colors: a terminal, unless ``NO_COLOR`` is set or ``TERM`` is dumb.

    ``FORCE_COLOR`` asks for colors wherever the output goes.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: Style, stream: TextIO | None) -> str:
    """Returns a text in a style if the stream shows colors, else as given.

    Args:
        text: the text, without control characters.
        style: name of the style.
        stream: where it will be written.

    Returns:
        The text, with escape sequences around it.
    """
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if has_colors(stream) else text


class UsageError(Exception):
    """Incompatible options, or a missing package."""


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Converts errors about options that do not fit the data (absent labels) to usage errors."""
    from atompack_torch.formats.entry import SeveralFormatsError, WrongOptionError

    try:
        yield
    except (SeveralFormatsError, WrongOptionError, TypeError) as error:
        raise UsageError(str(error)) from None


def shows_progress(options: argparse.Namespace) -> bool:
    """True if a progress bar should be shown, as on a terminal."""
    return not options.json and sys.stderr.isatty()


def report_check(found: Verification, as_json: bool) -> int:
    """Prints the result of a check.

    Args:
        found: the result.
        as_json: print one JSON document.

    Returns:
        The exit status: 1 if there is a fault.
    """
    report = found.report()
    with contextlib.suppress(BrokenPipeError):  # the exit status is unaffected
        if as_json:
            print_json(found.as_dict())
        else:
            for kind, (faults, n) in report.faults.items():
                for fault in faults:
                    print(printable(fault))
                if more := n - len(faults):
                    print(f"... and {more:,} more {kind}")
            for warning in report.warnings:
                print(styled(f"warning: {printable(warning)}", "yellow", sys.stdout))
            color: Style = "green" if found.ok else "red"
            print(styled(printable(report.summary), color, sys.stdout))
    return 0 if found.ok else 1


def print_result(
    options: argparse.Namespace,
    document: Any,
    text: str,
    show: Callable[[str], object] = print,
) -> None:
    """Prints a result as it was asked for.

    Args:
        options: the parsed options.
        document: the result as plain JSON values.
        text: the same in readable form.
        show: prints the text.
    """
    if options.json:
        print_json(document)
    else:
        show(text)


def print_text(text: str) -> None:
    """Prints a description: on a terminal its first line is bold, and names of others are cyan.

    Args:
        text: lines, of which those of tables and of details are indented.
    """
    first, *lines = text.split("\n")
    print(styled(first, "bold", sys.stdout))
    for line in lines:
        name, colon, rest = line.partition(": ")
        has_name = bool(colon) and not line.startswith(" ")
        print(f"{styled(f'{name}:', 'cyan', sys.stdout)} {rest}" if has_name else line)


def print_error(command: str, message: str) -> None:
    """Prints an error on stderr, the name of the command in red on a terminal.

    Args:
        command: name of the command.
        message: the message.
    """
    name = styled(f"atompack-torch {command}:", "red", sys.stderr)
    print(f"{name} {printable(message)}", file=sys.stderr)


def error_document(kind: str, message: str, status: int) -> dict[str, Any]:
    """Describes an error for other programs: exception class, message and exit status."""
    return {"error": {"type": kind, "message": message, "status": status}}


def print_json(value: Any) -> None:
    """Prints strict JSON in plain ASCII."""
    print(json.dumps(value, indent=2, allow_nan=False))
