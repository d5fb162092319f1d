"""Options that the commands of the hub share."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from atompack_torch.cli._options import add_json
from atompack_torch.cli._output import UsageError
from atompack_torch.errors import AtompackError


def add_repository(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds the arguments for a place in a repository.

    Args:
        parser: parser of the command.
        name: help text for the name in the repository.
    """
    parser.add_argument("repository", metavar="OWNER/NAME", help="a repository of the hub")
    parser.add_argument("name", nargs="?", metavar="PLACE", help=name)
    parser.add_argument("--revision", metavar="NAME", help="branch (default: main)")
    parser.add_argument(
        "--repo-type", choices=("dataset", "model", "space"), default="dataset", help="its type"
    )
    add_json(parser)


@contextlib.contextmanager
def hub_errors() -> Iterator[None]:
    """Converts errors on names and options to usage errors."""
    try:
        yield
    except AtompackError:
        raise
    except ValueError as error:
        raise UsageError(str(error)) from error
