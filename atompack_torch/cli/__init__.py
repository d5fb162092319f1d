"""The command line: ``python -m atompack_torch`` and ``atompack-torch``.

The class of a command has its name, capitalized. Only the module of the
command that was asked for is imported. These modules import torch, numpy and the library inside
``run`` alone, so that help and usage errors appear immediately.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from atompack_torch.cli._arguments import Command, HelpFormatter, add_commands
from atompack_torch.cli._output import UsageError, error_document, print_error, print_json
from atompack_torch.errors import AtompackError

DESCRIPTION = """\
Inspects, checks, converts and rewrites files of atomistic data.

`atompack-torch COMMAND --help` shows an example. Exit status: 0, 1 (bad data), 2 (wrong usage).
With --json an error is a JSON document too: {"error": {"type": .., "message": .., "status": ..}}
Colors appear on terminals, unless NO_COLOR is set."""
OK, BAD_DATA, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


_MODULES = {
    "bench": ("bench",),
    "cache": ("cache",),
    "compact": ("compact",),
    "convert": ("convert",),
    "inspecting": ("diff", "head", "info", "report", "show", "stats", "verify"),
    "selecting": ("drop", "filter", "rename", "sample", "split"),
}


def commands() -> list[str]:
    """Returns the names of all commands."""
    return sorted(name for names in _MODULES.values() for name in names)


def _command(name: str) -> Command:
    module = next(module for module, names in _MODULES.items() if name in names)
    command: type[Command] = getattr(importlib.import_module(f"{__name__}.{module}"), name.title())
    return command()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 1 (bad data), 2 (wrong usage)."""
    argv = sys.argv[1:] if argv is None else list(argv)
    status = OK
    try:
        options, command = _parse(argv)
        for stream in (sys.stdout, sys.stderr):  # keys and file names may be anything
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        status = _run(command, options)
        print(end="", flush=True)  # does nothing if there is no stdout
    except OSError as error:  # from stdout: `_run` handles all others
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError) and status == OK:  # its reader has not exited
            print_error(argv[0], str(error))
            return BAD_DATA
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(command: Command, options: argparse.Namespace) -> int:
    try:
        name = "_core" if command.needs_torch(options) else "_native"
        with _exiting_on_interrupt():
            importlib.import_module(f"atompack_torch.{name}")
        return command.run(options)
    except BrokenPipeError:
        raise
    except (AtompackError, OSError) as error:
        return _fail(options, error, BAD_DATA)
    except (UsageError, ImportError) as error:
        return _fail(options, error, WRONG_USAGE)


class _Parser(argparse.ArgumentParser):
    """Argument parser that also prints usage errors as JSON if ``--json`` is given.

    A command shows its own usage where it does not know an argument, not that of the program.
    """

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = args or ()
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        if "--json" in self._given:
            print_json(error_document("UsageError", message, WRONG_USAGE))
        super().error(message)


class _CommandsFormatter(HelpFormatter):
    """Formatter that leaves room for the longest name of a command on the line of its help."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        indents = 2 * self._indent_increment  # argparse itself counts one of two
        self._action_max_length = max(map(len, commands())) + indents


class _Version(argparse.Action):
    """Action that prints the version and exits; the version is read only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from atompack_torch import __version__

        print(f"{parser.prog} {__version__}")
        parser.exit()


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, Command]:
    parser, made = build_parser([name for name in argv[:1] if name in commands()])
    if len(made) == 1:
        argv = made[0].prepare(list(argv))
    options = parser.parse_args(argv)
    return options, next(command for command in made if options.command == command.name)


def build_parser(names: Sequence[str] = ()) -> tuple[argparse.ArgumentParser, list[Command]]:
    """Builds the parser of the command line.

    Args:
        names: commands to include; empty: all.

    Returns:
        The parser, and the commands.
    """
    parser = _Parser(
        prog="atompack-torch",
        description=DESCRIPTION,
        formatter_class=_CommandsFormatter,
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="show the version of the package and exit"
    )
    made = [_command(name) for name in names or commands()]
    add_commands(parser, made, "command")
    return parser, made


@contextlib.contextmanager
def _exiting_on_interrupt() -> Iterator[None]:
    """Makes Ctrl-C end the process immediately: an interrupted import of torch prints a traceback.

    Extension modules turn a KeyboardInterrupt into errors of their own, or print it.
    """
    if "torch" in sys.modules or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:  # ignored, or a custom handler
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fail(options: argparse.Namespace, error: Exception, status: int) -> int:
    if getattr(options, "json", False):
        print_json(error_document(type(error).__name__, str(error), status))
    print_error(options.command, str(error))
    return status
