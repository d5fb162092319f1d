"""Options that the commands for caches share."""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import UsageError


def add_threads(parser: argparse.ArgumentParser) -> None:
    """How much is worked on at once."""
    parser.add_argument(
        "--threads", type=int, metavar="N", help="so many at once (default: one for each core)"
    )


def checked_threads(options: argparse.Namespace) -> int | None:
    """The number that was asked for."""
    threads: int | None = options.threads
    if threads is not None and threads < 1:
        raise UsageError(f"--threads: expected a positive number, got {threads}")
    return threads


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Whether earlier work is taken up."""
    parser.add_argument(
        "--no-resume", action="store_true", help="throw away what a stopped run has left"
    )
