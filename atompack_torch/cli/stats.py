"""Counts molecules, atoms and elements; shows the spread of energies and forces.

  atompack-torch stats alloys.atp
  atompack-torch stats alloys.atp --cutoff 5
  atompack-torch stats alloys.atp --plot alloys.png
  atompack-torch stats --json train/ > statistics.json

For .atp files every record is read. By element: atoms, molecules, RMS of the force components, E0
(the reference energy, fitted to the total energies by least squares) and, where there are molecules
of a single isolated atom, the mean of their energies. Values are those of the file,
and units those that labels have by convention: files store none. For ATLAS stores and array files
the stored statistics are shown, and no data is read. For Atlas shards: kinds of the values in
examples, and the spread of numbers.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from atompack_torch.cli._options import add_fields, add_json, add_paths, check_at_least
from atompack_torch.cli._output import (
    UsageError,
    print_json,
    print_text,
    shows_progress,
    usage_errors,
)
from atompack_torch.cli._plots import add_plot, check_plot
from atompack_torch.cli._remote import add_remote, places_of
from atompack_torch.errors import printable

if TYPE_CHECKING:
    from atompack_torch.formats.entry import Summary

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
    add_plot(parser, "sizes, elements, forces, energies and labels of molecules")


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0.001, "cutoff")
    check_plot(options)
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
        entry, places = places_of(options)
        found = entry.statistics(places, asked, shows_progress(options))
    if options.plot is not None:
        _plot(options, found)
    if options.json:
        print_json(found.document)
    else:
        print_text(found.text)
    return 0


def _plot(options: argparse.Namespace, found: Summary) -> None:
    from atompack_torch.datasets.statistics import Statistics
    from atompack_torch.reports.plots import plot_statistics

    if not isinstance(found.value, Statistics):
        raise UsageError("--plot: expected molecules, got another kind of data")
    names = [printable(Path(path).name or path) for path in options.path]
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    plot_statistics(found.value, options.plot, title)
