"""One rank: trains TorchMD-Net's task for two epochs under Lightning."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch

sys.path.insert(0, str(Path(__file__).parent))

from torchmdnet_cases import task

from atompack_torch.trainers import torchmdnet

path, result = sys.argv[1:]
epochs: list[list[int]] = []


class Note(lightning.Callback):
    """Notes the structures of each step."""

    def on_train_epoch_start(self, *_: Any) -> None:
        epochs.append([])

    def on_train_batch_start(self, _: Any, __: Any, batch: Any, ___: int) -> None:
        epochs[-1] += batch.index.tolist()


runner = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp_find_unused_parameters_true",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    limit_val_batches=0,
    callbacks=[Note()],
)
trained = task(torch.float32)
trained.configure_optimizers = lambda: torch.optim.AdamW(trained.parameters(), lr=1e-3)
runner.fit(trained, datamodule=torchmdnet.DataModule(path, batch_size=3))
Path(result).write_text(json.dumps({"epochs": epochs}))
