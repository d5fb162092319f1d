"""The option for a picture, of the commands that have one."""

from __future__ import annotations

import argparse
from pathlib import Path

from atompack_torch.cli._output import UsageError


def add_plot(parser: argparse.ArgumentParser, shown: str) -> None:
    """Adds the option for a picture.

    Args:
        parser: parser of the command.
        shown: contents of the picture.
    """
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help=f"draw {shown} to a .png, .svg or .pdf file (needs matplotlib)",
    )


def check_plot(options: argparse.Namespace) -> None:
    """Checks the option for a picture before anything is read.

    Args:
        options: the parsed options.

    Raises:
        UsageError: the format of the picture is unknown, or matplotlib is not installed.
    """
    if options.plot is None:
        return
    from importlib.util import find_spec

    suffix = Path(options.plot).suffix
    if suffix not in (".png", ".svg", ".pdf"):
        raise UsageError(f"--plot: expected a .png, .svg or .pdf file, got {options.plot!r}")
    if find_spec("matplotlib") is None:
        raise UsageError("--plot: needs matplotlib (pip install matplotlib)")
