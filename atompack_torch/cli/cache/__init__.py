r"""Makes, shows and checks HDF5 files of descriptor features, as aenet-python has them.

  atompack-torch cache build water.atp water.h5 --rad-order 10 --rad-cutoff 4 \
      --ang-order 3 --ang-cutoff 1.5 --force-derivatives
  atompack-torch cache info water.h5
  atompack-torch cache verify --json water.h5
  atompack-torch cache convert-v1 old.h5 new.h5
  atompack-torch cache --stats /scratch/cache

Each has options of its own: `atompack-torch cache build --help`. `--stats` is about another cache:
the folder (`--block-cache`) with blocks of remote files, which other processes may be using.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli.cache import build, convert_v1, info, stats, verify

NAME = "cache"
HELP = "make, show and check files of descriptor features"

_COMMANDS = (build, info, verify, convert_v1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the subcommands."""
    parser.set_defaults(refuse=parser.error)
    parser.add_argument(
        "--stats", metavar="FOLDER", help="show the use of a folder with blocks of remote files"
    )
    parser.add_argument("--json", action="store_true", help="with --stats: print a JSON document")
    subparsers = parser.add_subparsers(dest="subcommand", metavar="COMMAND")
    for module in _COMMANDS:
        command = subparsers.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)


def needs_torch(options: argparse.Namespace) -> bool:
    """True if torch is imported before the command runs."""
    return bool(options.subcommand not in (info.NAME, None))


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if options.subcommand is None and options.stats is None:
        names = ", ".join(module.NAME for module in _COMMANDS)
        options.refuse(f"expected one of {names} or --stats FOLDER")
    if options.stats is not None:
        if options.subcommand is not None:
            options.refuse("--stats: expected no other command with it")
        return stats.run(options)
    module = next(m for m in _COMMANDS if options.subcommand == m.NAME)
    status: int = module.run(options)
    return status
