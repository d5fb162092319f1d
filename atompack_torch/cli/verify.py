"""Reads every record with all checks and lists what is damaged.

  atompack-torch verify alloys.atp
  atompack-torch verify --json shards/ | jq .n_faults

Faults go to stdout, one a line, with file, molecule, field and offset; so do warnings about what
readers get over (an uncommitted tail, a damaged older header, NaN values). The exit status is 1 if
there is any fault. Records carry no checksums: a changed number that is still a number is not
found.
"""

from __future__ import annotations

import argparse
import contextlib

from atompack_torch.cli import _atlas, _shards
from atompack_torch.cli._output import (
    add_json,
    add_paths,
    files_at,
    print_json,
    printable,
    shows_progress,
)

NAME = "verify"
HELP = "read everything and list what is damaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_paths(parser)
    add_json(parser)
    parser.add_argument(
        "--max-faults", type=int, default=1000, help="list at most so many (default: %(default)s)"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    if _atlas.are_stores(options.path):
        return _atlas.verify(options.path, options.max_faults, options.json)
    if _shards.are_shards(options.path):
        return _shards.verify(options.path, options.max_faults, options.json)
    from atompack_torch.verification import verify

    found = verify(
        files_at(options.path),
        max_faults=options.max_faults,
        progress=shows_progress(options),
    )
    with contextlib.suppress(BrokenPipeError):  # the exit status stands
        if options.json:
            print_json(found.as_dict())
            return 0 if found.ok else 1
        for fault in found.faults:
            print(printable(fault.message))
        if found.n_faults > len(found.faults):
            print(f"... and {found.n_faults - len(found.faults):,} more faults")
        for warning in found.warnings:
            print(f"warning: {printable(warning)}")
        print(
            f"{len(found.files):,} files, {found.n_molecules:,} molecules, "
            f"{found.n_bytes:,} bytes of records: {found.n_faults:,} faults, "
            f"{len(found.warnings):,} warnings"
        )
    return 0 if found.ok else 1
