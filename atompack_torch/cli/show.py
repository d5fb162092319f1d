"""Shows one structure with all its labels.

  atompack-torch show alloys.atp 17
  atompack-torch show train.extxyz -1 --atoms 100
  atompack-torch show --json alloys.atp 17 | jq .fields.energy.values

Units are those that the labels have by convention: files store none.
"""

from __future__ import annotations

import argparse
import sys

from atompack_torch.cli._colors import styled
from atompack_torch.cli._options import add_fields, add_json, check_at_least
from atompack_torch.cli._output import UsageError, print_json, usage_errors
from atompack_torch.cli._remote import add_remote, remote_options
from atompack_torch.errors import FieldError

NAME = "show"
HELP = "show one structure with all its labels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "path",
        nargs=1,
        metavar="PATH",
        help="a data set of any format that `atompack-torch head` shows, or its URL",
    )
    parser.add_argument(
        "index", type=int, metavar="INDEX", help="number of the structure; -1 is the last one"
    )
    parser.add_argument(
        "--atoms",
        type=int,
        default=20,
        metavar="N",
        help="show the first N atoms (default: %(default)s)",
    )
    add_json(parser)
    add_remote(parser)
    add_fields(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_at_least(options, 0, "atoms")
    from atompack_torch.inspection.dispatch import open as open_path
    from atompack_torch.inspection.showing import shown_item

    given = remote_options(options)
    if options.fields is not None:
        given["fields"] = options.fields
    (path,) = options.path
    try:
        with usage_errors():
            dataset = open_path(path, **given)
    except FieldError as error:
        if options.fields is None:
            raise
        raise UsageError(str(error)) from error
    try:
        shown = shown_item(dataset, options.index, options.atoms)
    except IndexError:
        n = len(dataset)
        raise UsageError(f"INDEX: expected a number below {n:,}, got {options.index}") from None
    if options.json:
        print_json(shown.document)
        return 0
    title, *lines = shown.text.splitlines()
    print("\n".join([styled(title, "bold", sys.stdout), *lines]))
    return 0
