"""The command that prints scripts for the completion of shells."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from atompack_torch import cli
from atompack_torch.cli._arguments import JSON, Command, argument
from atompack_torch.cli._output import print_result

# Arguments that are files or folders.
_PATHS = ("path", "source", "target", "a", "b", "other", "output", "out", "add")


class Completion(Command):
    """Prints a script that completes commands, options and file names in a shell.

      atompack-torch completion bash > ~/.local/share/bash-completion/completions/atompack-torch
      atompack-torch completion zsh > ~/.zfunc/_atompack-torch
      atompack-torch completion fish > ~/.config/fish/completions/atompack-torch.fish

    The script holds all that it needs; the shell starts no Python to complete a word. Needs shtab (pip
    install shtab).
    """  # noqa: E501

    name = "completion"
    help = "print a script that completes commands in bash, zsh or fish"
    arguments = (
        argument("shell", choices=("bash", "zsh", "fish"), help="the shell"),
        JSON,
    )

    def needs_torch(self, options: argparse.Namespace) -> bool:
        """False: only the parsers are read."""
        return False

    def run(self, options: argparse.Namespace) -> int:
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
        document = {"shell": options.shell, "script": script}
        print_result(options, document, script, sys.stdout.write)
        return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of a parser and of all its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        elif not isinstance(action, argparse._HelpAction):
            yield action


COMMANDS = (Completion(),)
