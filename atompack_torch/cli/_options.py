"""Options that several commands have: each has one name, one help text and one check."""

from __future__ import annotations

import argparse

from atompack_torch.cli._output import UsageError


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
