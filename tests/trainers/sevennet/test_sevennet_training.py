"""Training by SevenNet's Trainer with these batches, next to its own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from pages import run_blocks
from ranks import run_ranks
from sevennet_cases import BATCH, TYPE_MAP, losses, new_trainer, stock_loader
from structures import CUTOFF, structures, write_atp

from atompack_torch.trainers import sevennet

N = 24


def ours(data: Any, **options: Any) -> Any:
    options = {"batch_size": BATCH, "shuffle": False} | options
    return sevennet.loader(data, TYPE_MAP, CUTOFF, **options)


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-4), (torch.float64, 1e-6)])
def test_the_same_losses(tmp_path: Path, dtype: torch.dtype, rel: float) -> None:
    made = structures(N)
    path = write_atp(tmp_path / "a.atp", made)
    expected = losses(new_trainer(dtype), stock_loader(made, dtype))
    found = losses(new_trainer(dtype), ours(path, dtype=dtype))
    assert found == pytest.approx(expected, rel=rel)
    assert len(set(found)) == 20


@pytest.mark.parametrize("without", ["energy", "forces", "stress"])
def test_missing_labels_do_not_count(tmp_path: Path, without: str) -> None:
    made = structures(N, without=(without,))
    path = write_atp(tmp_path / "a.atp", made)
    found = losses(new_trainer(), ours(path, allow_unlabeled=True), 8)
    assert all(map(math.isfinite, found))
    complete = write_atp(tmp_path / "complete.atp", structures(N))
    assert found != pytest.approx(losses(new_trainer(), ours(complete), 8), rel=1e-3)
    for batch in ours(path, allow_unlabeled=True):
        name = {"energy": "total_energy", "forces": "force_of_atoms"}.get(without, without)
        lacks = torch.isin(batch.index, torch.arange(1, N, 3))
        rows = lacks[batch.batch] if without == "forces" else lacks
        assert batch[name][rows].isnan().all()


def test_weights_of_losses(tmp_path: Path) -> None:
    path = write_atp(tmp_path / "a.atp", structures(N))
    trainer = new_trainer(use_weight=True)
    (weighted,) = losses(trainer, ours(path, weights=dict.fromkeys(("energy", "force"), 0.0)), 1)
    (whole,) = losses(new_trainer(use_weight=True), ours(path, weights={}), 1)
    (unweighted,) = losses(new_trainer(), ours(path), 1)
    assert 0 < weighted < whole == pytest.approx(unweighted, rel=1e-5)


def test_two_ranks(tmp_path: Path) -> None:
    """Each molecule once in an epoch, by SevenNet's Trainer and its DDP."""
    path = write_atp(tmp_path / "a.atp", structures(N + 1))
    script = Path(__file__).with_name("sevennet_rank.py")
    found = run_ranks(tmp_path, script, path)
    assert found[0]["weights"] == found[1]["weights"]
    epochs = [[rank["epochs"][number] for rank in found] for number in range(2)]
    for batches in epochs:
        numbers = [n for rank in batches for batch in rank for n in batch]
        assert sorted(numbers) == list(range(N + 1))
        assert len(batches[0]) == len(batches[1])
    assert epochs[0] != epochs[1]


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atp(tmp_path / "train.atp", structures(N))
    monkeypatch.chdir(tmp_path)
    trainer = new_trainer()
    run_blocks("sevennet", model=trainer.model, trainer=trainer)
