"""Shows what is in a feature cache: entries, rows, the descriptor, the attributes of the file.

  atompack-torch cache info water.h5
  atompack-torch cache info water.h5 --plot water.png
  atompack-torch cache info --json water.h5 | jq .files[0].n_entries

Only indexes and attributes are read, no rows.
"""

from __future__ import annotations

import argparse
from typing import Any

from atompack_torch.cli._options import add_json
from atompack_torch.cli._output import print_error, print_json, print_text
from atompack_torch.cli._plots import add_plot, check_plot

NAME = "info"
HELP = "show entries, rows, descriptor, attributes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("path", nargs="+", metavar="PATH", help="a cache file (HDF5)")
    add_json(parser)
    add_plot(parser, "sizes, rows and totals")


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    check_plot(options)
    from atompack_torch.formats.paths import Place
    from atompack_torch.formats.torch_cache.inspection import describe
    from atompack_torch.remote.files import RemoteFiles

    places = [Place(path, RemoteFiles()) for path in options.path]
    described = describe(places, full=False, progress=False)
    if options.plot is not None:
        _plot(options, [file for file in described.document["files"] if "error" not in file])
    if options.json:
        print_json(described.document)
    else:
        print_text(described.text)
    for message in described.errors:
        print_error("cache info", message)
    return 1 if described.errors else 0


def _plot(options: argparse.Namespace, files: list[dict[str, Any]]) -> None:
    from atompack_torch.formats.torch_cache.inspection import entry_sizes
    from atompack_torch.reports.plots import plot_caches

    if files:
        plot_caches([file | {"sizes": entry_sizes(file["path"])} for file in files], options.plot)
