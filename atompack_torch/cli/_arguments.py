"""Commands and their arguments: each shared one has one name, one help text and one check."""

from __future__ import annotations

import argparse
import inspect
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atompack_torch.cli._output import UsageError
from atompack_torch.errors import AtompackError
from atompack_torch.options import is_url

if TYPE_CHECKING:
    from atompack_torch.formats.entry import Entry
    from atompack_torch.formats.paths import Place

Argument = Callable[[Any], object]  # adds an argument to a parser or group


class Command:
    """One command; its docstring is what ``--help`` shows.

    Attributes:
        help: its line in the list of commands.
        arguments: functions that add its arguments, in the order of the help.
    """

    help = ""
    arguments: Sequence[Argument] = ()

    @property
    def name(self) -> str:
        """Name of the command: that of the class."""
        return type(self).__name__.lower()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the arguments to the parser of the command."""
        for add in self.arguments:
            add(parser)

    def prepare(self, argv: list[str]) -> list[str]:
        """Returns the arguments of the command line as the parser is to read them."""
        return argv

    def needs_torch(self, options: argparse.Namespace) -> bool:
        """True if torch is imported before the command runs."""
        return True

    def run(self, options: argparse.Namespace) -> int:
        """Runs the command; returns the exit status."""
        raise NotImplementedError


class HelpFormatter(argparse.HelpFormatter):
    """Formatter whose text is as wide as the terminal, with a short usage line.

    Indented lines are examples: one that is too long is continued on the next line by a backslash.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        blocks = []
        for part in re.split(r"\n\s*\n", text.strip("\n")):
            if part.startswith("  "):
                lines = re.sub(r"\s*\\\n\s*", " ", part).splitlines()
                blocks.append("\n".join(_continued(line, width) for line in lines))
            else:
                blocks.append("\n".join(self._split_lines(part, width)))
        return "\n\n".join(blocks)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _format_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None
    ) -> str:
        actions = list(actions)
        shown = [action for action in actions if action.required or not action.option_strings]
        if len(actions) > len(shown) + 1 and prefix != "":  # an empty one makes a command's name
            shown.insert(0, argparse.Action([], "options", metavar="[options]"))
        return super()._format_usage(usage, shown, [], prefix)


