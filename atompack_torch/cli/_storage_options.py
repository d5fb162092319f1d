"""Options of commands whose sources and targets may be URLs."""

from __future__ import annotations

import argparse
from typing import Any

from atompack_torch.cli._output import UsageError


def add_storage_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Adds the options of the store that URLs lead to."""
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for URLs: endpoint_url, region, profile, key, secret, token, anonymous=true or "
        "headers.NAME of the store; for URLs of fsspec an option of its own; may be repeated. "
        "Other users of the machine can see command lines: leave secrets in the environment "
        "(AWS_SECRET_ACCESS_KEY, HF_TOKEN) or in files of credentials",
    )


def storage_options_of(options: argparse.Namespace) -> dict[str, Any] | None:
    """Returns the options for URLs.

    Args:
        options: the parsed options.

    Returns:
        Name to value; None if none was given.

    Raises:
        UsageError: an option has no value.
    """
    storage: dict[str, Any] = {}
    for text in options.storage_option:
        name, separator, value = text.partition("=")
        if not separator or not name:  # the text may be a secret
            raise UsageError("--storage-option: expected NAME=VALUE")
        if name.startswith("headers."):
            storage.setdefault("headers", {})[name.removeprefix("headers.")] = value
        else:
            storage[name] = {"true": True, "false": False}.get(value, value)
    return storage or None
