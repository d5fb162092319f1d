"""Options of ``bench`` and the benchmark scripts; a separate module, so that --help is fast."""

from __future__ import annotations

import argparse
from pathlib import Path


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {number}")
    return number


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all of these benchmarks take."""
    parser.add_argument("--rounds", type=positive, default=9, help="(default: %(default)s)")
    parser.add_argument("--molecules", type=positive, default=20_000, help="(default: %(default)s)")
    parser.add_argument("--batch-size", type=positive, default=64, help="(default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quick", action="store_true", help="a smoke run: small and imprecise")
    parser.set_defaults(seconds=0.25)  # of one round of one contestant


def resolve_options(options: argparse.Namespace) -> None:
    """Apply ``--quick`` to the options."""
    if options.quick:
        options.rounds, options.seconds = min(options.rounds, 3), 0.02
        options.molecules = min(options.molecules, 2000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_options(parser)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=".atp file or folder")
    parser.add_argument("--workers", type=int, default=0, help="for PATH (default: %(default)s)")
