"""Counts molecules, atoms and elements; spread of energies and forces; energies by element.

  atompack-torch stats alloys.atp
  atompack-torch stats --json train/ > statistics.json

Values are in the units of the file. E0 are the reference energies of the elements, fitted to the
total energies by least squares.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import (
    UsageError,
    add_json,
    add_paths,
    open_dataset,
    print_json,
    printable,
    shows_progress,
)

NAME = "stats"
HELP = "counts, elements, spread of energies and forces"

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
        help="molecules without one of the labels: count them, fail, or leave them out",
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.cli import _atlas, _shards

    if _atlas.are_stores(options.path):
        return _atlas.stats(options.path, options.json)
    if _shards.are_shards(options.path):
        raise UsageError("stats is for .atp files and ATLAS stores, not for Atlas shards")
    dataset = open_dataset(
        options.path, options.fields, missing=options.missing, access="sequential"
    )
    found = dataset.statistics(progress=shows_progress(options))
    if options.json:
        print_json(found.as_dict())
        return 0
    for line in repr(found).splitlines():
        print(printable(line))
    print("\n".join(histogram(found.sizes)))
    return 0


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
