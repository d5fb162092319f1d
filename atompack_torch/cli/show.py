"""Shows one structure with all its labels, or one dataset with all its arrays.

  atompack-torch show alloys.atp 17
  atompack-torch show train.extxyz -1 --atoms 100
  atompack-torch show --json alloys.atp 17 | jq .fields.energy.values
  atompack-torch show profiles.atlas station-3 --fields temperature salinity

Units are those that the labels have by convention: files store none. Datasets of ATLAS stores
and arrays of array files have names: INDEX is a name, or a number where nothing has that name.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from atompack_torch.cli._options import add_fields, add_json, check_at_least
from atompack_torch.cli._output import UsageError, print_json, print_text, usage_errors
from atompack_torch.cli._remote import add_remote, places_of, remote_options
from atompack_torch.errors import FieldError

if TYPE_CHECKING:
    from atompack_torch.formats.entry import Shown

NAME = "show"
HELP = "show one structure with all its labels, or one dataset"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "path",
        nargs=1,
        metavar="PATH",
        help="a data set of any format that `atompack-torch head` shows, or its URL",
    )
    parser.add_argument(
        "index",
        metavar="INDEX",
        help="number of the structure, -1 is the last one; or name of the dataset",
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
    with usage_errors():
        entry, places = places_of(options)
        if hasattr(entry, "show"):
            return _print(options, entry.show(places[0], options.index, options.fields))
    return _print(options, _molecule(options))


def _molecule(options: argparse.Namespace) -> Shown:
    from atompack_torch.formats.dispatch import open as open_path
    from atompack_torch.formats.dispatch import shown_item

    try:
        index = int(options.index)
    except ValueError:
        raise UsageError(f"INDEX: expected a number, got {options.index!r}") from None
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
        return shown_item(dataset, index, options.atoms)
    except IndexError:
        n = len(dataset)
        raise UsageError(f"INDEX: expected a number below {n:,}, got {index}") from None


def _print(options: argparse.Namespace, shown: Shown) -> int:
    if options.json:
        print_json(shown.document)
    else:
        print_text(shown.text)
    return 0
