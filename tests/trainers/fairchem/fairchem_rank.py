"""Trains on one of several ranks by fairchem's unit and loop.

usage: fairchem_rank.py DATA EPOCHS RESULT

RESULT, in JSON: for each epoch the molecules of each batch, and the loss of each step.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import fairchem_cases as cases
import torch
import torch.distributed
from structures import CUTOFF

from atompack_torch.trainers import fairchem


class Numbered:
    """Loader that keeps the numbers of the molecules of each epoch."""

    def __init__(self, loader: fairchem.Loader) -> None:
        self._loader, self.epochs = loader, list[list[list[int]]]()
        self.dataset, self.batch_sampler = loader.dataset, loader.batch_sampler

    def __iter__(self) -> Any:
        self.epochs.append([])
        for data in self._loader:
            self.epochs[-1].append(data.molecule_number.tolist())
            yield data

    def __len__(self) -> int:
        return len(self._loader)


def main() -> None:
    data, epochs, result = sys.argv[1:]
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=120))
    tasks = cases.tasks({"a": cases.LABELS})
    names = {label: f"a_{label}" for label in cases.LABELS}
    options: Any = {"task": "a", "tasks": tasks, "labels": names, "flat_stress": True}
    loader = Numbered(fairchem.loader(data, max_atoms=12, cutoff=CUTOFF, **options))
    unit = cases.unit(cases.model(["a"]), tasks, ema_decay=None)
    record = cases.Record()
    cases.train(unit, train_dataloader=loader, callbacks=[record], max_epochs=int(epochs))
    Path(result).write_text(json.dumps({"epochs": loader.epochs, "losses": record.losses}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
