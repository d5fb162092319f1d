"""Training MACE with the loader: losses of its own, every structure once, resuming."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mace import modules
from mace_cases import Z_TABLE, losses_of_steps, stock_loader, with_keys
from structures import CUTOFF, structures, write_atp

from atompack_torch.trainers import mace

N = 41


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_atp(tmp_path_factory.mktemp("mace") / "a.atp", structures(N))


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


def test_losses_of_twenty_steps(path: Path, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    batches = [rng.permutation(N)[:4].tolist() for _ in range(20)]
    loss = modules.WeightedEnergyForcesStressLoss(1.0, 10.0, 1.0)
    expected = losses_of_steps(stock_loader(with_keys(structures(N)), batches), loss)
    found = losses_of_steps(mace.loader(path, Z_TABLE, CUTOFF, batch_sampler=batches), loss)
    assert len(found) == 20
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == torch.float64 else 1e-4)


def test_losses_with_missing_labels(tmp_path: Path, dtype: torch.dtype) -> None:
    """They are finite, and those of MACE where it knows that the labels are missing."""
    without = ("forces", "stress", "energy")
    path = write_atp(tmp_path / "a.atp", structures(N, without=without))
    batches = [[*range(first, first + 2)] for first in range(0, 40, 2)]
    for loss in (
        modules.WeightedEnergyForcesStressLoss(1.0, 10.0, 1.0),
        modules.UniversalLoss(1.0, 10.0, 1.0),
        modules.WeightedHuberEnergyForcesStressLoss(1.0, 10.0, 1.0),
    ):
        stock = stock_loader(with_keys(structures(N, without=without)), batches)
        expected = losses_of_steps(stock, loss)
        ours = mace.loader(path, Z_TABLE, CUTOFF, batch_sampler=batches)
        found = losses_of_steps(ours, loss)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == torch.float64 else 1e-3)
