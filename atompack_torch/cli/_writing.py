"""Options of the commands that write a file, shared with ``convert``."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._arguments import (
    JSON,
    STORAGE_OPTIONS,
    Argument,
    argument,
    codec_and_level,
    flag,
    group,
    integer,
    option_of,
    storage_options_of,
)
from atompack_torch.cli._output import UsageError, print_json, styled
from atompack_torch.errors import AtompackError, printable
from atompack_torch.formats import FORMATS
from atompack_torch.options import ChangeOptions

if TYPE_CHECKING:
    from atompack_torch.formats.conversion_report import Report
    from atompack_torch.formats.converter import Mode

STDOUT = "-"
_SHARDS = {
    "shard-size": "shards: examples per shard (default: 10000)",
    "block-size": "shards: examples per block (default: 100)",
    "strategy": "shards: 0 none, 1 zstd, 2 (default) or 3 dictionaries",
}


KEYS = argument(
    "--key",
    action="append",
    default=[],
    metavar="KEY=NAME",
    help="read KEY as NAME, as in REF_energy=energy; repeatable",
)
OUTPUT = (JSON, STORAGE_OPTIONS, flag("--quiet", "show no progress bar and no report"))


def add_formats(parser: argparse.ArgumentParser, *others: str) -> None:
    """Adds the options for formats, codec and shards.

    Args:
        parser: parser of the command.
        *others: further formats of targets, for the help text.
    """
    sources = dict.fromkeys(known.source for known in FORMATS if known.source)
    targets = [*(known.source for known in FORMATS if known.is_target), *others]
    source = argument(
        "--from",
        dest="source_format",
        metavar="FORMAT",
        help=f"{', '.join(sources)} or ase:NAME",
    )
    target = argument(
        "--to",
        dest="target_format",
        metavar="FORMAT",
        help=", ".join(targets),
    )
    codec = "none" + ("; zstd for a store" if others else "")
    shards = (integer(f"--{name}", text) for name, text in _SHARDS.items())
    group("formats", source, target, codec_and_level(codec, "3", 3), *shards)(parser)


def changes(*names: str) -> Argument:
    """Returns a function that adds options of ``ChangeOptions``.

    Args:
        *names: names of their fields; empty: all.

    Returns:
        The function.
    """

    def add(parser: Any) -> None:
        for option in fields(ChangeOptions):
            if names and option.name not in names:
                continue
            choices = option.metadata["choices"]
            unit_or_kind = "UNIT" if not choices else option.name.split("_")[-1].upper()
            kind: dict[str, Any] = {
                "choices": choices or None,
                "metavar": choices[0] if len(choices) == 1 else unit_or_kind,
            }
            if option.default is False:
                kind = {"action": "store_true"}
            parser.add_argument(option_of(option.name), help=option.metadata["help"], **kind)

    return add


def changes_of(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the given options of ``ChangeOptions``, as arguments of ``convert``."""
    given = vars(options)
    names = [option.name for option in fields(ChangeOptions)]
    return {name: given[name] for name in names if given.get(name)}


TARGET_OPTIONS = (
    *OUTPUT,
    flag("--overwrite", "replace files that exist"),
    add_formats,
    changes("keep_units"),
)


def target_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of the target and of keys, as arguments of the Python functions."""
    keys = {"key_map": pairs_of(options.key, "--key")} if hasattr(options, "key") else {}
    return keys | {
        **changes_of(options),
        "format": options.source_format,
        "target": options.target_format,
        "codec": options.codec,
        "level": options.level,
        "shards": shards_of(options),
        "mode": mode_of(options),
        "progress": wants_progress(options),
        "storage_options": storage_options_of(options),
    }


def mode_of(options: argparse.Namespace) -> Mode:
    """Returns the mode in which the target is opened."""
    return "w" if options.overwrite else "a" if getattr(options, "append", False) else "x"


def wants_progress(options: argparse.Namespace) -> bool:
    """True unless JSON or nothing is to be printed."""
    return not (options.json or options.quiet)


def shards_of(options: argparse.Namespace) -> tuple[int, int, int] | None:
    """Returns examples per shard, examples per block and strategy; None if none was given."""
    given = (options.shard_size, options.block_size, options.strategy)
    if given == (None, None, None):
        return None
    defaults = (10_000, 100, 2)
    size, block, strategy = (
        default if value is None else value for value, default in zip(given, defaults, strict=True)
    )
    return size, block, strategy


def pairs_of(texts: Sequence[str], option: str) -> dict[str, str]:
    """Splits ``KEY=NAME`` at the last equals sign.

    Args:
        texts: the pairs.
        option: name of the option, for the message.

    Returns:
        Key → name.

    Raises:
        UsageError: a text is no such pair.
    """
    pairs = {}
    for text in texts:
        key, equals, name = text.rpartition("=")
        if not (key and equals and name):
            raise UsageError(f"{option}: expected KEY=NAME, got {text!r}")
        pairs[key] = name
    return pairs


@contextlib.contextmanager
def writing_errors(instead: str = "--overwrite replaces it") -> Iterator[None]:
    """Converts errors about options that do not fit, or about existing targets, to usage errors.

    Args:
        instead: advice for a target that exists.

    Yields:
        Nothing.

    Raises:
        UsageError: instead of those errors.
    """
    from atompack_torch.datasets.selection.blocks import UnknownFieldError
    from atompack_torch.datasets.selection.expressions import ExpressionError

    try:
        yield
    except (UnknownFieldError, ExpressionError) as error:
        raise UsageError(str(error)) from error
    except AtompackError:
        raise
    except ValueError as error:  # incompatible options, unknown units
        raise UsageError(str(error)) from error
    except FileExistsError as error:
        raise UsageError(f"{error.filename}: exists already: {instead}") from error


def print_report(report: object) -> None:
    """Prints the report of a conversion; warnings stand out on a terminal."""
    for line in str(report).splitlines():
        shown = printable(line)
        is_warning = line.startswith("warnings")
        print(styled(shown, "yellow", sys.stdout) if is_warning else shown)


def show_report(options: argparse.Namespace, report: Report) -> None:
    """Prints a report as it was asked for, on stderr if stdout is the target."""
    stream = sys.stderr if options.target == STDOUT else sys.stdout
    with contextlib.redirect_stdout(stream):
        if options.json:
            print_json(report.as_dict())
        elif not options.quiet:
            print_report(report)


def run_writer(
    options: argparse.Namespace, write: Callable[..., Report], *arguments: object
) -> int:
    """Runs a command that writes one target, and prints its report.

    Args:
        options: the parsed options.
        write: takes source, target, the arguments and those of ``target_options``; returns the
            report.
        *arguments: what it does with the source.

    Returns:
        The exit status.
    """
    with writing_errors():
        report = write(options.source, options.target, *arguments, **target_options(options))
    show_report(options, report)
    return 0
