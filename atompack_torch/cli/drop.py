"""Writes all structures to a new file, without some fields.

  atompack-torch drop all.atp small.atp charges velocities
  atompack-torch drop all.atp small.atp properties/dipole

Keys are names of labels and properties, as `atompack-torch info` lists them.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_source_and_target
from atompack_torch.cli._targets import add_keys, add_target_options, run_writer

NAME = "drop"
HELP = "write a data set without some fields"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_source_and_target(
        parser, "a file or folder, or a URL", "the file to write, or its URL", several=False
    )
    parser.add_argument("field", nargs="+", metavar="KEY", help="labels and properties")
    add_keys(parser)
    add_target_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.conversion.selecting import drop

    return run_writer(
        options, lambda **given: drop(options.source, options.target, options.field, **given)
    )
