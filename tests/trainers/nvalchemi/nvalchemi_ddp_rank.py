"""Trains on one of several ranks by TrainingStrategy and its DDPHook.

usage: nvalchemi_ddp_rank.py DATA early|late RESULT

The hook joins the ranks when training starts: ``late``, after the loader was made. RESULT, in JSON:
molecules and loss of each step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import nvalchemi_cases as cases
import torch
import torch.distributed
from nvalchemi.training import default_training_fn
from nvalchemi.training.hooks import DDPHook

from atompack_torch.trainers import nvalchemi

molecules: list[list[int]] = []


def note_batch(model: Any, batch: Any) -> Any:
    molecules.append(batch.molecule_number.tolist())
    return default_training_fn(model, batch)


def main() -> None:
    data, when, result = sys.argv[1:]
    if when == "early":
        torch.distributed.init_process_group("gloo")
    loader = nvalchemi.loader(data, 3, dtype=torch.float64)
    record = cases.Record()
    strategy = cases.strategy(torch.float64, record, num_epochs=2)
    strategy.training_fn = note_batch
    strategy.register_hook(DDPHook(backend="gloo"))
    strategy.run(loader)
    found = {"molecules": molecules, "losses": record.losses}
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
