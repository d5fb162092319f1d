"""A fault of the disk in each writer; ``tests/soak/run.py`` tries every call of all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from soak.faults import CASES, Faults, failing_scripts


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    folder = tmp_path_factory.mktemp("faults")
    with failing_scripts(folder) as scripts:
        yield Faults(folder, scripts)


@pytest.mark.parametrize("name", CASES)
def test_faults(faults: Faults, name: str) -> None:
    """The disk fails once half-way, and is full at three quarters."""
    n = faults.n_calls(name)
    results = {
        faults.fail(name, kind, number) for kind, number in (("EIO", n // 2), ("full", 3 * n // 4))
    }
    assert "error" in results
