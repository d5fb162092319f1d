"""A race of readers with a writer; ``race.py`` runs it for longer by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RACE = Path(__file__).with_name("race.py")
SECONDS = float(os.environ.get("ATOMPACK_RACE_SECONDS", "3"))


@pytest.mark.timeout(120 + 2 * SECONDS)
@pytest.mark.parametrize("durable", [False, True])
def test_no_reader_sees_two_flushes_at_once(durable: bool) -> None:
    """Values, attributes and statistics of one flush, or a refusal; the original reads along."""
    options = ["--durable"] if durable else []
    done = subprocess.run(
        [sys.executable, str(RACE), "--seconds", str(SECONDS), "--original", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["writer"]["flushes"] > 0
    assert found["reader"]["reads"] > found["reader"]["refused"]
    assert found["reader"]["mixed"] == 0, done.stderr
    assert found["original"]["reads"] > 0, found["original"]
