"""Shows the first molecules of a file.

  atompack-torch head alloys.atp
  atompack-torch head --json alloys.atp -n 1 --fields energy forces

Values that are too many for a line are cut short; --json prints all of them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._output import (
    UsageError,
    add_json,
    add_paths,
    open_dataset,
    print_json,
    printable,
    table,
)

if TYPE_CHECKING:
    from atompack_torch import Molecule

NAME = "head"
HELP = "show the first molecules"

_MOST_VALUES = 12  # of one field, in text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument("-n", type=int, default=5, help="so many (default: %(default)s)")
    parser.add_argument(
        "--fields", nargs="+", metavar="NAME", help="these labels only (default: all)"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.cli import _atlas, _shards

    if options.n < 0:
        raise UsageError(f"-n: expected a number from 0, got {options.n}")
    if _atlas.are_stores(options.path):
        return _atlas.head(options.path, options.n, options.json)
    if _shards.are_shards(options.path):
        return _shards.head(options.path, options.n, options.json)
    dataset = open_dataset(options.path, options.fields)
    numbers = range(min(options.n, len(dataset)))
    if options.json:
        print_json([_plain(i, dataset[i]) for i in numbers])
        return 0
    for i in numbers:
        print(_text(i, dataset[i]))
    print(f"{len(numbers):,} of {len(dataset):,} molecules")
    return 0


def formula(atomic_numbers: list[int]) -> str:
    """Hill's order: carbon, hydrogen, then by symbol; all by symbol where there is no carbon."""
    from atompack_torch.batch.elements import symbol

    counts = Counter(symbol(number) for number in atomic_numbers)
    first = ["C", "H"] if "C" in counts else []
    order = sorted(counts, key=lambda s: (first.index(s) if s in first else len(first), s))
    return "".join(s + (str(counts[s]) if counts[s] > 1 else "") for s in order)


def _text(number: int, molecule: Molecule) -> str:
    from atompack_torch.inspection.values import first_of

    numbers = molecule["atomic_numbers"].tolist()
    rows = []
    for name in molecule.keys():
        value = molecule[name]
        if value is None or isinstance(value, str):
            kind, shape, shown = "string" if value is not None else "none", "", repr(value)
        else:
            kind = str(value.dtype).removeprefix("torch.")
            shape, shown = str(tuple(value.shape)), first_of(value, _MOST_VALUES)
        rows.append((printable(name), kind, shape, printable(shown)))
    return f"molecule {number}: {formula(numbers)}, {len(numbers)} atoms\n{table(rows, '  ')}"


def _plain(number: int, molecule: Molecule) -> dict[str, Any]:
    from atompack_torch.inspection.values import plain

    fields: dict[str, Any] = {}
    for name in molecule.keys():
        value = molecule[name]
        if value is None or isinstance(value, str):
            fields[name] = {"dtype": "none" if value is None else "string", "values": value}
            continue
        fields[name] = {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "values": plain(value),
        }
    return {"molecule": number, "n_atoms": len(molecule), "fields": fields}
