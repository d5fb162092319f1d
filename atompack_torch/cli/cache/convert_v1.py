"""Writes a legacy cache (version 1) anew as a file of schema 2.

  atompack-torch cache convert-v1 old.h5 new.h5
  atompack-torch cache convert-v1 old.h5 new.h5 --features

Entries and derivatives are those of the old file to the bit: positions, species, energy, forces,
cell, pbc (a cell without flags gets those it stands for: all true), name. Not carried over:
display_name, source_id and source_kind of each entry (source_id becomes the old file), frame_idx
(becomes the number of the entry), and the settings of the energy filter. Derivatives are not
computed again: `cache verify` tells whether they are right.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import add_json, shows_progress
from atompack_torch.cli.cache._options import add_resume, add_threads, checked_threads
from atompack_torch.cli.cache.build import tell

NAME = "convert-v1"
HELP = "write a legacy cache as a file of schema 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("source", metavar="SOURCE", help="a legacy cache file (HDF5)")
    parser.add_argument("target", metavar="TARGET", help="the new file")
    parser.add_argument(
        "--features",
        action="store_true",
        help="compute features too, by the descriptor that the old file names",
    )
    add_threads(parser)
    add_resume(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.caches.upgrade import upgrade_cache

    cache = upgrade_cache(
        options.source,
        options.target,
        features=options.features,
        num_threads=checked_threads(options),
        progress=shows_progress(options),
        resume=not options.no_resume,
    )
    tell(options, cache)
    return 0
