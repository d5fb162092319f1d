"""Shows the first molecules of a file, or the first examples or datasets.

  atompack-torch head alloys.atp
  atompack-torch head --json alloys.atp -n 1 --fields energy forces
  atompack-torch head --jsonl alloys.atp -n 1000 | jq .fields.energy.values

Long values are cut short; --json and --jsonl print all of them.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_fields, add_json, add_paths, check_at_least
from atompack_torch.cli._output import (
    UsageError,
    print_json,
    print_json_line,
    print_text,
    usage_errors,
)
from atompack_torch.cli._remote import add_remote, places_of

NAME = "head"
HELP = "show the first molecules, examples or datasets"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument(
        "--jsonl", action="store_true", help="print one JSON document per line, for each item"
    )
    add_remote(parser)
    parser.add_argument(
        "-n", type=int, default=5, metavar="N", help="number of items (default: %(default)s)"
    )
    add_fields(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0, "n")
    if options.json and options.jsonl:
        raise UsageError("--json, --jsonl: expected one of them")
    with usage_errors():
        entry, places = places_of(options)
        head = entry.head(places, options.n, options.fields)
    if options.jsonl:
        for document in head.documents:
            print_json_line(document)
    elif options.json:
        print_json(list(head.documents))
    else:
        print_text(head.text)
    return 0
