"""Writes molecules into a new file, without the space that is dead.

  atompack-torch compact grown.atp compacted.atp
  atompack-torch compact --codec zstd shards/ archive.atp
  atompack-torch compact --order kept.txt grown.atp part.atp

TARGET may be SOURCE itself, which is then replaced; no other file is overwritten. Records are
compared with their source before the new file gets its name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from atompack_torch.cli._output import UsageError, add_json, files_at, print_json, shows_progress
from atompack_torch.inspection.text import printable

NAME = "compact"
HELP = "rewrite files without dead space, or with another codec"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "source", nargs="+", metavar="SOURCE", help="an .atp file, or a folder of shards"
    )
    parser.add_argument("target", metavar="TARGET", help="the new .atp file")
    parser.add_argument(
        "--codec", choices=("none", "lz4", "zstd"), help="(default: that of the source)"
    )
    parser.add_argument(
        "--level", type=int, help="of the codec (default: that of the source, or 3)"
    )
    parser.add_argument(
        "--order",
        metavar="FILE",
        help="text file with the numbers of the molecules to keep, in their new order",
    )
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    from atompack_torch import AtompackError, AtpDataset, compact
    from atompack_torch.formats import is_store

    if all(is_store(Path(path)) for path in options.source):
        raise UsageError('compact is for .atp files; AtlasStore(path, "a").compact() is for stores')
    files = files_at(options.source)
    order = None if options.order is None else numbers_in(options.order)
    before = sum(Path(file).stat().st_size for file in files)
    try:
        compact(
            files,
            options.target,
            codec=options.codec,
            level=options.level,
            order=order,
            progress=shows_progress(options),
        )
    except AtompackError:
        raise
    except ValueError as error:  # a level that the codec does not support
        raise UsageError(str(error)) from error
    after = Path(options.target).stat().st_size
    molecules = len(AtpDataset(options.target))
    if options.json:
        print_json({"n_molecules": molecules, "bytes_before": before, "bytes_after": after})
    else:
        path = printable(options.target)
        print(f"{path}: {molecules:,} molecules, {after:,} bytes (before: {before:,})")
    return 0


def numbers_in(path: str) -> list[int]:
    """Reads the integers in a text file."""
    try:
        return [int(word) for word in Path(path).read_text().split()]
    except ValueError as error:
        raise UsageError(f"--order: expected a text file of numbers, got {path}: {error}") from None
