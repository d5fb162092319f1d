"""Counts molecules, atoms and elements; shows the spread of energies and forces.

  atompack-torch stats alloys.atp
  atompack-torch stats alloys.atp --cutoff 5
  atompack-torch stats --json train/ > statistics.json

For .atp files every record is read. By element: atoms, molecules, RMS of the force components, E0
(the reference energy, fitted to the total energies by least squares) and, where there are molecules
of a single isolated atom, the mean of their energies. Values are in the units of the file. For
ATLAS stores and array files the stored statistics are shown, and no data is read. For Atlas shards:
kinds of the values in examples, and the spread of numbers.
"""

from __future__ import annotations

import argparse
import math

from atompack_torch.cli._options import add_fields, add_json, add_paths, check_at_least
from atompack_torch.cli._output import (
    UsageError,
    print_json,
    shows_progress,
    usage_errors,
)
from atompack_torch.cli._remote import add_remote, remote_entry

NAME = "stats"
HELP = "count molecules and elements, show the spread of energies and forces"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    add_remote(parser)
    add_fields(parser)
    parser.add_argument(
        "--missing",
        choices=("nan", "error", "drop"),
        default="nan",
        help="molecules that lack one of the labels: count them (nan, the default), stop with an "
        "error, or leave them out",
    )
    parser.add_argument(
        "--cutoff",
        type=float,
        metavar="R",
        help="show the mean number of neighbors within R, in the unit of the positions, too",
    )
    parser.add_argument(
        "--features",
        action="store_true",
        help="show mean, standard deviation and range of each column of the features of a cache",
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0.001, "cutoff")
    if options.cutoff == math.inf:
        raise UsageError("--cutoff: expected a finite number, got inf")
    given = {
        "fields": options.fields,
        "missing": options.missing if options.missing != "nan" else None,
        "cutoff": options.cutoff,
        "features": options.features or None,
    }
    asked = {name: value for name, value in given.items() if value is not None}
    with usage_errors():
        entry, remote = remote_entry(options)
        found = entry.statistics(options.path, asked, shows_progress(options), remote)
    if options.json:
        print_json(found.document)
    else:
        print(found.text)
    return 0
