"""Options that several commands have: each has one name, one help text and one check."""

from __future__ import annotations

import argparse
from typing import Any

from atompack_torch.cli._output import UsageError
from atompack_torch.options import is_url


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Adds the argument for the files to inspect."""
    parser.add_argument(
        "path",
        nargs="+",
        metavar="PATH",
        help="an .atp file or a folder of them, a feature cache (HDF5), a folder of Atlas shards, "
        "an ATLAS store, an .af file; or a URL of one (s3://, gs://, az://, https://, hf://, ...)",
    )


def add_source_and_target(
    parser: argparse.ArgumentParser, source: str, target: str, *, several: bool = True
) -> None:
    """Adds the arguments for the files to read and the file to write.

    Args:
        parser: parser of the command.
        source: help text for the sources.
        target: help text for the target.
        several: True if there may be several sources.
    """
    # With a value for nargs, options.source is a list.
    count = {"nargs": "+"} if several else {}
    parser.add_argument("source", metavar="SOURCE", help=source, **count)  # type: ignore[arg-type]
    parser.add_argument("target", metavar="TARGET", help=target)


def add_remote(parser: argparse.ArgumentParser) -> None:
    """Adds the options for paths that are URLs."""
    group = parser.add_argument_group("options for URLs")
    group.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="endpoint_url, region, profile, key, secret, token, anonymous=true or headers.NAME of "
        "the store; for URLs of fsspec an option of its own; may be repeated. Other users of the "
        "machine can see command lines: leave secrets in the environment (AWS_SECRET_ACCESS_KEY, "
        "HF_TOKEN) or in files of credentials",
    )
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
    storage: dict[str, Any] = {}
    for text in options.storage_option:
        name, separator, value = text.partition("=")
        if not separator or not name:  # the text may be a secret
            raise UsageError("--storage-option: expected NAME=VALUE")
        if name.startswith("headers."):
            storage.setdefault("headers", {})[name.removeprefix("headers.")] = value
        else:
            storage[name] = {"true": True, "false": False}.get(value, value)
    given = {
        "storage_options": storage or None,
        "block_cache": options.block_cache,
        "block_cache_bytes": options.block_cache_bytes,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if given and not any(map(is_url, options.path)):
        names = ", ".join(map(option_of, given)).replace("options", "option")
        raise UsageError(f"{names}: expected a URL, got local paths")
    return given


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds the option for machine-readable output."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Adds the option that selects labels."""
    parser.add_argument(
        "--fields", nargs="+", metavar="NAME", help="read these labels only (default: all)"
    )


def add_max_faults(parser: argparse.ArgumentParser) -> None:
    """Adds the option that limits the faults to list."""
    parser.add_argument(
        "--max-faults",
        type=int,
        default=1000,
        metavar="N",
        help="list at most N faults, count the others (default: %(default)s)",
    )


def add_threads(parser: argparse.ArgumentParser, default: str = "one per core") -> None:
    """Adds the option for the number of threads.

    Args:
        parser: parser of the command.
        default: number of threads without the option, for its help text.
    """
    parser.add_argument(
        "--threads", type=int, metavar="N", help=f"number of threads (default: {default})"
    )


def add_codec(parser: argparse._ActionsContainer, codec: str, level: str, n: int | None) -> None:
    """Adds the options for the compression of the target.

    Args:
        parser: parser of the command, or a group of its options.
        codec: codec without the option, for its help text.
        level: level without the option, for its help text.
        n: level without the option.
    """
    parser.add_argument(
        "--codec",
        choices=("none", "lz4", "zstd"),
        help=f"codec of the target (default: {codec})",
    )
    parser.add_argument(
        "--level", type=int, default=n, metavar="N", help=f"level of the codec (default: {level})"
    )


def add_resume(parser: argparse.ArgumentParser) -> None:
    """Adds the option to ignore the work of an interrupted run."""
    parser.add_argument(
        "--no-resume", action="store_true", help="discard the work of an interrupted run"
    )


def option_of(name: str) -> str:
    """Returns an option as written, given the name of its attribute."""
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def check_at_least(options: argparse.Namespace, low: float, *names: str) -> None:
    """Checks that numbers, where they are given, are not too small.

    Args:
        options: the parsed options.
        low: the smallest number allowed.
        *names: names of the options.

    Raises:
        UsageError: a number is smaller, or not a number.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not value >= low:
            raise UsageError(f"{option_of(name)}: expected a number from {low}, got {value}")
