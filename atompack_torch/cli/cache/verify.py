"""Reads a feature cache with all checks, recomputes its rows, and lists what is wrong.

  atompack-torch cache verify water.h5
  atompack-torch cache verify --quick --json water.h5

Faults are violations of the format. Differences are features or derivatives that the file's own
descriptor does not give for their structures; derivatives are compared as forces for fixed weights,
because rows may be in any order. aenet-python computes periodic entries with forces wrongly if an
atom is outside of its cell: messages say so, and `cache build` recomputes such entries. The exit
status is 1 if there is any fault or difference.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._options import (
    add_json,
    add_max_faults,
    add_threads,
    check_at_least,
)
from atompack_torch.cli._output import report_check, shows_progress

NAME = "verify"
HELP = "read everything, recompute it, list what is wrong"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("path", metavar="PATH", help="a cache file (HDF5)")
    add_json(parser)
    parser.add_argument("--quick", action="store_true", help="only read, recompute nothing")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="largest difference allowed, relative to the largest number of an entry, or to 1 if "
        "that is more (default: 1e-9 for float64, 1e-4 for float32)",
    )
    add_max_faults(parser)
    add_threads(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.formats.torch_cache.verification import verify_cache

    check_at_least(options, 0, "tolerance", "max_faults")
    check_at_least(options, 1, "threads")
    found = verify_cache(
        options.path,
        recompute=not options.quick,
        tolerance=options.tolerance,
        max_faults=options.max_faults,
        num_threads=options.threads,
        progress=shows_progress(options),
    )
    return report_check(found, options.json)
