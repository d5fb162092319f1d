"""The example for Orb runs as written, and its loss falls."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pages import EXAMPLES
from processes.programs import output_of
from structures import structures, write_atp

EXAMPLE = EXAMPLES / "train_orb.py"


def test_the_example(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(30))
    printed = output_of([sys.executable, EXAMPLE, path, "--epochs", "3"])
    losses = [float(value) for value in re.findall(r"loss +([\d.]+)", printed)]
    assert len(losses) == 3
    assert losses[-1] < losses[0]
