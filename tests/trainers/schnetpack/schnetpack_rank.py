"""One rank: trains SchNetPack's task for two epochs under pytorch-lightning."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

sys.path.insert(0, str(Path(__file__).parent))

from schnetpack_cases import task, trainer
from structures import CUTOFF

path, result = sys.argv[1:]
epochs: list[list[int]] = []


class Note(pl.Callback):
    """Notes the structures of each step."""

    def on_train_epoch_start(self, *_: Any) -> None:
        epochs.append([])

    def on_train_batch_start(self, _: Any, __: Any, batch: Any, ___: int) -> None:
        epochs[-1] += batch["_idx"].tolist()


runner = pl.Trainer(
    accelerator="cpu",
    devices=2,
    strategy="ddp",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    callbacks=[Note()],
)
runner.fit(task(), datamodule=trainer.DataModule(path, cutoff=CUTOFF, batch_size=3))
Path(result).write_text(json.dumps({"epochs": epochs}))
