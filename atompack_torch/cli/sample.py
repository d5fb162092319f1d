"""Writes some structures, drawn at random without repeats, to a new file.

  atompack-torch sample all.atp some.atp 1000 --seed 3
  atompack-torch sample all.atp look.extxyz 10

They stay in their order. The same seed gives the same structures.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_source_and_target
from atompack_torch.cli._targets import add_keys, add_target_options, run_writer

NAME = "sample"
HELP = "write some structures, drawn at random"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_source_and_target(
        parser, "a file or folder, or a URL", "the file to write, or its URL", several=False
    )
    parser.add_argument("n", type=int, metavar="N", help="number of structures")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another seed, others (default: 0)"
    )
    add_keys(parser)
    add_target_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.conversion.selecting import sample

    return run_writer(
        options,
        lambda **given: sample(options.source, options.target, options.n, options.seed, **given),
    )
