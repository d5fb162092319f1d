"""Measures how fast batches are read: from the files named, or from standard data.

  atompack-torch bench alloys.atp
  atompack-torch bench --quick

Where atompack-db is installed, it reads the same files for comparison; the standard data needs
it.
"""

from __future__ import annotations

import argparse

NAME = "bench"
HELP = "how fast batches are read, next to atompack-db"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    from atompack_torch.cli._bench_options import add_arguments

    add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch.bench import run

    return run(options)
