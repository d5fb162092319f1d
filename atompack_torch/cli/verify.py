"""Reads all data with all checks and lists what is damaged.

  atompack-torch verify alloys.atp
  atompack-torch verify --json shards/ | jq .n_faults

Reads every record of .atp files, every block of Atlas shards, every array of every dataset of ATLAS
stores and array files. Faults go to stdout, one a line, with the file and the place in it; so do
warnings about what readers get over (an uncommitted tail, a damaged older header, NaN values). The
exit status is 1 if there is any fault. Records of .atp files carry no checksums: a changed number
that is still a number is not found. Feature caches: `atompack-torch cache verify`.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import (
    add_json,
    add_paths,
    entry_of,
    report_check,
    shows_progress,
)

NAME = "verify"
HELP = "read all data and list what is damaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument(
        "--max-faults", type=int, default=1000, help="list at most so many (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    entry = entry_of(options.path)
    found = entry.verify(options.path, options.max_faults, shows_progress(options))
    return report_check(found, options.json)
