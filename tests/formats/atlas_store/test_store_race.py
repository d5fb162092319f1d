"""A race of readers with a writer; ``race.py`` runs it for longer by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RACE = Path(__file__).with_name("race.py")
SECONDS = float(os.environ.get("ATOMPACK_RACE_SECONDS", "2"))


@pytest.mark.exhaustive  # the interleavings are tested in C++; this is about processes
@pytest.mark.timeout(120 + 2 * SECONDS)
@pytest.mark.parametrize("durable", [False, True])
def test_no_reader_sees_two_flushes_at_once(durable: bool) -> None:
    """Values, attributes and statistics of one flush, or a refusal; the original reads along."""
    for seconds in (SECONDS, 4 * SECONDS, 16 * SECONDS):  # longer where the machine is busy
        found = race(seconds, durable)
        assert found["reader"]["mixed"] == 0, found
        happened = found["writer"]["flushes"] > 0 and found["original"]["reads"] > 0
        if happened and found["reader"]["reads"] > found["reader"]["refused"]:
            return
    pytest.fail(f"no reader came to read next to the writer: {found}")


def race(seconds: float, durable: bool) -> dict[str, dict[str, int]]:
    """The counts that the race prints."""
    options = ["--durable"] if durable else []
    done = subprocess.run(
        [sys.executable, str(RACE), "--seconds", str(seconds), "--original", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, int]] = json.loads(done.stdout)
    return found
