"""Shows what is in a file: its format, molecules, labels, codec, commits, and where its bytes go.

  atompack-torch info alloys.atp
  atompack-torch info --full alloys.atp
  atompack-torch info --json shards/ | jq .n_molecules

The labels are those of the schema. Molecules that have them, and labels that are all NaN, are
counted in all records of a data set of up to 10,000 molecules, and in a sample of 10,000 records of
a larger one, unless --full is given. Dead space is what older commits left behind: `atompack-torch
compact` removes it. The tail is the bytes after the last commit.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_json, add_paths
from atompack_torch.cli._output import print_error, print_json, print_text, shows_progress
from atompack_torch.cli._remote import add_remote, places_of

NAME = "info"
HELP = "show molecules, labels, codec, commits, use of space"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    add_remote(parser)
    parser.add_argument(
        "--full", action="store_true", help="count labels in all records, however many there are"
    )


def needs_torch(options: argparse.Namespace) -> bool:
    """False: the command must start fast."""
    return False


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.formats.dispatch import describe

    _, places = places_of(options)
    described = describe(places, options.full, shows_progress(options))
    if options.json:
        print_json(described.document)
    else:
        print_text(described.text)
    for message in described.errors:
        print_error("info", message)
    return 1 if described.errors else 0
