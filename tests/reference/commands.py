"""Commands of the program, run in the process of a test."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from atompack_torch.cli import build_parser, main

PROGRAM = ("-m", "atompack_torch")


class Shown(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)


class Command:
    """Runs commands; their exit status has to be the one expected.

    Attributes:
        printed: what all of them printed.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.printed = ""

    def __call__(self, *arguments: object, status: int = 0) -> Shown:
        self._capsys.readouterr()
        try:
            found = main([*map(str, arguments)])
        except SystemExit as end:  # argparse itself
            found = int(end.code or 0)
        shown = Shown(*self._capsys.readouterr())
        self.printed += shown.out + shown.err
        assert found == status, shown.err
        return shown


def python(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs Python to its end, in a new process with all that it prints as text.

    Args:
        *arguments: what follows on its command line, such as ``PROGRAM``.
        **options: of ``subprocess.run``; ``env`` adds to the environment.
    """
    given = {"capture_output": True, "text": True, "timeout": 200, "check": False, **options}
    if "env" in options:
        given["env"] = {**os.environ, **options["env"]}
    return subprocess.run([sys.executable, *map(str, arguments)], **given)


def parsers() -> dict[str, argparse.ArgumentParser]:
    """All commands, by their words: ``convert``, ``cache build``, and none for the program."""

    def below(parser: argparse.ArgumentParser, words: str) -> dict[str, argparse.ArgumentParser]:
        found = {words: parser}
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, command in action.choices.items():
                    found |= below(command, f"{words} {name}".strip())
        return found

    return below(build_parser()[0], "")
