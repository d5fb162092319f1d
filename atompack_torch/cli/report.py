"""Writes one page of HTML about a data set of molecules, or about two side by side.

  atompack-torch report alloys.atp -o report.html
  atompack-torch report train.xyz test.xyz -o report.html --cutoff 6
  atompack-torch report --json alloys.atp -o report.html | jq .datasets[0].notes

Sizes, elements, which structures have which label, energies per atom before and after reference
energies, force norms with the structures of the largest forces, cells, neighbors, structures with
equal geometry, values that are not finite, notes on units. The page needs nothing outside it.
"""

from __future__ import annotations

import argparse
import math

from atompack_torch.cli._options import add_json, check_at_least
from atompack_torch.cli._output import UsageError, print_json, shows_progress
from atompack_torch.cli._storage_options import add_storage_options, storage_options_of
from atompack_torch.errors import printable

NAME = "report"
HELP = "write a page about a data set: elements, labels, energies, forces, duplicates"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("path", metavar="PATH", help="a data set of molecules of any format")
    parser.add_argument("other", nargs="?", metavar="PATH2", help="another one to compare with")
    parser.add_argument(
        "-o",
        "--output",
        default="report.html",
        metavar="FILE",
        help="the page, which replaces an old one (default: %(default)s)",
    )
    parser.add_argument(
        "--cutoff",
        type=float,
        default=5.0,
        metavar="R",
        help="radius for neighbor counts, in the unit of the positions (default: %(default)s)",
    )
    add_storage_options(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0.001, "cutoff")
    if options.cutoff == math.inf:
        raise UsageError("--cutoff: expected a finite number, got inf")
    from atompack_torch.reports.building import report

    made = report(
        options.path,
        options.other,
        output=options.output,
        cutoff=options.cutoff,
        progress=shows_progress(options),
        storage_options=storage_options_of(options),
    )
    if options.json:
        print_json({"path": options.output, **made.as_dict()})
    else:
        print(f"{printable(options.output)}: {len(made.html.encode()) / 1024:,.0f} KiB")
    return 0
