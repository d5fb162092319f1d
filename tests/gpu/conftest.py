"""A device for each test: CUDA where there is one, else the CPU; and the data that tests share.

These tests need nothing of the other folders, so that they run on machines with little else than
torch and pytest: ``make test-gpu``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import atompack_torch as apt


@pytest.fixture
def device() -> torch.device:
    """The device of tests that the CPU can run too."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def cuda() -> torch.device:
    """The device of tests that need a CUDA device."""
    if not torch.cuda.is_available():
        pytest.skip("missing hardware: no CUDA device")
    return torch.device("cuda")


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 300 structures of 1 to 40 atoms, some of them periodic and with labels."""
    rng = np.random.default_rng(0)
    place = tmp_path_factory.mktemp("gpu") / "a.atp"
    with apt.AtpWriter(place) as writer:
        for k in range(300):
            n = int(rng.integers(1, 41))
            length = (12.0 * n) ** (1 / 3) + 1
            labels: dict[str, Any] = {"energy": float(k)} if k % 5 else {}
            if k % 3:
                cell = np.eye(3) * length + 0.2 * rng.random((3, 3))
                labels |= {"cell": cell, "pbc": [True, True, k % 2 == 0]}
            positions = (length * rng.random((n, 3))).astype(np.float32)
            forces = rng.normal(size=(n, 3)).astype(np.float32)
            writer.write(
                apt.Molecule(
                    positions, rng.choice([1, 8], n), forces=forces, name=f"s{k}", **labels
                )
            )
    return place


def assert_same(found: apt.MoleculeBatch, expected: apt.MoleculeBatch) -> None:
    """Compares all fields and masks bit for bit, wherever the batches are."""
    assert found.keys() == expected.keys()
    for name in expected.keys():
        ours, theirs = found[name], expected[name]
        if isinstance(theirs, torch.Tensor):
            assert ours.dtype == theirs.dtype, name
            torch.testing.assert_close(ours.cpu(), theirs.cpu(), rtol=0, atol=0, equal_nan=True)
        else:
            assert ours == theirs, name
        assert torch.equal(found.mask(name).cpu(), expected.mask(name).cpu()), name
