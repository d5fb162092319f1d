"""Commands for the tests of this folder."""

from __future__ import annotations

import pytest
from reference.commands import Command


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command of the program."""
    return Command(capsys)
