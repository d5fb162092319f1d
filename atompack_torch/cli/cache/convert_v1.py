"""Rewrites a legacy cache (version 1) as a file of schema 2.

  atompack-torch cache convert-v1 old.h5 new.h5
  atompack-torch cache convert-v1 old.h5 new.h5 --features

Entries and derivatives are copied bit for bit: positions, species, energy, forces, cell, pbc (all
true for a cell without flags), name. Not copied: display_name, source_id and source_kind of each
entry (source_id becomes the old file), frame_idx (becomes the index of the entry), and the settings
of the energy filter. Derivatives are not recomputed: `cache verify` checks them.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import (
    add_json,
    add_resume,
    add_source_and_target,
    add_threads,
    check_at_least,
)
from atompack_torch.cli._output import shows_progress
from atompack_torch.cli.cache.build import print_summary

NAME = "convert-v1"
HELP = "rewrite a legacy cache as a file of schema 2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_source_and_target(parser, "a legacy cache file (HDF5)", "the new file", several=False)
    parser.add_argument(
        "--features",
        action="store_true",
        help="compute features, too, with the descriptor of the old file",
    )
    add_threads(parser)
    add_resume(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.formats.torch_cache.upgrade import upgrade_cache

    check_at_least(options, 1, "threads")
    cache = upgrade_cache(
        options.source,
        options.target,
        features=options.features,
        num_threads=options.threads,
        progress=shows_progress(options),
        resume=not options.no_resume,
    )
    print_summary(options, cache)
    return 0
