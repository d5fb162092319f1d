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
    from atompack_torch.remote.files import RemoteFiles


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
    storage = storage_options_of(options)
    caching = {"cache": options.block_cache, "cache_bytes": options.block_cache_bytes}
    caching = {name: value for name, value in caching.items() if value is not None}
    if (storage or caching) and not any(map(is_url, options.path)):
        names = ["storage_option"] * bool(storage) + [f"block_{name}" for name in caching]
        raise UsageError(f"{', '.join(map(option_of, names))}: expected a URL, got local paths")
    return {"storage_options": {**(storage or {}), **caching}} if storage or caching else {}


def remote_entry(options: argparse.Namespace) -> tuple[Entry, RemoteFiles]:
    """Returns the module of the format that all paths of a command have.

    Args:
        options: the parsed options: ``path``, a list, and those for URLs.

    Returns:
        The module, with the functions of ``Entry``; the access to paths that are URLs.

    Raises:
        UsageError: the paths are of several formats, or an option for URLs is wrong.
        UnsupportedFormatError: a path has a known format that cannot be opened.
    """
    from atompack_torch.formats.dispatch import entry_of
    from atompack_torch.formats.entry import SeveralFormatsError
    from atompack_torch.formats.paths import access_to

    given = remote_options(options)
    try:
        remote = access_to(options.path, given.get("storage_options"))
        return entry_of(options.path, remote), remote
    except SeveralFormatsError as error:
        raise UsageError(str(error)) from None
    except AtompackError:
        raise
    except (TypeError, ValueError) as error:  # wrong options
        raise UsageError(str(error)) from None
