"""The command line: ``python -m atompack_torch`` and ``atompack-torch``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 1 (bad data), 2 (usage)."""
    parser = argparse.ArgumentParser(prog="atompack-torch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser(
        "bench", help="how fast batches are read, next to atompack-db", add_help=False
    )
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command == "bench":
        from atompack_torch.bench import main as bench

        return bench(rest)
    return 2


if __name__ == "__main__":
    sys.exit(main())
