"""Compares two data sets, structure by structure.

  atompack-torch diff before.atp after.atp
  atompack-torch diff run.extxyz run.atp --atol 1e-6 --exclude name
  atompack-torch diff --json a.atp b.atp | jq .fields.energy.first

The data sets may be of different formats. For each field: how many structures have it in one of
them only, in how many the values differ, by how much at most, and the numbers of the first. NaN
equals NaN. The exit status is 1 if there is any difference.
"""

from __future__ import annotations

import argparse
import sys

from atompack_torch.cli._colors import styled
from atompack_torch.cli._options import add_json, check_at_least
from atompack_torch.cli._output import print_json, shows_progress
from atompack_torch.cli._storage_options import add_storage_options, storage_options_of
from atompack_torch.cli._targets import writing_errors
from atompack_torch.errors import printable

NAME = "diff"
HELP = "compare two data sets, structure by structure"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("a", metavar="A", help="a file or folder of any format, or a URL")
    parser.add_argument("b", metavar="B", help="another one")
    for name, text in (("rtol", "relative tolerance"), ("atol", "absolute tolerance")):
        parser.add_argument(
            f"--{name}", type=float, default=0.0, metavar="X", help=f"{text} (default: 0)"
        )
    parser.add_argument(
        "--fields", nargs="+", metavar="NAME", help="compare these only (default: all)"
    )
    parser.add_argument(
        "--exclude", nargs="+", default=[], metavar="NAME", help="leave these fields out"
    )
    parser.add_argument(
        "-n",
        type=int,
        default=5,
        metavar="N",
        help="list the first N structures that differ, for each field (default: %(default)s)",
    )
    add_json(parser)
    add_storage_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.conversion.comparing import diff

    check_at_least(options, 0, "n", "rtol", "atol")
    with writing_errors():
        found = diff(
            options.a,
            options.b,
            rtol=options.rtol,
            atol=options.atol,
            fields=options.fields,
            exclude=options.exclude,
            max_numbers=options.n,
            progress=shows_progress(options),
            storage_options=storage_options_of(options),
        )
    if options.json:
        print_json(found.as_dict())
    else:
        *lines, last = str(found).splitlines()
        for line in lines:
            print(printable(line))
        print(styled(last, "green" if found.equal else "red", sys.stdout))
    return 0 if found.equal else 1
