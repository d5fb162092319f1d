"""Two machines that train from one store, in network namespaces; ``make soak`` goes further."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak.machines import SKIPPED, train_on_two_machines


@pytest.mark.skipif(bool(SKIPPED), reason=SKIPPED)
def test_training_through_kills_and_broken_connections(tmp_path: Path) -> None:
    counts = train_on_two_machines(tmp_path, seed=0)
    assert counts == {"epochs": 3, "interruptions": 2, "killed trainings": 1}
