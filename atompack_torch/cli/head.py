"""Shows the first molecules of a file.

  atompack-torch head alloys.atp
  atompack-torch head --json alloys.atp -n 1 --fields energy forces

Values that are too many for a line are cut short; --json prints all of them.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import (
    UsageError,
    add_json,
    add_paths,
    entry_of,
    print_json,
    usage_errors,
)

NAME = "head"
HELP = "show the first molecules"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument("-n", type=int, default=5, help="so many (default: %(default)s)")
    parser.add_argument(
        "--fields", nargs="+", metavar="NAME", help="these labels only (default: all)"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if options.n < 0:
        raise UsageError(f"-n: expected a number from 0, got {options.n}")
    with usage_errors():
        head = entry_of(options.path).head(options.path, options.n, options.fields)
    if options.json:
        print_json(list(head.documents))
    else:
        print(head.text)
    return 0
