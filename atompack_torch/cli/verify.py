"""Reads all data with all checks and lists what is damaged.

  atompack-torch verify alloys.atp
  atompack-torch verify --json shards/ | jq .n_faults

Reads every record of .atp files, every block of Atlas shards, every array of every dataset of ATLAS
stores and array files, and recomputes the rows of a feature cache (`atompack-torch cache verify`
has options for that). Faults are printed to stdout, one per line, with the file and the offset; so
are warnings about defects that readers tolerate (an uncommitted tail, a damaged older header, NaN
values). The exit status is 1 if there is any fault. Records of .atp files carry no checksums: an
altered number that is still a valid number cannot be detected.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import (
    add_json,
    add_max_faults,
    add_paths,
    check_at_least,
)
from atompack_torch.cli._output import report_check, shows_progress
from atompack_torch.cli._remote import add_remote, places_of

NAME = "verify"
HELP = "read all data and list what is damaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    add_remote(parser)
    add_max_faults(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0, "max_faults")
    entry, places = places_of(options)
    found = entry.verify(places, options.max_faults, shows_progress(options))
    return report_check(found, options.json)
