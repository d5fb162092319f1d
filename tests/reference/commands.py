"""Commands of the program, run in the process of a test."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from atompack_torch.cli import main


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
