"""Tells what is in a feature cache: entries, rows, the descriptor, the attributes of the file.

  atompack-torch cache info water.h5
  atompack-torch cache info --json water.h5 | jq .files[0].n_entries

No row is read; indexes are.
"""

from __future__ import annotations

import argparse
import sys

from atompack_torch.cli._output import add_json, print_json
from atompack_torch.inspection.text import printable

NAME = "info"
HELP = "entries, rows, descriptor, attributes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("path", nargs="+", metavar="PATH", help="a cache file (HDF5)")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.inspection.caches import describe

    described = describe(options.path)
    if options.json:
        print_json(described.document)
    else:
        print(described.text)
    for message in described.errors:
        print(f"atompack-torch cache info: {printable(message)}", file=sys.stderr)
    return 1 if described.errors else 0
