"""Prints a script that completes commands, options and file names in a shell.

  atompack-torch completion bash > ~/.local/share/bash-completion/completions/atompack-torch
  atompack-torch completion zsh > ~/.zfunc/_atompack-torch
  atompack-torch completion fish > ~/.config/fish/completions/atompack-torch.fish

The script holds all that it needs; the shell starts no Python to complete a word. Needs shtab (pip
install shtab).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from atompack_torch import cli
from atompack_torch.cli._options import add_json
from atompack_torch.cli._output import print_json

NAME = "completion"
HELP = "print a script that completes commands in bash, zsh or fish"

# Arguments that are files or folders.
_PATHS = ("path", "source", "target", "a", "b", "other", "output", "out", "add", "order", "folder")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    add_json(parser)


def needs_torch(options: argparse.Namespace) -> bool:
    """False: only the parsers are read."""
    return False


def run(options: argparse.Namespace) -> int:
    """Runs the command."""
    try:
        import shtab
    except ImportError as error:
        raise ImportError("completion needs shtab: pip install shtab") from error
    parser, _ = cli.build_parser()
    for action in _actions(parser):
        if action.dest in _PATHS and not action.choices:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    script = shtab.complete(parser, options.shell)
    if options.json:
        print_json({"shell": options.shell, "script": script})
    else:
        sys.stdout.write(script)
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of a parser and of all its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        elif not isinstance(action, argparse._HelpAction):
            yield action
