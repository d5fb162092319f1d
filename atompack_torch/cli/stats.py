"""Counts molecules, atoms and elements; shows the spread of energies and forces.

  atompack-torch stats alloys.atp
  atompack-torch stats alloys.atp --cutoff 5
  atompack-torch stats --json train/ > statistics.json

For .atp files every record is read. By element: atoms, molecules, RMS of the force components, E0
(the reference energy, fitted to the total energies by least squares) and, where there are molecules
of a single isolated atom, the mean of their energies. Values are in the units of the file. For
ATLAS stores and array files the stored statistics are shown, and no data is read.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

from atompack_torch.cli._output import (
    UsageError,
    add_json,
    add_paths,
    files_at,
    open_dataset,
    print_json,
    printable,
    shows_progress,
)

NAME = "stats"
HELP = "count molecules and elements, show the spread of energies and forces"

_BINS = 10
_WIDTH = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument(
        "--fields", nargs="+", metavar="NAME", help="look at these labels only (default: all)"
    )
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


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.cli import _atlas, _shards

    if options.cutoff is not None and not 0.001 <= options.cutoff < math.inf:
        raise UsageError(f"--cutoff: expected a number from 0.001, got {options.cutoff}")
    if _atlas.are_stores(options.path):
        return _atlas.stats(options.path, options.json)
    if _shards.are_shards(options.path):
        raise UsageError("stats is for .atp files and ATLAS stores, not for Atlas shards")
    dataset = open_dataset(
        options.path, options.fields, missing=options.missing, access="sequential"
    )
    found = dataset.statistics(progress=shows_progress(options), cutoff=options.cutoff)
    if options.json:
        print_json(found.as_dict())
        return 0
    for line in repr(found).splitlines():
        print(printable(line))
    if found.max_force_molecule is not None:
        print(f"longest force: {printable(_place(options.path, found.max_force_molecule))}")
    print("\n".join(histogram(found.sizes)))
    return 0


def _place(paths: Sequence[str], number: int) -> str:
    """File and number in that file of a molecule, given its number in all files."""
    from atompack_torch import AtpDataset

    for file in files_at(paths):
        n_molecules = len(AtpDataset(file))
        if number < n_molecules:
            return f"{file}: molecule {number}"
        number -= n_molecules
    raise AssertionError("the statistics name a molecule that no file has")


def histogram(sizes: dict[int, int]) -> list[str]:
    """Bars for the number of molecules by number of atoms."""
    if not sizes:
        return []
    low, high = min(sizes), max(sizes)
    step = (high - low) // _BINS + 1
    counts = [0] * ((high - low) // step + 1)
    for n_atoms, molecules in sizes.items():
        counts[(n_atoms - low) // step] += molecules
    lines = ["atoms a molecule:"]
    for i, count in enumerate(counts):
        first, last = low + i * step, min(low + (i + 1) * step - 1, high)
        name = f"{first:,}" if first == last else f"{first:,} to {last:,}"
        bar = "#" * -(-count * _WIDTH // max(counts))
        lines.append(f"{name:>16} {count:>12,} {bar}".rstrip())
    return lines
