"""Trains on one of several ranks by TrainingStrategy and its DDPHook.

usage: nvalchemi_ddp_rank.py DATA early|late plain|stock RESULT

The hook joins the ranks when training starts: ``late``, after the loader was made. The model is
nvalchemi's demo, ``plain`` without the norm that its embedding gives to the rows that it uses.
RESULT, in JSON: molecules and loss of each step, all weights before and after them.
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


def weights_of(strategy: Any) -> dict[str, list[float]]:
    (model,) = strategy.models.values()
    return {name: value.flatten().tolist() for name, value in model.named_parameters()}


def main() -> None:
    data, when, kind, result = sys.argv[1:]
    if when == "early":
        torch.distributed.init_process_group("gloo")
    loader = nvalchemi.loader(data, 3, dtype=torch.float64)
    record = cases.Record()
    strategy = cases.strategy(torch.float64, record, num_epochs=2)
    strategy.training_fn = note_batch
    if kind == "plain":
        (model,) = strategy.models.values()
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                module.max_norm = None
    strategy.register_hook(DDPHook(backend="gloo"))
    before = weights_of(strategy)
    strategy.run(loader)
    found = {"molecules": molecules, "losses": record.losses, "before": before}
    found["weights"] = weights_of(strategy)
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
