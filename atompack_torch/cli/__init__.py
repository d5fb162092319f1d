"""The command line: ``python -m atompack_torch`` and ``atompack-torch``.

Each module here whose name has no underscore in front is a command: ``NAME``, ``HELP`` (one line),
a docstring that its ``--help`` shows, ``add_arguments(parser)`` and ``run(options)``, which returns
the exit status. Only the module of the command that was asked for is imported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

from atompack_torch.cli._output import UsageError, printable
from atompack_torch.errors import AtompackError

DESCRIPTION = """\
Looks into, checks and rewrites files of atomistic data.

`atompack-torch COMMAND --help` shows an example. Exit status: 0, 1 (bad data), 2 (wrong usage)."""
OK, BAD_DATA, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def commands() -> list[str]:
    """The names of all commands."""
    return [module.name for module in pkgutil.iter_modules(__path__) if module.name[0] != "_"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0, 1 (bad data), 2 (wrong usage)."""
    argv = sys.argv[1:] if argv is None else list(argv)
    options, command = _parse(argv)
    for stream in (sys.stdout, sys.stderr):  # keys and file names may be anything
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    status = OK
    try:
        status = command.run(options)
        print(end="", flush=True)  # does nothing where there is no stdout
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    except (AtompackError, OSError) as error:
        return _fail(options.command, error, BAD_DATA)
    except (UsageError, ImportError) as error:
        return _fail(options.command, error, WRONG_USAGE)
    return status


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, ModuleType]:
    parser = argparse.ArgumentParser(
        prog="atompack-torch",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    names = commands()
    asked = [name for name in argv[:1] if name in names]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in asked or names]
    for module in modules:
        command = subparsers.add_parser(
            module.NAME,
            help=module.HELP,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(command)
    options = parser.parse_args(argv)
    return options, next(m for m in modules if options.command == m.NAME)


def _fail(command: str, error: Exception, status: int) -> int:
    print(f"atompack-torch {command}: {printable(str(error))}", file=sys.stderr)
    return status
