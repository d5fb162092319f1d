"""Lightning with a plain ``DataLoader`` and samplers of this package, resumed between epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pages import LIGHTNING
from torch.utils.data import DataLoader

import atompack_torch as apt

lightning = pytest.importorskip("lightning")
SIZES = np.random.default_rng(0).integers(1, 9, 60)


class Numbers(torch.utils.data.Dataset[Any]):
    """Molecules that are their own numbers."""

    def __len__(self) -> int:
        return len(SIZES)

    def __getitem__(self, index: int) -> int:
        return index


class Noting(lightning.LightningModule):  # type: ignore[misc, name-defined]
    """Notes the molecules of each step, by epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.epochs: dict[int, list[list[int]]] = {}

    def training_step(self, batch: Any) -> Any:
        self.epochs.setdefault(self.current_epoch, []).append(batch.tolist())
        return self.layer(torch.ones(1)).sum()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.01)


def fit(folder: Path, kind: str, n_workers: int, n_epochs: int, **options: Any) -> Any:
    if kind == "budget":
        loader = DataLoader(
            Numbers(), batch_sampler=apt.AtomBudgetBatchSampler(SIZES, 30), num_workers=n_workers
        )
    else:
        sampler = apt.DistributedMoleculeSampler(len(SIZES))
        loader = DataLoader(Numbers(), 8, sampler=sampler, num_workers=n_workers)
    module = Noting()
    trainer = lightning.Trainer(
        max_epochs=n_epochs,
        devices=1,
        default_root_dir=folder,
        use_distributed_sampler=False,
        **LIGHTNING,
    )
    trainer.fit(module, loader, **options)
    if not options:
        trainer.save_checkpoint(folder / "end.ckpt")
    return module.epochs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("kind", ["budget", "items"])
def test_resumed_at_the_end_of_an_epoch(tmp_path: Path, kind: str, n_workers: int) -> None:
    first = fit(tmp_path, kind, n_workers, 1)
    both = fit(tmp_path, kind, 0, 2, ckpt_path=None)
    resumed = fit(tmp_path, kind, n_workers, 2, ckpt_path=tmp_path / "end.ckpt")
    assert first[0] == both[0] != both[1]
    assert resumed == {1: both[1]}
