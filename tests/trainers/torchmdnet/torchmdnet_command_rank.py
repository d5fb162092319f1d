"""Runs the command, and notes the structures of each step of training.

usage: torchmdnet_command_rank.py ARGUMENTS...

Lightning starts this script again for the other ranks. Each writes ``$NOTES.RANK`` in JSON:
``epochs``, the structures of each step by epoch, and ``weights``, the sum of each parameter after
the last one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from torchmdnet.module import LNNP

from atompack_torch.trainers.torchmdnet._command import main

epochs: dict[int, list[list[int]]] = {}
weights: dict[str, float] = {}
training_step = LNNP.training_step


def note_step(self: LNNP, batch: Any, batch_idx: int) -> Any:
    epochs.setdefault(self.current_epoch, []).append(batch.index.tolist())
    return training_step(self, batch, batch_idx)


def note_weights(self: LNNP) -> None:
    weights.update((name, value.detach().sum().item()) for name, value in self.named_parameters())


if __name__ == "__main__":
    LNNP.training_step = note_step
    LNNP.on_train_end = note_weights
    main()
    rank = os.environ.get("LOCAL_RANK", "0")
    notes = {"epochs": [*epochs.values()], "weights": weights}
    Path(f"{os.environ['NOTES']}.{rank}").write_text(json.dumps(notes))
