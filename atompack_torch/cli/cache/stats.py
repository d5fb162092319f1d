"""Use of a folder with blocks of remote files."""

from __future__ import annotations

import argparse
import time

from atompack_torch.cli._output import print_json
from atompack_torch.errors import printable


def run(options: argparse.Namespace) -> int:
    """Runs ``cache --stats``.

    Only names, sizes and tables of the folder are read, without locks, so that other processes are
    not disturbed. The limit and the hits belong to the processes that use it.
    """
    from atompack_torch._native import block_cache_usage
    from atompack_torch.options import checked_path

    folder = checked_path(options.stats)
    usage = block_cache_usage(folder)
    if options.json:
        print_json({"path": folder, **usage})
        return 0
    print(
        f"{printable(folder)}: {usage['bytes']:,} bytes on disk, {usage['pages']:,} blocks of "
        f"4,096 bytes, {usage['objects']:,} objects, {usage['files']:,} files"
    )
    if usage["oldest_use"] is not None and usage["newest_use"] is not None:
        print(
            f"  used last: {_when(usage['newest_use'])}; longest ago: {_when(usage['oldest_use'])}"
        )
    return 0


def _when(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
