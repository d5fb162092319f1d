"""Counts molecules, atoms and elements; shows the spread of energies and forces.

  atompack-torch stats alloys.atp
  atompack-torch stats alloys.atp --cutoff 5
  atompack-torch stats alloys.atp --plot alloys.png
  atompack-torch stats --json train/ > statistics.json
  atompack-torch stats train/ --part 3/8 --out sums/
  atompack-torch stats --merge sums/

For .atp files every record is read. By element: atoms, molecules, RMS of the force components, E0
(the reference energy, fitted to the total energies by least squares) and, where there are molecules
of a single isolated atom, the mean of their energies. Values are those of the file,
and units those that labels have by convention: files store none. For ATLAS stores and array files
the stored statistics are shown, and no data is read. For Atlas shards: kinds of the values in
examples, and the spread of numbers.

With --part each of N runs sums up its share of the molecules of .atp files, and --merge shows what
one run over all would show: counts and extrema are the same, means and fits differ by rounding.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._options import add_fields, add_json, add_paths, check_at_least
from atompack_torch.cli._output import (
    UsageError,
    print_json,
    print_text,
    shows_progress,
    usage_errors,
)
from atompack_torch.cli._parts import add_part, part_of
from atompack_torch.cli._plots import add_plot, check_plot
from atompack_torch.cli._remote import add_remote, remote_entry
from atompack_torch.errors import AtompackError, printable

if TYPE_CHECKING:
    from atompack_torch.formats.entry import Summary

NAME = "stats"
HELP = "count molecules and elements, show the spread of energies and forces"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    add_remote(parser)
    add_part(parser, "sum up a part of the molecules of .atp files to the file of --out")
    parser.add_argument(
        "--out",
        metavar="PATH",
        help="with --part: the file, NAME.json, or a folder for files of all parts",
    )
    parser.add_argument(
        "--merge",
        action="store_true",
        help="join the files of all parts, or those in folders, which are given as PATH",
    )
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
    part = part_of(options)
    if (part is None) != (options.out is None):
        raise UsageError("--part, --out: expected both or neither of them")
    if options.merge and (part is not None or asked):
        raise UsageError("--merge: expected no other option with it but --json")
    if part is not None and options.plot is not None:
        raise UsageError("--part, --plot: expected one of them")
    if part is not None:
        return _sum_up(options, part, asked)
    if options.merge:
        return _merge(options)
    with usage_errors():
        entry, remote = remote_entry(options)
        found = entry.statistics(options.path, asked, shows_progress(options), remote)
    return _print(options, found)


def _sum_up(options: argparse.Namespace, part: tuple[int, int], asked: dict[str, Any]) -> int:
    from atompack_torch.formats.atp.parts import write_partial_statistics
    from atompack_torch.formats.entry import atp_entry

    with usage_errors():
        entry, remote = remote_entry(options)
        try:
            atp_entry(entry, options.path)
        except ValueError as error:
            raise UsageError(f"--{error}") from None
        progress = shows_progress(options)
        path = write_partial_statistics(options.path, part, options.out, asked, progress, remote)
    if options.json:
        print_json({"path": str(path), "part": [*part]})
    else:
        print(f"{printable(str(path))}: sums of part {part[0]} of {part[1]}")
    return 0


def _merge(options: argparse.Namespace) -> int:
    from atompack_torch.formats.atp.parts import merged_statistics

    try:
        return _print(options, merged_statistics(options.path))
    except AtompackError:
        raise
    except ValueError as error:  # parts that do not belong together
        raise UsageError(f"--merge: {error}") from None


def _print(options: argparse.Namespace, found: Summary) -> int:
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
