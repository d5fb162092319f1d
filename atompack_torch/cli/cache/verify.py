"""Reads a feature cache with all checks, computes its rows again, and lists what is wrong.

  atompack-torch cache verify water.h5
  atompack-torch cache verify --quick --json water.h5

Faults are contradictions to the format; entries that differ store other features or derivatives
than their structures give by the file's own descriptor (derivatives are compared as forces, for
fixed weights, as rows may stand in any order). aenet-python gets periodic entries with forces wrong
if an atom is outside of its cell: such entries are listed as spoiled, and `cache build` makes them
anew. The exit status is 1 if there is any fault or difference.
"""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import UsageError, add_json, report_check, shows_progress
from atompack_torch.cli.cache._options import add_threads, checked_threads

NAME = "verify"
HELP = "read everything, compute it again, list what is wrong"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("path", metavar="PATH", help="a cache file (HDF5)")
    add_json(parser)
    parser.add_argument("--quick", action="store_true", help="only read, compute nothing again")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="PART",
        help="differences that pass, relative to the largest number of an entry, or to 1 if that "
        "is more (default: 1e-9 for float64, 1e-4 for float32)",
    )
    parser.add_argument(
        "--max-faults", type=int, default=1000, help="list at most so many (default: %(default)s)"
    )
    add_threads(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.caches.verification import verify_cache

    if options.tolerance is not None and not options.tolerance >= 0:
        raise UsageError(f"--tolerance: expected a number from 0, got {options.tolerance}")
    found = verify_cache(
        options.path,
        recompute=not options.quick,
        tolerance=options.tolerance,
        max_faults=options.max_faults,
        num_threads=checked_threads(options),
        progress=shows_progress(options),
    )
    return report_check(found, options.json)
