"""Options for paths that are URLs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._options import check_at_least, option_of
from atompack_torch.cli._output import UsageError
from atompack_torch.cli._storage_options import add_storage_options, storage_options_of
from atompack_torch.errors import AtompackError
from atompack_torch.options import is_url

if TYPE_CHECKING:
    from atompack_torch.formats.entry import Entry
    from atompack_torch.formats.paths import Place


def add_remote(parser: argparse.ArgumentParser) -> None:
    """Adds the options for paths that are URLs."""
    group = parser.add_argument_group("options for URLs")
    add_storage_options(group)
    group.add_argument(
        "--block-cache", metavar="FOLDER", help="keep what was read in a folder on local disk"
    )
    group.add_argument(
        "--block-cache-bytes",
        type=int,
        metavar="N",
        help="limit of that folder (default: 16 GiB), or of the memory without one (256 MiB)",
    )


def remote_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options for URLs, as arguments of ``open``.

    Args:
        options: the parsed options.

    Returns:
        Those that were given, by name.

    Raises:
        UsageError: an option has no value, or is given although no path is a URL.
    """
    check_at_least(options, 1, "block_cache_bytes")
    given = {
        "storage_options": storage_options_of(options),
        "block_cache": options.block_cache,
        "block_cache_bytes": options.block_cache_bytes,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if given and not any(map(is_url, options.path)):
        names = ", ".join(map(option_of, given)).replace("options", "option")
        raise UsageError(f"{names}: expected a URL, got local paths")
    return given


def places_of(options: argparse.Namespace) -> tuple[Entry, list[Place]]:
    """Returns the module of the format that all paths of a command have, and the paths.

    Args:
        options: the parsed options: ``path``, a list, and those for URLs.

    Returns:
        The module, with the functions of ``Entry``, and the paths.

    Raises:
        UsageError: the paths are of several formats, or an option for URLs is wrong.
        UnsupportedFormatError: a path has a known format that cannot be opened.
    """
    from atompack_torch.formats.dispatch import entry_of
    from atompack_torch.formats.entry import SeveralFormatsError
    from atompack_torch.formats.paths import located

    try:
        places = located(options.path, **remote_options(options))
        return entry_of(places), places
    except SeveralFormatsError as error:
        raise UsageError(str(error)) from None
    except AtompackError:
        raise
    except (TypeError, ValueError) as error:  # wrong options
        raise UsageError(str(error)) from None
