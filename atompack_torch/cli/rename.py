"""Writes all structures to a new file, with other names for fields.

  atompack-torch rename dft.extxyz dft.atp REF_energy=energy REF_forces=forces
  atompack-torch rename all.atp new.atp energy=energy_pbe energy_r2scan=energy

A property may become a label, if its values have the shape of that label.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import add_source_and_target
from atompack_torch.cli._targets import add_target_options, pairs_of, run_writer

NAME = "rename"
HELP = "write a data set with other names for fields"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_source_and_target(
        parser, "a file or folder, or a URL", "the file to write, or its URL", several=False
    )
    parser.add_argument("name", nargs="+", metavar="OLD=NEW", help="old and new name of a field")
    add_target_options(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.conversion.selecting import rename

    names = pairs_of(options.name, "OLD=NEW")
    return run_writer(
        options, lambda **given: rename(options.source, options.target, names, **given)
    )