def _continued(line: str, width: int) -> str:
    lines = textwrap.wrap(
        line,
        max(width, 20) - 2,
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return " \\\n".join(lines) if len(line) > width else line


def add_commands(
    parser: argparse.ArgumentParser,
    commands: Sequence[Command],
    dest: str,
    *,
    required: bool = True,
) -> None:
    """Adds commands to a parser.

    Args:
        parser: parser of the program, or of a command with commands of its own.
        commands: the commands.
        dest: attribute for the name of the command that was given.
        required: one of them must be given.
    """
    subparsers = parser.add_subparsers(dest=dest, required=required, metavar="COMMAND")
    for command in commands:
        added = subparsers.add_parser(
            command.name,
            help=command.help,
            description=inspect.getdoc(command),
            formatter_class=HelpFormatter,
        )
        command.add_arguments(added)


def argument(*names: str, **options: Any) -> Argument:
    """Returns a function that adds an argument, with the options of ``add_argument``."""
    return lambda parser: parser.add_argument(*names, **options)


def flag(name: str, text: str) -> Argument:
    """Returns a function that adds an option without a value."""
    return argument(name, action="store_true", help=text)


def integer(name: str, text: str, default: int | None = None, metavar: str = "N") -> Argument:
    """Returns a function that adds an option for an integer."""
    return argument(name, type=int, default=default, metavar=metavar, help=text)


def real(name: str, metavar: str, text: str, default: float | None = None) -> Argument:
    """Returns a function that adds an option for a number."""
    return argument(name, type=float, default=default, metavar=metavar, help=text)


def group(title: str, *arguments: Argument) -> Argument:
    """Returns a function that adds arguments under a title."""
    return lambda parser: _add_all(parser.add_argument_group(title), arguments)


def one_of(*arguments: Argument) -> Argument:
    """Returns a function that adds options that exclude each other."""
    return lambda parser: _add_all(parser.add_mutually_exclusive_group(), arguments)


def _add_all(parser: Any, arguments: Sequence[Argument]) -> None:
    for add in arguments:
        add(parser)


PATHS = argument(
    "path",
    nargs="+",
    metavar="PATH",
    help="an .atp, extended XYZ or .aselmdb file or a folder of them, a feature cache (HDF5), a "
    "folder of Atlas shards, an ATLAS store, an .af file; or a URL (s3://, https://, hf://, ...)",
)
JSON = flag("--json", "print one JSON document")
FIELDS = argument(
    "--fields", nargs="+", metavar="NAME", help="read these labels only (default: all)"
)
MAX_FAULTS = integer(
    "--max-faults", "list at most N faults, count the others (default: %(default)s)", 1000
)
RESUME = flag("--no-resume", "discard the work of an interrupted run")
STORAGE_OPTIONS = argument(
    "--storage-option",
    action="append",
    default=[],
    metavar="NAME=VALUE",
    help="for URLs; leave secrets in the environment",
)
URLS = group(
    "options for URLs",
    STORAGE_OPTIONS,
    argument(
        "--block-cache", metavar="FOLDER", help="keep what was read in a folder on local disk"
    ),
    integer(
        "--block-cache-bytes",
        "limit of that folder (default: 16 GiB), or of the memory without one (256 MiB)",
    ),
)


def source_and_target(source: str, target: str, *, several: bool = True) -> Argument:
    """Returns a function that adds the arguments for the files to read and the file to write.

    Args:
        source: help text for the sources.
        target: help text for the target.
        several: True if there may be several sources, which are then a list.

    Returns:
        The function.
    """
    count = {"nargs": "+"} if several else {}
    read = argument("source", metavar="SOURCE", help=source, **count)
    write = argument("target", metavar="TARGET", help=target)
    return lambda parser: _add_all(parser, (read, write))


def threads(default: str = "one per core") -> Argument:
    """Returns a function that adds the option for the number of threads, given its default."""
    return integer("--threads", f"number of threads (default: {default})")


def codec_and_level(codec: str, level: str, n: int | None) -> Argument:
    """Returns a function that adds the options for the compression of the target.

    Args:
        codec: codec without the option, for its help text.
        level: level without the option, for its help text.
        n: level without the option.

    Returns:
        The function.
    """
    choice = argument(
        "--codec",
        choices=("none", "lz4", "zstd"),
        metavar="CODEC",
        help=f"none, lz4 or zstd (default: {codec})",
    )
    number = integer("--level", f"level of the codec (default: {level})", n)
    return lambda parser: _add_all(parser, (choice, number))


def option_of(name: str) -> str:
    """Returns an option as written, given the name of its attribute."""
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


def check_at_least(options: argparse.Namespace, low: float, *names: str) -> None:
    """Checks that numbers, where they are given, are finite and not too small.

    Args:
        options: the parsed options.
        low: the smallest number allowed.
        *names: names of the options.

    Raises:
        UsageError: a number is smaller, infinite, or not a number.
    """
    for name in names:
        value = getattr(options, name)
        if value is not None and not low <= value < math.inf:
            raise UsageError(f"{option_of(name)}: expected a number from {low}, got {value}")


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


_TORCHRUN = ("RANK", "WORLD_SIZE")
_SLURM = ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT")


def part(what: str) -> Argument:
    """Returns a function that adds the option to share the work among several processes.

    Args:
        what: what the command does with a part, for the help text.

    Returns:
        The function.
    """
    return argument(
        "--part",
        metavar="I/N",
        help=f"{what}, counted from 0; `auto`: as torchrun or a SLURM job array says",
    )


def part_of(options: argparse.Namespace) -> tuple[int, int] | None:
    """Returns the part that was asked for.

    Args:
        options: the parsed options.

    Returns:
        Number of the part, from 0, and number of parts; None without the option.

    Raises:
        UsageError: there is no such part, or the environment does not name one.
    """
    given: str | None = options.part
    if given is None:
        return None
    if given == "auto":
        return part_of_environment(os.environ)
    found = re.fullmatch(r"(\d+)/(\d+)", given)
    if found is None:
        raise UsageError(f"--part: expected I/N or auto, got {given!r}")
    return _checked(int(found[1]), int(found[2]), "--part")


def part_of_environment(environment: Mapping[str, str]) -> tuple[int, int]:
    """Returns the part of this process among those started by torchrun or SLURM.

    The ranks of a torchrun in each task of an array share the part of the task.

    Args:
        environment: variables of the environment.

    Returns:
        Number of the part, from 0, and number of parts.

    Raises:
        UsageError: the variables are absent, or do not count from 0.
    """
    parts = [_named(environment, names) for names in (_SLURM, _TORCHRUN)]
    found = [part for part in parts if part is not None]
    if not found:
        names = f"{' and '.join(_TORCHRUN)} or {' and '.join(_SLURM)}"
        raise UsageError(f"--part auto: expected {names} in the environment, got neither")
    if parts[0] is not None:
        low = environment.get("SLURM_ARRAY_TASK_MIN", "0")
        high = environment.get("SLURM_ARRAY_TASK_MAX", str(parts[0][1] - 1))
        if (low, high) != ("0", str(parts[0][1] - 1)):
            raise UsageError(
                f"--part auto: expected an array of all tasks from 0 (--array=0-7), got "
                f"{parts[0][1]} tasks from {low} to {high}: give --part I/N for some of them"
            )
    number, count = 0, 1
    for inner, n_inner in found:
        number, count = number * n_inner + inner, count * n_inner
    return number, count


def _named(environment: Mapping[str, str], names: tuple[str, str]) -> tuple[int, int] | None:
    if any(name not in environment for name in names):
        return None
    values = [environment[name] for name in names]
    if not all(value.isdecimal() for value in values):
        raise UsageError(f"--part auto: expected numbers in {' and '.join(names)}, got {values}")
    return _checked(int(values[0]), int(values[1]), f"--part auto: {names[0]}")


def _checked(number: int, count: int, where: str) -> tuple[int, int]:
    if number >= count:
        raise UsageError(f"{where}: expected a number from 0 to {count - 1}, got {number}")
    return number, count
