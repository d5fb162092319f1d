"""Options shared by the cache commands."""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import UsageError


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Adds the option for the number of threads."""
    parser.add_argument(
        "--threads", type=int, metavar="N", help="so many at once (default: one for each core)"
    )


def checked_threads(options: argparse.Namespace) -> int | None:
    """Returns the requested number of threads."""
    threads: int | None = options.threads
    if threads is not None and threads < 1:
        raise UsageError(f"--threads: expected a positive number, got {threads}")
    return threads


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Adds the option to ignore the work of an interrupted run."""
    parser.add_argument(
        "--no-resume", action="store_true", help="throw away what a stopped run has left"
    )
