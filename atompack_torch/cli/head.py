"""Shows the first molecules of a file, or the first examples or datasets.

  atompack-torch head alloys.atp
  atompack-torch head --json alloys.atp -n 1 --fields energy forces

Long values are cut short; --json prints all of them.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_fields, add_json, add_paths, check_at_least
from atompack_torch.cli._output import print_json, usage_errors
from atompack_torch.cli._remote import add_remote, remote_entry

NAME = "head"
HELP = "show the first molecules, examples or datasets"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    add_remote(parser)
    parser.add_argument(
        "-n", type=int, default=5, metavar="N", help="number of items (default: %(default)s)"
    )
    add_fields(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0, "n")
    with usage_errors():
        entry, remote = remote_entry(options)
        head = entry.head(options.path, options.n, options.fields, remote)
    if options.json:
        print_json(list(head.documents))
    else:
        print(head.text)
    return 0
