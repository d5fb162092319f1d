"""Splits a data set at random into several files.

  atompack-torch split all.atp train.atp val.atp test.atp --fractions 0.8,0.1,0.1 --seed 1
  atompack-torch split md.extxyz train.atp test.atp --fractions 0.9,0.1 --by trajectory
  atompack-torch split all.atp train.extxyz test.extxyz --fractions 0.9,0.1 --by formula

With --by, structures with equal values stay together, so that frames of one trajectory are not in
the training and in the test set; sizes are then as near to the fractions as whole groups permit.
Sources and targets are of any format that `atompack-torch convert` reads and writes. Each target
appears when it is complete. The same seed gives the same files.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import UsageError, print_json
from atompack_torch.cli._targets import (
    add_keys,
    add_target_options,
    print_report,
    target_options,
    writing_errors,
)
from atompack_torch.errors import printable

NAME = "split"
HELP = "split a data set into files for training, validation and test"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("source", metavar="SOURCE", help="a file or folder, or a URL")
    parser.add_argument("target", nargs="+", metavar="TARGET", help="the files to write")
    parser.add_argument(
        "--fractions",
        required=True,
        metavar="A,B,...",
        help="sizes of the targets, which add up to 1",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another seed, other parts (default: 0)"
    )
    parser.add_argument(
        "--by",
        metavar="FIELD",
        help="keep structures with the same value together: name, a property, or formula",
    )
    add_keys(parser)
    add_target_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.conversion.selecting import split

    try:
        fractions = [float(text) for text in options.fractions.split(",")]
    except ValueError:
        raise UsageError(
            f"--fractions: expected numbers as in 0.9,0.1, got {options.fractions}"
        ) from None
    with writing_errors():
        reports = split(
            options.source,
            options.target,
            fractions,
            options.seed,
            options.by,
            **target_options(options),
        )
    pairs = zip(options.target, reports, strict=True)
    if options.json:
        print_json([{"target": path, **report.as_dict()} for path, report in pairs])
    elif not options.quiet:
        for path, report in pairs:
            n, atoms = report.structures_written, report.atoms_written
            print(f"{printable(path)}: {n:,} structures, {atoms:,} atoms")
        for line in dict.fromkeys(line for report in reports for line in report.warnings):
            print_report(f"warnings  {line}")
    return 0
